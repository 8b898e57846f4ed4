"""Makes a QGIS style of a release: regions by crowd in colours, exact rows apart and on top, times by their columns."""

from collections.abc import Sequence
from string import Template
from typing import NamedTuple

_CROWD_COLOURS = ((253, 231, 37), (94, 201, 98), (33, 145, 140), (59, 82, 139), (68, 1, 84))  # viridis, by rising crowd
_EXACT_COLOUR = (214, 39, 40)
_OPACITY = 0.5  # regions overlap

# What QGIS itself writes, less its defaults. limitMode 0: the start of a period is part of it, its end is not.
_STYLE_TEMPLATE = Template("""\
<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology|Temporal">
  <temporal enabled="1" mode="2" startField="valid_from" endField="valid_to" limitMode="0" accumulate="0"/>
  <renderer-v2 type="graduatedSymbol" attr="crowd" graduatedMethod="GraduatedColor" symbollevels="1">
    <ranges>
$ranges
    </ranges>
    <symbols>
$symbols
    </symbols>
  </renderer-v2>
  <layerGeometryType>2</layerGeometryType>
</qgis>
""")
_RANGE_TEMPLATE = Template('      <range symbol="$n" lower="$low" upper="$high" label="$label" render="true"/>')
_REGION_TEMPLATE = Template("""\
      <symbol name="$n" type="fill" alpha="$opacity">
        <layer class="SimpleFill" enabled="1" pass="0">
          <Option type="Map">
            <Option name="color" type="QString" value="$colour,255"/>
            <Option name="style" type="QString" value="solid"/>
            <Option name="outline_color" type="QString" value="60,60,60,255"/>
            <Option name="outline_style" type="QString" value="solid"/>
            <Option name="outline_width" type="QString" value="0.1"/>
            <Option name="outline_width_unit" type="QString" value="MM"/>
          </Option>
        </layer>
      </symbol>""")
# A cell of the grid is too small to be seen: it is drawn as a point of one size on all scales.
_POINT_TEMPLATE = Template("""\
      <symbol name="$n" type="fill" alpha="1">
        <layer class="CentroidFill" enabled="1" pass="1">
          <symbol name="@$n@0" type="marker" alpha="1">
            <layer class="SimpleMarker" enabled="1" pass="0">
              <Option type="Map">
                <Option name="name" type="QString" value="circle"/>
                <Option name="color" type="QString" value="$colour,255"/>
                <Option name="outline_style" type="QString" value="no"/>
                <Option name="size" type="QString" value="1.4"/>
                <Option name="size_unit" type="QString" value="MM"/>
              </Option>
            </layer>
          </symbol>
        </layer>
      </symbol>""")


class Range(NamedTuple):
    """A class of the legend: crowds from `low` to `high`, both included."""

    low: int
    high: int

    @property
    def label(self) -> str:
        """What the legend says."""
        if self.high == 1:
            return "exact: crowd 1, hides no one"
        return f"crowd {self.low}" if self.low == self.high else f"crowd {self.low} to {self.high}"


def cut_ranges(crowds: Sequence[tuple[int, int]]) -> list[Range]:
    """Divide the crowds of a release into at most five classes of about as many rows each, after one for exact rows.

    `crowds`: in ascending order of crowd.
    """
    hidden = [(crowd, rows) for crowd, rows in crowds if crowd > 1]
    found = [Range(1, 1)] if len(hidden) < len(crowds) else []
    total, done, low, made = sum(rows for _, rows in hidden), 0, None, 0
    for place, (crowd, rows) in enumerate(hidden):
        low = crowd if low is None else low
        done += rows
        left = len(hidden) - place - 1
        # A class ends where its share of all rows is reached, or where each value that is left can be a class.
        if done * len(_CROWD_COLOURS) >= (made + 1) * total or left <= len(_CROWD_COLOURS) - made - 1:
            found.append(Range(low, crowd))
            low, made = None, made + 1
    return found


def write_qml(crowds: Sequence[tuple[int, int]]) -> str:
    """Make the style of a release with so many rows of each crowd, as QGIS loads it."""
    classes = cut_ranges(crowds)
    hiding = [one for one in classes if one.high > 1]
    symbols = []
    for n, one in enumerate(classes):
        if one.high == 1:
            symbols.append(_POINT_TEMPLATE.substitute(n=n, colour=_format_colour(_EXACT_COLOUR)))
            continue
        step = hiding.index(one) * (len(_CROWD_COLOURS) - 1) // max(len(hiding) - 1, 1)
        symbols.append(_REGION_TEMPLATE.substitute(n=n, colour=_format_colour(_CROWD_COLOURS[step]), opacity=_OPACITY))
    lines = [_RANGE_TEMPLATE.substitute(n=n, low=c.low, high=c.high, label=c.label) for n, c in enumerate(classes)]
    return _STYLE_TEMPLATE.substitute(ranges="\n".join(lines), symbols="\n".join(symbols))


def _format_colour(colour: tuple[int, int, int]) -> str:
    return ",".join(map(str, colour))

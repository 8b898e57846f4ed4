"""Draws what pages show of the rows of a release: maps, and charts of sizes, crowds and who is left out."""

from markupsafe import Markup

from dbanon.base.errors import format_count
from dbanon.pages import charts, layout, maps, words
from dbanon.pages.disclosure import Shown, name_levels
from dbanon.pages.words import Blocks, localise
from dbanon.results.figures import format_percent

_ALIGN_WORDS = {
    "last": "the last known position",
    "linear": "the place between the fix before and the one after",
    "exact": "the place of a fix at that time",
}
"""How positions were found."""


class Drawn(Blocks):
    """Maps and charts, each with its heading and caption."""

    def draw_map(self) -> Markup:
        """Draw the regions that hold at one time."""
        moment, window = self.shown.moment, self.shown.window
        if moment is None or window is None:
            return layout.make_card("No map", "There are no rows that hide people, so there is nothing to draw.")
        at = moment.at.astimezone(self.zone)
        time = f"{at:%H:%M}"
        drawn = maps.draw_map(
            "published-map",
            f"Published at {time}",
            f"Drawn of the rows that hide {self.shown.k} or more people at {time}: {moment.said}.",
            window,
            self._streets,
            maps.draw_regions(moment.regions, marked=moment.marked),
        )
        caption = Markup(
            '<b class="is-published">Published: {} of the {} that hold at {} and hide people.</b> {}'
        ).format(moment.said, format_count(moment.rows, "row"), time, self._describe_map())
        return layout.make_picture(drawn, caption, class_="map") + self.draw_expected(name="Surface")

    def draw_expected(self, *, name: str) -> Markup:
        """Draw where the rows of the hour expect people, by the `Surface`, or spread `Evenly` over their regions."""
        moment, window = self.shown.moment, self.shown.window
        squares = moment and (moment.expected if name == "Surface" else moment.even)
        if moment is None or window is None or not squares or (name == "Surface" and squares == moment.even):
            return Markup("")
        hour = f"{moment.at.replace(minute=0).astimezone(self.zone):%H:%M}"
        about = {
            "Surface": "Published: where people are likely, as all rows together say (published.surfaces).",
            "Evenly": "Spread evenly over each region: what the rows say one by one.",
        }[name]
        title, layers = f"{name} in the hour of {hour}", (self._streets, maps.draw_cells(squares))
        drawn = maps.draw_map(f"{name.lower()}-map", title, about, window, *layers)
        classes = ("1 to 2 times the mean of the map", "2 to 4 times", "4 to 8 times", "more")
        legend = layout.make_legend((f"class-{n}", word) for n, word in enumerate(classes, 1))
        caption = Markup('<b class="is-published">{}</b> {}').format(about, legend)
        return layout.make_picture(drawn, caption, class_="map")

    @property
    def _streets(self) -> Markup:
        return maps.draw_streets(self.shown.streets)

    def _describe_map(self) -> str:
        shading = f"One region hides {words.spell_number(self.shown.k)} or more people. Where many lie it is darker."
        outside = " The map shows where 95 % of the people and time are. Rows may lie outside."
        exact = f" Exact rows ({format_percent(self.shown.exact)}) are not drawn." if self.shown.exact else ""
        w = self.shown.window  # it is of the published rows
        place = (
            f" It spans x {w.x0:,.0f} to {w.x1:,.0f}, y {w.y0:,.0f} to {w.y1:,.0f} in SRID {self.record.srid}."
            if w
            else ""
        )
        return shading + outside + exact + place

    def draw_pair(self) -> Markup:
        """Draw what is private beside what is published, at one time."""
        moment, window, truth = self.shown.moment, self.shown.window, self.truth
        if moment is None or window is None or truth is None:
            return layout.make_columns(self.draw_map())
        at = f"{moment.at.astimezone(self.zone):%H:%M}"
        left = maps.draw_map(
            "private-map",
            f"Private at {at}",
            f"Where {format_count(truth.people, 'person', 'people')} were at {at}, {_ALIGN_WORDS[truth.align]}: "
            "one dot each.",
            window,
            self._streets,
            maps.draw_dots(truth.places),
            maps.draw_dots(truth.marked, size=7, marked=True),
            private=True,
        )
        inside = f"{len(truth.places)} of {truth.people} are in the map. Each is {_ALIGN_WORDS[truth.align]}."
        caption = Markup('<b class="is-private">Private: where {:,} people were at {}.</b> One dot each. {}').format(
            truth.people, at, inside
        )
        group = (
            layout.make_card(
                "How to read the pair",
                "The outlined dots are one group, and the outlined region is its row. A reader of the view sees the "
                "region and the values that hold for all people in it. The reader sees neither their names nor their "
                "places inside.",
            )
            if len(truth.marked)
            else Markup("")
        )
        private = layout.make_picture(left, caption, class_="map")
        return layout.make_columns(private, self.draw_map(), self.draw_expected(name="Evenly"), group)

    def draw_hours(self) -> Markup:
        """Draw each hour of a day as a small map of cells."""
        window = self.shown.window
        if window is None or not self.shown.hours:
            return Markup("")
        side = charts.format_metres(self.shown.cell_m)
        few, used = not self.shown.exact, name_levels(self.shown.k)
        legend = layout.make_legend([(f"class-{n}", f"{name} people") for n, name in enumerate(used) if n or few])
        figures = []
        for place, (hour, cells) in enumerate(self.shown.hours):
            name = f"{hour:%H:%M}"
            drawn = maps.draw_map(
                f"hour-{place}",
                f"People at {name}",
                # Each cell is a closed path, which begins with M.
                "; ".join(f"cells with {used[n]}: {path.count('M')}" for n, path in sorted(cells.items())) or "none",
                window,
                maps.draw_cells(cells),
                has_bar=False,
            )
            figures.append(layout.make_picture(drawn, name))
        lead = (
            f"The answer of published.density: people expected in each square of {side}, mean of the hour, where the "
            "rows together say that people are likely."
        )
        return layout.make_section("Hour by hour", legend, layout.make_map_grid(*figures), lead=lead)

    def draw_atoms(self) -> Markup:
        """Draw the cells that rows are made of."""
        window = self.shown.window
        if window is None or not self.shown.atoms:
            return Markup("")
        shape = Markup('<path d="{}" class="line-published"/>').format(self.shown.atoms)
        drawn = maps.draw_map("atoms", "Atoms", "The cells that rows are made of. They are public.", window, shape)
        return layout.make_picture(drawn, "The cells that rows are made of (published.atoms).", class_="map")

    def draw_sizes(self) -> Markup:
        """Draw how long regions are."""
        shown = self.shown
        if not shown.sizes or len(shown.sides) != 3:
            return Markup("")
        return layout.make_block(
            "How long are the regions?",
            layout.make_picture(
                draw_sizes("sizes", "How long the regions are", shown),
                f"Longer sides: a tenth lies in regions under {words.format_length(shown.sides[0])}, nine tenths under "
                f"{words.format_length(shown.sides[2])}. A region counts for each of its people and minutes. The last "
                "bar is open: it holds all that are longer.",
            ),
        )

    def draw_crowds(self) -> Markup:
        """Draw how many people a row hides."""
        rows = [charts.Bar(label=label, value=share, text=format_percent(share)) for label, share in self.shown.crowds]
        if not rows:
            return Markup("")
        text = "; ".join(f"{row.label}: {row.text}" for row in rows)
        drawn = charts.draw_bars(
            "crowds", "How many people a row hides", f"Share of people and time: {text}.", rows, most=1
        )
        return layout.make_block(
            "How many people does a row hide?",
            layout.make_picture(drawn, f"Share of people and time. k is {self.shown.k}. The last bar is open."),
        )

    def draw_left_out(self) -> Markup:
        """Draw who is left out by hour, as readers see it."""
        hours = [
            (localise(since, self.zone), localise(until, self.zone), n)
            for since, until, n in self.record.left_out.hours
        ]
        hours = hours[-48:]
        if not hours:
            return Markup("")
        since, until = hours[0][0], hours[-1][1]
        assert since is not None and until is not None  # noqa: S101, PT018
        span_h = (until - since).total_seconds() / 3600
        every = next((step for step in (1, 2, 3, 6, 12, 24) if span_h / step <= 5), 24)
        ticks = [(h, f"{since + (until - since) * (h / span_h):%H:%M}") for h in range(0, int(span_h) + 1, every)]
        blocks = [
            charts.Block(
                since=(a - since).total_seconds() / 3600, until=(b - since).total_seconds() / 3600, value=n, kind="gone"
            )
            for a, b, n in hours
            if a is not None and b is not None
        ]
        most = max(hours, key=lambda hour: hour[2])
        drawn = charts.draw_columns(
            "left-out",
            "People left out by hour",
            f"Percent of the people and times seen that are left out: at most {most[2]} %, from {most[0]:%H:%M} to "
            f"{most[1]:%H:%M}.",
            blocks,
            x=charts.Axis(low=0, high=span_h, ticks=ticks),
            y=charts.make_axis(most[2], unit=" %", steps=3),
        )
        return layout.make_block(
            "When are people left out?",
            layout.make_picture(
                drawn,
                f"Percent of people left out, most from {most[0]:%H:%M} to {most[1]:%H:%M} ({most[2]} %). Hours in "
                "which few people are left out are joined, as in published.left_out.",
            ),
        )

    def draw_questions(self) -> Markup:
        """Draw what the rows tell to some questions."""
        rows = self.shown.questions
        if not rows:
            return Markup("")
        high = max(one.at_most for one in rows)
        drawn = charts.draw_ranges(
            "questions",
            "Questions about squares",
            "; ".join(f"{q.label}: {q.at_least:,.0f} to {q.at_most:,.0f}, expected {q.expected:,.0f}" for q in rows)
            + ".",
            [charts.Range(label=q.label, low=q.at_least, high=q.at_most, dot=q.expected) for q in rows],
            charts.make_axis(high, name="people in the square"),
        )
        return layout.make_block(
            "Some questions",
            layout.make_picture(
                drawn,
                Markup(
                    "People in squares at some moments. Bar: <code>at_least</code> to <code>at_most</code>, which "
                    'always hold. <b class="is-published">Dot: expected</b>, a guess.'
                ),
            ),
        )

    def join_pictures(self) -> Markup:
        """Put the charts of the rows together."""
        blocks = [self.draw_left_out(), self.draw_sizes(), self.draw_crowds(), self.draw_atoms()]
        return layout.make_section("The rows in pictures", layout.make_columns(*filter(None, blocks)))


def draw_sizes(name: str, title: str, shown: Shown) -> Markup:
    """Draw a histogram of the longer sides of regions, and where the middle one is."""
    low, half, high = map(words.format_length, shown.sides)
    return charts.draw_histogram(
        name,
        title,
        f"Longer side of a region: a tenth under {low}, half under {half}, nine tenths under {high}.",
        shown.sizes,
        mark=(shown.sides[1], f"half are under {half}"),
        axis="longer side of the region",
    )

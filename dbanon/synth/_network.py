"""Makes street networks: the built-in city, and any other from a file of nodes and a file of edges.

The invariant kept here: a `Network` is in one piece and in metres. What a file holds outside its largest connected part
is left out and counted. No message quotes a cell of a file.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from dbanon.base.errors import DataError, ParameterError, format_count
from dbanon.options.generating import MIN_LIMIT_KMH
from dbanon.synth import _utm

Int = NDArray[np.int32]
Float = NDArray[np.float64]

PLACE_DEGREES = (8.2, 53.14)
"""Where the middle of a network without a place on Earth is put, degrees WGS 84: fields west of Oldenburg."""

CITY_LIMITS_KMH = (50.0, 30.0, 20.0)
"""Highest speed on each class of the city's streets: main road, street, lane."""

LIMITS_KMH: Mapping[str, Mapping[int, float]] = {
    "class": {0: 110, 1: 90, 2: 70, 3: 50, 4: 40, 5: 30, 6: 20},
    "classcode": {0: 20, 1: 90, 2: 65, 3: 50, 4: 40, 5: 40, 6: 50},
}
"""Highest speed by class of edge, for the two columns that classes are read from.

``class`` counts from 0, the fastest, to 6, as in Brinkhoff's files; ``classcode`` is San Francisco's: 1 freeway,
2 highway, 3 arterial, 4 collector, 5 residential, 6 ramp, 0 other.
"""

LIMIT_KMH = 50.0
"""Highest speed where a network says nothing of it."""


MAIN_ROAD_EVERY_BLOCKS = 4
SHORTEST_EDGE_M = 0.01

_NUMBER_PATTERN = r"[+-]?\.?[0-9]"
_NODE_COLUMNS = {"id": ("id", "node"), "x": ("x", "lon", "longitude"), "y": ("y", "lat", "latitude")}
_EDGE_COLUMNS = {
    "from": ("from", "u", "source"),
    "to": ("to", "v", "target"),
    "length": ("length", "length_m"),
    "class": ("class",),
    "classcode": ("classcode",),
    "limit_kmh": ("limit_kmh",),
}


@dataclass(frozen=True, eq=False)
class Network:
    """A street network in one piece; every edge may be used both ways."""

    name: str  # where it comes from
    x: Float  # [n]; x, y: nodes, metres
    y: Float  # [n]
    edge_from: Int  # int32[e]; edge_from, edge_to: the two nodes of each edge
    edge_to: Int  # int32[e]
    # Never below the distance of the two nodes, so that nothing moves faster on the map than it drives.
    length_m: Float  # [e]
    limit_mps: Float  # [e]: highest speed on each edge
    srid: int  # reference system of x and y
    left_out: int = 0  # how many nodes of the files lie outside the largest connected part

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The network's bounding box, metres: least x, least y, greatest x, greatest y."""
        return float(self.x.min()), float(self.y.min()), float(self.x.max()), float(self.y.max())

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Middle of the network's bounding box and half its sides, metres: x, y, half_x, half_y."""
        low_x, low_y, high_x, high_y = self.bounds
        half = max(high_x - low_x, 1.0) / 2, max(high_y - low_y, 1.0) / 2
        return (low_x + high_x) / 2, (low_y + high_y) / 2, *half


# ---- the built-in city -----------------------------------------------------------------------------------------------


def make_city(
    rng: np.random.Generator,
    blocks: int = 16,
    block_m: float = 120.0,
    *,
    lon: float | None = None,
    lat: float | None = None,
) -> Network:
    """Make a small connected city: a crooked grid with main roads, some diagonals and some missing streets.

    Parameters
    ----------
    blocks : int
        Blocks along each side; there are ``(blocks + 1) ** 2`` crossings.
    block_m : float
        Mean side of a block in metres.
    lon, lat : float, optional
        Where its middle is put, degrees; `PLACE_DEGREES` by default.
    """
    if not 1 <= blocks <= 1000 or not block_m > 0:
        raise ParameterError(
            f"A city must have 1 to 1000 blocks a side, each above 0 m. Got {blocks} of {block_m:g} m. Change --blocks."
        )
    side = blocks + 1
    row, column = np.divmod(np.arange(side * side, dtype=np.int32), side)
    x = (column + rng.uniform(-0.15, 0.15, side * side)) * block_m
    y = (row + rng.uniform(-0.15, 0.15, side * side)) * block_m
    # The order of draws is part of the result: crossings, streets, then which are missing.
    edge_from, edge_to, kind = _list_streets(row, column, side, rng)
    # Main roads are all there; of the others an eighth is missing unless the city would fall apart.
    missing = (kind > 0) & (rng.random(len(kind)) < 0.12)
    keep = _keep_connected(side * side, edge_from, edge_to, ~missing)
    limit = np.array(CITY_LIMITS_KMH)[kind[keep]] / 3.6
    x, y, srid = _put(x, y, lon, lat)
    return _make_network("city", x, y, edge_from[keep], edge_to[keep], limit_mps=limit, srid=srid)


def _list_streets(row: Int, column: Int, side: int, rng: np.random.Generator) -> tuple[Int, Int, Int]:
    """List every street the city might have: along rows, along columns, and one diagonal in some blocks."""
    node = np.arange(side * side, dtype=np.int32)
    east, north = node[column < side - 1], node[row < side - 1]
    corner = node[(column < side - 1) & (row < side - 1)]
    corner = corner[rng.random(len(corner)) < 0.08]
    lane_east, lane_north = rng.random(len(east)) < 0.25, rng.random(len(north)) < 0.25
    class_east = np.where(row[east] % MAIN_ROAD_EVERY_BLOCKS == 0, 0, 1 + lane_east)
    class_north = np.where(column[north] % MAIN_ROAD_EVERY_BLOCKS == 0, 0, 1 + lane_north)
    edge_from = np.concatenate([east, north, corner])
    edge_to = np.concatenate([east + 1, north + side, corner + side + 1])
    kind = np.concatenate([class_east, class_north, np.ones(len(corner))]).astype(np.int32)
    return edge_from, edge_to, kind


def _keep_connected(nodes: int, edge_from: Int, edge_to: Int, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add to the wanted streets the fewest unwanted ones that join the parts of the city: those of a spanning tree."""
    # A spanning tree of least cost takes an unwanted street only where no wanted one joins two parts.
    cost = np.where(wanted, 1.0, 2.0)
    tree = csgraph.minimum_spanning_tree(sparse.coo_array((cost, (edge_from, edge_to)), shape=(nodes, nodes)))
    ends = tree.tocoo()
    needed = np.isin(edge_from.astype(np.int64) * nodes + edge_to, ends.row.astype(np.int64) * nodes + ends.col)
    return np.asarray(wanted | needed)


# ---- networks from files ---------------------------------------------------------------------------------------------


def read(
    nodes: Path,
    edges: Path,
    *,
    srid: int | None = None,
    lon: float | None = None,
    lat: float | None = None,
    limits_kmh: Mapping[int, float] | None = None,
) -> Network:
    """Read a network from a file of nodes and a file of edges, and keep its largest connected part.

    Parameters
    ----------
    nodes : Path
        CSV (comma, semicolon or tab; also gzipped) with the columns id (or node), and lon and lat in degrees or x and y
        in metres; or without header, in blanks: id x y.
    edges : Path
        CSV with the columns from and to (or u and v), and if it has them: length (or length_m, metres), limit_kmh,
        class or classcode (see `LIMITS_KMH`); or without header, in blanks: id from to length, or, where lines end with
        a ``*`` as in Brinkhoff's files, id from to class.
    srid : int, optional
        Of coordinates in degrees: the UTM zone they are projected to, by default that of their median. Of others: the
        metric reference system they are in; by default they are put on Earth at `lon`, `lat`.
    lon, lat : float, optional
        Where the middle of a network without a place is put; `PLACE_DEGREES` by default.
    limits_kmh : mapping, optional
        Highest speed by class, instead of `LIMITS_KMH`.

    Raises `DataError` if a file is missing or is not such a table; `ParameterError` if `srid`, `lon` and `lat` do not
    fit the coordinates.
    """
    ids, x, y, degrees = _read_nodes(nodes)
    edge_from, edge_to, length, limit = _read_edges(edges, ids, nodes.name, limits_kmh)
    if degrees:
        if lon is not None or lat is not None:
            raise ParameterError(
                "A place may be given only for a network without one. Got --lon or --lat and nodes in degrees. Leave "
                "them out."
            )
        x, y, srid = _project_nodes(x, y, srid)
    elif srid is None:
        x, y, srid = _put(x, y, lon, lat)
    elif lon is not None or lat is not None:
        raise ParameterError("Either --srid or --lon and --lat must say where a network is. Got both. Leave out one.")
    name = f"{nodes.name} {edges.name}"
    return keep_largest_part(_make_network(name, x, y, edge_from, edge_to, length_m=length, limit_mps=limit, srid=srid))


def keep_largest_part(network: Network) -> Network:
    """Keep the largest connected part of a network, and count the nodes left out."""
    n = len(network.x)
    # Objects walk between any two nodes, so all that are kept must reach one another.
    links = sparse.coo_array((np.ones(len(network.edge_from)), (network.edge_from, network.edge_to)), shape=(n, n))
    _, part = csgraph.connected_components(links, directed=False)
    inside = part == np.argmax(np.bincount(part))
    # New numbers of the nodes that stay; an edge has both ends inside or both outside.
    number = (np.cumsum(inside) - 1).astype(np.int32)
    used = inside[network.edge_from]
    return Network(
        name=network.name,
        x=network.x[inside],
        y=network.y[inside],
        edge_from=number[network.edge_from[used]],
        edge_to=number[network.edge_to[used]],
        length_m=network.length_m[used],
        limit_mps=network.limit_mps[used],
        srid=network.srid,
        left_out=network.left_out + int((~inside).sum()),
    )


def _make_network(
    name: str,
    x: Float,
    y: Float,
    edge_from: Int,
    edge_to: Int,
    *,
    limit_mps: Float,
    srid: int,
    length_m: Float | None = None,
) -> Network:
    straight = np.hypot(x[edge_to] - x[edge_from], y[edge_to] - y[edge_from])
    # At least the straight line (see `Network.length_m`), and above 0, because the time to pass an edge is a divisor.
    length = np.maximum(straight if length_m is None else np.maximum(length_m, straight), SHORTEST_EDGE_M)
    return Network(name, x, y, edge_from, edge_to, length, limit_mps, srid)


def _project_nodes(lon: Float, lat: Float, srid: int | None) -> tuple[Float, Float, int]:
    outside = int(((np.abs(lon) > 180) | (np.abs(lat) > 84)).sum())
    if outside:
        raise DataError(
            f"Nodes in degrees must have longitudes within 180 and latitudes within 84. Got {outside} outside. Swap "
            f"the two columns, or name them x and y if they are metres."
        )
    if srid is None:
        srid = _utm.find_zone(float(np.median(lon)), float(np.median(lat)))
    elif not _utm.is_zone(srid):
        raise ParameterError(
            f"Degrees can be projected to a UTM zone of WGS 84 (32601 to 32660, 32701 to 32760). Got SRID {srid}. "
            f"Leave out --srid, or give nodes in metres."
        )
    return *_utm.to_metres(lon, lat, srid), srid


def _put(x: Float, y: Float, lon: float | None, lat: float | None) -> tuple[Float, Float, int]:
    """Move a plane so that its middle lies at a place on Earth; its metres become those of the place's UTM zone."""
    lon, lat = PLACE_DEGREES[0] if lon is None else lon, PLACE_DEGREES[1] if lat is None else lat
    if not (abs(lon) <= 180 and abs(lat) <= 80):
        raise ParameterError(
            f"A place must have a longitude within 180 and a latitude within 80 degrees. Got {lon:g} and {lat:g}. "
            f"Change --lon or --lat."
        )
    srid = _utm.find_zone(lon, lat)
    east, north = _utm.to_metres(np.array([lon]), np.array([lat]), srid)
    return x - (x.min() + x.max()) / 2 + east, y - (y.min() + y.max()) / 2 + north, srid


def _read_nodes(path: Path) -> tuple[pa.Array, Float, Float, bool]:
    """Read a file of nodes; returns their ids as text, both coordinates, and whether these are degrees."""
    table = _Table.from_file(path, ["id", "x", "y"], _NODE_COLUMNS)
    table.demand("id", "x", "y")
    ids = table.columns["id"]
    twice = len(ids) - len(pc.unique(ids))
    if twice:
        raise DataError(
            f"The ids of nodes must be unique. {path.name} repeats {format_count(twice, 'id')}. Keep each once."
        )
    are_degrees = bool({"lon", "longitude"} & {name.strip().lower() for name in table.names})
    return ids, table.read_numbers("x"), table.read_numbers("y"), are_degrees


def _read_edges(
    path: Path, ids: pa.Array, nodes: str, limits_kmh: Mapping[int, float] | None
) -> tuple[Int, Int, Float | None, Float]:
    """Read a file of edges; returns nodes by their number, lengths where the file has them, limits in m/s."""
    table = _Table.from_file(path, ["id", "from", "to", "length"], _EDGE_COLUMNS)
    table.demand("from", "to")
    ends = [pc.index_in(table.columns[name], value_set=ids) for name in ("from", "to")]
    unknown = int(pc.sum(pc.or_(pc.is_null(ends[0]), pc.is_null(ends[1])).cast(pa.int64())).as_py())
    if unknown:
        raise DataError(
            f"Every edge must join two nodes of {nodes}. Got {format_count(unknown, 'edge')} in {path.name} with "
            "another. "
            f"Check that the two files belong together."
        )
    a, b = (end.to_numpy().astype(np.int32) for end in ends)
    length = table.read_numbers("length") if "length" in table.columns else None
    limit = _find_limits(table, limits_kmh)
    keep = a != b  # a loop leads nowhere
    if not keep.any():
        raise DataError(f"At least one edge must join two different nodes. {path.name} has none. Check the file.")
    return a[keep], b[keep], None if length is None else length[keep], limit[keep]


def _find_limits(table: "_Table", limits_kmh: Mapping[int, float] | None) -> Float:
    """Find the highest speed on each edge in m/s, from the first of limit_kmh, class and classcode that is there."""
    column = next((name for name in ("limit_kmh", "class", "classcode") if name in table.columns), None)
    if limits_kmh is not None and column not in ("class", "classcode"):
        raise ParameterError(
            f"Limits by class are for edges with a class. {table.path.name} has its own limits, or no column 'class' "
            "or 'classcode'. Leave out --limits."
        )
    if column is None:
        kmh = np.full(len(table.columns["from"]), LIMIT_KMH)
    elif column == "limit_kmh":
        kmh = table.read_numbers(column)
    else:
        kmh = _find_class_limits(table.read_numbers(column), table.path, limits_kmh or LIMITS_KMH[column])
    slow = int((kmh < MIN_LIMIT_KMH).sum())
    if slow:
        raise DataError(
            f"A speed limit must be at least {MIN_LIMIT_KMH:g} km/h. Got {format_count(slow, 'edge')} of "
            f"{table.path.name} with a lower one. Correct them, or leave out the column."
        )
    return kmh / 3.6


def _find_class_limits(kind: Float, path: Path, limits_kmh: Mapping[int, float]) -> Float:
    known = np.array(sorted(limits_kmh), dtype=np.float64)
    # A class that is not known lands on another one, from which it differs; NaN differs from all.
    place = np.minimum(np.searchsorted(known, kind), len(known) - 1)
    strange = int((known[place] != kind).sum())
    if strange:
        raise DataError(
            f"Every class of edge must have a speed limit. Got {format_count(strange, 'edge')} in {path.name} of other "
            f"classes than {', '.join(str(c) for c in sorted(limits_kmh))}. Give the limits of all, such as --limits "
            f"0=110,1=80."
        )
    return np.array([limits_kmh[c] for c in sorted(limits_kmh)], dtype=np.float64)[place]


# ---- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """A table from a file: the names its header has, and the columns we know, as text, by our names."""

    path: Path
    names: list[str]
    columns: dict[str, pa.Array]

    @classmethod
    def from_file(cls, path: Path, order: list[str], synonyms: Mapping[str, tuple[str, ...]]) -> "_Table":
        """Read a table with a header, or without one in the `order` given."""
        text = _read_text(path)
        first = text.split("\n", 1)[0].strip()
        if re.match(_NUMBER_PATTERN, first):
            order = [*order[:3], "class"] if first.endswith("*") else order
            # Brinkhoff's files end each line with a tab and a star.
            text = re.sub(r"(?m)^[ \t]+|[ \t*\r]+$", "", text)
            # Without a header, blanks, commas and semicolons all separate cells.
            text = re.sub(r"[ \t;,]+", ",", text)
            cells = text.split("\n", 1)[0].count(",") + 1
            names, columns = order[:cells], _parse_columns(path, text, order[:cells])
        else:
            cut = max(",;\t", key=first.count)
            names = next(csv.reader([first], delimiter=cut))
            columns = _parse_columns(path, text.partition("\n")[2], names, cut)
        by_name = {name.strip().lower(): column for name, column in zip(names, columns, strict=True)}
        known = {ours: [n for n in theirs if n in by_name] for ours, theirs in synonyms.items()}
        return cls(path, names, {ours: by_name[matches[0]] for ours, matches in known.items() if matches})

    def demand(self, *wanted: str) -> None:
        """Raise `DataError` unless these columns are there."""
        for name in wanted:
            if name not in self.columns:
                others = {**_NODE_COLUMNS, **_EDGE_COLUMNS}[name]
                raise DataError(
                    f"{self.path.name} must have a column '{name}' (or "
                    f"{' or '.join(n for n in others if n != name)}). It has: {', '.join(self.names[:40])}. Rename "
                    f"the right one."
                )

    def read_numbers(self, name: str) -> Float:
        """A column as finite numbers."""
        try:
            values = self.columns[name].cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            raise DataError(
                f"Column '{name}' of {self.path.name} must hold numbers. Got text or an empty cell. Correct the file."
            ) from None
        bad = int((~np.isfinite(values)).sum())
        if bad:
            raise DataError(
                f"Column '{name}' of {self.path.name} must hold finite numbers. Got NaN or infinity in "
                f"{format_count(bad, 'row')}. Correct or remove these."
            )
        return np.asarray(values, dtype=np.float64)


def _parse_columns(path: Path, text: str, names: list[str], cut: str = ",") -> list[pa.Array]:
    if not text.strip():
        raise DataError(f"{path.name} must hold rows. Got none. Check the file.")
    try:
        table = pacsv.read_csv(
            io.BytesIO(text.encode()),
            pacsv.ReadOptions(column_names=[str(i) for i in range(len(names))]),
            pacsv.ParseOptions(delimiter=cut),
            pacsv.ConvertOptions(column_types={str(i): pa.string() for i in range(len(names))}),
        )
    except pa.ArrowInvalid:
        raise DataError(
            f"Every line of {path.name} must have as many cells as its first. Got one with others. Correct the file."
        ) from None
    return [pc.utf8_trim_whitespace(column.combine_chunks()) for column in table.columns]


def _read_text(path: Path) -> str:
    """Read a text file, gzipped or not."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"The file of a network must exist. There is no {path}. Check its name.") from None
    except IsADirectoryError:
        raise DataError(f"The file of a network must be a file. {path} is a directory. Name a file in it.") from None
    except PermissionError:
        raise DataError(f"The file of a network must be readable. {path} is not. Check its permissions.") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        text = "\0"
    if "\0" in text:
        raise DataError(f"{path.name} must be a text file, gzipped or not. Got something else. Check the file.")
    return text.lstrip("\r\n")

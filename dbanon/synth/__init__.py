"""Generates movement data: objects that move through a street network, and the requests they send.

Straight into PostGIS or into CSV files, in batches of bounded size, so that memory does not grow with their number.
Same plan, same rows: what an object does depends on the seed and its number alone. No person in the data is real,
and no place except the given streets.

The options are in `dbanon.options.generating`.
Nothing else in the package makes data up. `_journeys` makes journeys, `_network` reads street networks,
`_requests` makes requests, `_phones` phone records, `_quasi_identifiers` quasi-identifiers, and `_places` points of
interest and stations. `_like` draws people from the rows of a release instead.
"""
# ruff: noqa: E402 - the part is demanded before what it brings is imported

import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from dbanon.base.extras import demand

demand("files", "compute", what="dbanon.synth")
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import shapely

from dbanon import load
from dbanon.base import memory
from dbanon.base.background import run_in_background
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import DataError, ParameterError
from dbanon.base.progress import Progress, report_nothing
from dbanon.load import datasets
from dbanon.options import list_fields
from dbanon.options.generating import Generating, OfDataset, Plan
from dbanon.options.loading import LoadingTrajectories
from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection, fetch_value, translate_errors
from dbanon.synth import _journeys, _like, _network, _phones, _places, _quasi_identifiers, _requests, _utm
from dbanon.synth._journeys import Int
from dbanon.synth._requests import POIS
from dbanon.synth._source import describe_source, read_network

__all__ = ["CSV_COLUMNS", "SynthReport", "fill_dataset", "write_demo", "write_files"]

T = TypeVar("T")
Source = Connection | None

CSV_COLUMNS = {"subject": "subject", "time": "time", "x": "lon", "y": "lat"}
"""The columns of ``trajectories.csv`` by the names that `dbanon.options.loading.LoadingTrajectories` has for them."""

LOADED = {
    "trajectories": "dbanon.trajectory (dataset_id, load_id, subject, path)",
    "requests": "dbanon.request (dataset_id, load_id, subject, sent_at, content)",
    "quasi-identifiers": "dbanon.quasi_identifier (dataset_id, load_id, set_name, subject, at)",
}
"""What is written into a dataset, by kind of load: the table and its columns."""

SET_NAME = "default"
"""The set that generated quasi-identifiers are in."""

BATCH_FIXES = 1_000_000
"""So many fixes are made and written at a time, about 100 MB with all copies."""


@dataclass(frozen=True, kw_only=True)
class SynthReport:
    """What was generated; `left_out` counts nodes of the network's files outside its largest connected part."""

    dataset: str | None
    files: tuple[str, ...]
    network: str
    nodes: int
    edges: int
    left_out: int
    srid: int
    seed: int
    trajectories: int
    fixes: int
    requests: int
    quasi_identifiers: int = 0
    pois: int = 0
    stations: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    peak_rss_mb: float = 0.0


# ---- making ----------------------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """Some objects."""

    fixes: _journeys.Fixes
    sent: _requests.Sent
    known: _quasi_identifiers.Known


@dataclass(frozen=True, eq=False)
class Scenario:
    """A plan with all that its objects share: the network, its districts, the quickest ways through it, its places."""

    plan: Plan
    network: _network.Network
    districts: _requests.Districts
    routes: _journeys.Routes
    places: _places.Places

    @classmethod
    def from_plan(cls, plan: Plan, network: _network.Network) -> "Scenario":
        """Find the quickest ways for a plan."""
        districts = _requests.Districts.from_network(network)
        attraction = districts.compute_attraction(network.x, network.y)
        rng = np.random.default_rng([plan.seed, 1])  # the city was made from the seed alone
        routes = _journeys.find_routes(network, attraction, plan.destinations, rng)
        places = _places.Places.from_network(network, districts, plan.seed, pois=plan.pois, stations=plan.stations)
        return cls(plan, network, districts, routes, places)

    def make_objects(self, numbers: Int) -> "Made":
        """Generate some objects: their positions, their requests, and when they are known."""
        plan, known = self.plan, _quasi_identifiers.Known(numbers[:0], numbers[:0])
        times = _journeys.Timetable(
            start_s=plan.start_s, instants=plan.instants, step_s=plan.step_s, whole_share=plan.whole_share
        )
        fixes = _journeys.walk(self.routes, times, plan.seed, numbers)
        if plan.quasi_identifiers is not None:
            known = _quasi_identifiers.draw_quasi_identifiers(
                fixes, plan.seed, kind=plan.quasi_identifiers, size=plan.quasi_identifier_size,
                overlap=plan.quasi_identifier_overlap, objects=plan.objects,
                start_s=plan.start_s, step_s=plan.step_s, instants=plan.instants,
            )  # fmt: skip
        if plan.calls_per_day is not None:
            fixes = _phones.make_phone_records(
                fixes, self.network, plan.seed, stations=self.places.stations,
                start_s=plan.start_s, step_s=plan.step_s, instants=plan.instants, per_day=plan.calls_per_day,
            )  # fmt: skip
        mean = plan.requests_per_subject
        sent = _requests.draw_requests(fixes, self.districts, plan.seed, step_s=plan.step_s, mean=mean)
        if mean == 0:
            return Made(fixes, sent, known)
        rare = _requests.find_rare_requests(fixes, plan.seed, step_s=plan.step_s, objects=plan.objects)
        sent = _requests.Sent(*(np.concatenate([getattr(sent, n), getattr(rare, n)]) for n in vars(sent)))
        return Made(fixes, sent, known)


def _yield_numbers(plan: Plan, first: int) -> Iterator[Int]:
    """Numbers of the objects, in batches."""
    for part in binary_copy.split_into_batches(plan.objects, max(1, BATCH_FIXES // plan.instants)):
        yield np.arange(first + part.start, first + part.stop, dtype=np.int64)


def _compute_ahead(calls: Iterable[Callable[[], T]]) -> Generator[T]:
    """Yield the results of calls, while the next one is computed in another thread."""
    coming: Future[T] | None = None
    for call in calls:
        made = [] if coming is None else [coming.result()]
        coming = run_in_background(call)
        yield from made
    if coming is not None:
        yield coming.result()


def _name_subjects(number: Int, prefix: str = "s", width: int = 7) -> pa.Array:
    """Name subjects from ``s0000001``: a name says nothing about its subject."""
    digits = pc.utf8_lpad(pa.array(number + 1).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(pa.scalar(prefix), digits, pa.scalar(""))


# ---- into PostGIS ----------------------------------------------------------------------------------------------------


@dataclass
class _Tally:
    """What was written so far, and the seconds it took."""

    began: float = field(default_factory=time.perf_counter)
    trajectories: int = 0
    fixes: int = 0
    requests: int = 0
    quasi_identifiers: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"routes_s": 0.0, "making_s": 0.0, "writing_s": 0.0})

    def time_call(self, phase: str, call: Callable[..., T], *arguments: Any) -> T:
        began = time.perf_counter()
        result = call(*arguments)
        self.seconds[phase] += time.perf_counter() - began
        return result

    def count(self, trajectories: int, made: "Made") -> None:
        self.trajectories += trajectories
        self.fixes += len(made.fixes.xym)
        self.requests += len(made.sent.number)
        self.quasi_identifiers += len(made.known.number)

    def report(self, scenario: Scenario, **columns: Any) -> SynthReport:
        network = scenario.network
        return SynthReport(
            network=network.name,
            nodes=len(network.x),
            edges=len(network.edge_from),
            left_out=network.left_out,
            srid=network.srid,
            seed=scenario.plan.seed,
            trajectories=self.trajectories,
            fixes=self.fixes,
            requests=self.requests,
            quasi_identifiers=self.quasi_identifiers,
            timings={**self.seconds, "total_s": time.perf_counter() - self.began},
            peak_rss_mb=memory.measure_peak_mb(),
            **columns,
        )


def fill_dataset(
    connection: Connection, dataset: str, options: Generating, progress: Progress = report_nothing
) -> SynthReport:
    """Generate into a dataset, in one transaction.

    Parameters
    ----------
    options : Generating
        With ``append``, a grid other than the default must be the dataset's; the numbers of the subjects that are
        there go on, and its places stay. ``replace`` replaces requests and places too.

    Raises `ParameterError` if the dataset is there already, or is not, or is in another reference system; `DataError`
    if a file of the network is not one.
    """
    if options.like is not None:
        return _fill_like(connection, dataset, options, progress)
    tally = _Tally()
    network, mode = read_network(options), options.mode
    described = {option.name: getattr(options, option.name) for option in list_fields(OfDataset)}
    described |= {"dataset": dataset, "mode": mode}
    with translate_errors(), connection.transaction():
        old = datasets.claim(connection, described)
        _demand_srid(connection, network.srid, old if mode == "append" else None)
        progress("finding the quickest ways", 0, None)
        scenario = tally.time_call("routes_s", Scenario.from_plan, options, network)
        dataset_id = datasets.write(connection, described, network.srid)
        if mode == "replace":
            connection.execute("DELETE FROM dbanon.request WHERE dataset_id = %s", [dataset_id])
            connection.execute("DELETE FROM dbanon.poi WHERE dataset_id = %s", [dataset_id])
            connection.execute("DELETE FROM dbanon.cell WHERE dataset_id = %s", [dataset_id])
            connection.execute(
                "DELETE FROM dbanon.quasi_identifier WHERE dataset_id = %s AND set_name = %s", [dataset_id, SET_NAME]
            )
        first = 0
        if mode == "append":
            _demand_generated(connection, dataset_id)
            first = _find_first_number(connection, dataset_id)
        source = describe_source(options, network, first)
        begin = "SELECT dbanon_internal.begin_record(%s, %s, ARRAY[%s])"
        numbers = [fetch_value(connection, begin, [dataset_id, kind, source]) for kind in LOADED]
        _write(connection, dataset_id, numbers, scenario, first=first, tally=tally, progress=progress)
        counts = (tally.fixes, tally.requests, tally.quasi_identifiers)
        for number, count in zip(numbers, counts, strict=True):
            connection.execute("SELECT dbanon_internal.count_record(%s, ARRAY[%s::bigint])", [number, count])
        places = tally.time_call("writing_s", _write_places, connection, dataset, scenario, source, progress)
    return tally.report(scenario, dataset=dataset, files=(), **places)


def _demand_srid(connection: Connection, srid: int, old: DatasetRow | None) -> None:
    connection.execute("SELECT dbanon_internal.demand_metric(%s)", [srid])
    if old is not None and old.srid != srid:
        raise ParameterError(
            f"Added data must be in the dataset's reference system. '{old.name}' is in SRID {old.srid} and the "
            f"network in {srid}. Make a new dataset of it."
        )


def _demand_generated(connection: Connection, dataset_id: int) -> None:
    """Raise `ParameterError` if real people are in the dataset: invented ones would count towards their crowds."""
    query = (
        "SELECT count(*) FROM dbanon.load WHERE dataset_id = %s AND dropped_at IS NULL "
        "AND source NOT LIKE 'synth %%' AND source <> 'forgotten'"
    )
    if (connection.execute(query, [dataset_id]).fetchone() or [0])[0]:
        raise ParameterError(
            "Generated people must be kept apart from real ones, since they would fill their crowds. This dataset "
            "was loaded from elsewhere. Generate into another one."
        )


def _find_first_number(connection: Connection, dataset_id: int) -> int:
    """Count on from the highest number a subject of the dataset has in its name."""
    query = (
        "SELECT coalesce(max(substring(subject, '^s([0-9]{7,15})$')::bigint), 0) FROM dbanon.trajectory "
        "WHERE dataset_id = %s"
    )
    return int((connection.execute(query, [dataset_id]).fetchone() or [0])[0])


def _write(
    connection: Connection,
    dataset_id: int,
    loads: Sequence[int],
    scenario: Scenario,
    *,
    first: int,
    tally: _Tally,
    progress: Progress,
) -> None:
    # A statement is one batch, and the rows its triggers see stay in memory.
    connection.execute("SET LOCAL work_mem = '256MB'")
    total = scenario.plan.objects
    progress("generating trajectories", 0, total)
    make = partial(tally.time_call, "making_s", _encode_objects, dataset_id, loads, scenario)
    with closing(_compute_ahead(partial(make, numbers) for numbers in _yield_numbers(scenario.plan, first))) as batches:
        for made, tables in batches:
            tally.time_call("writing_s", _copy, connection, tables)
            tally.count(len(made.fixes.number), made)
            progress("generating trajectories", tally.trajectories, total)


_Rows = list[memoryview]


def _encode_objects(
    dataset_id: int, loads: Sequence[int], scenario: Scenario, numbers: Int
) -> tuple[Made, list[_Rows]]:
    """Make some objects, and of them the rows of the tables of `LOADED` for COPY."""
    made = scenario.make_objects(numbers)
    fixes, sent, known = made
    paths = binary_copy.encode_paths(fixes.xym, fixes.offset, scenario.network.srid)
    contents = pa.array([f'{{"poi": "{poi}"}}' for poi in POIS])
    tables = [
        [_name_subjects(numbers), paths],
        [
            _name_subjects(sent.number),
            binary_copy.encode_timestamps(sent.t),
            binary_copy.encode_jsonb(contents.take(pa.array(sent.poi))),
        ],
        [
            pa.array([SET_NAME]).take(pa.array(known.number * 0)),
            _name_subjects(known.number),
            binary_copy.encode_timestamps(known.t),
        ],
    ]
    return made, [
        _encode_rows([*(np.full(len(columns[0]), number, np.int64) for number in (dataset_id, load)), *columns])
        for load, columns in zip(loads, tables, strict=True)
    ]


def _encode_rows(columns: list[Any]) -> _Rows:
    count = len(columns[0])
    parts = [[column[part.start : part.stop] for column in columns] for part in binary_copy.split_into_batches(count)]
    return [memoryview(binary_copy.encode_rows(part)) for part in parts] if count else []


def _copy(connection: Connection, tables: list[_Rows]) -> None:
    for target, rows in zip(LOADED.values(), tables, strict=True):
        if rows:
            with binary_copy.open_copy(connection, target) as copy:
                for part in rows:
                    copy.write(part)


def _write_places(
    connection: Connection, dataset: str, scenario: Scenario, source: str, progress: Progress
) -> dict[str, int]:
    """Store the places as loads, but none of a kind that is there already; the cells cover every street."""
    places, network, kept = scenario.places, scenario.network, {}
    low_x, low_y, high_x, high_y = network.bounds
    margin = _places.STREET_M
    area = shapely.box(low_x - margin, low_y - margin, high_x + margin, high_y + margin).wkt
    there = "SELECT EXISTS (SELECT FROM dbanon.{} JOIN dbanon.dataset d USING (dataset_id) WHERE d.name = %s)"
    store = partial(load.store_places, connection, dataset=dataset, source=source, srid=network.srid)
    if len(places.pois) and not fetch_value(connection, there.format("poi"), [dataset]):
        progress("storing points of interest", 0, None)
        kept["pois"] = store("pois", places.pois, label=_name_categories(places))
    if len(places.stations) and not fetch_value(connection, there.format("cell"), [dataset]):
        progress("making cells", 0, None)
        kept["stations"] = store("stations", places.stations, area=area)
    return kept


def _name_categories(places: _places.Places) -> pa.Array:
    return pa.array(_places.CATEGORIES).take(pa.array(places.category))


# ---- into files ------------------------------------------------------------------------------------------------------


def write_files(
    directory: Path, plan: Plan, source: Source = None, *, replace: bool = False, progress: Progress = report_nothing
) -> SynthReport:
    """Generate ``trajectories.csv`` (subject, time, lon, lat) and ``requests.csv`` (subject, time, poi).

    Where the plan has them, ``quasi-identifiers.csv`` (subject, time), ``pois.csv`` (x, y, category) and
    ``stations.csv`` (x, y) as well.

    Parameters
    ----------
    directory : Path
        Made if it is not there.
    source : Connection, optional
        To the database of the release that people are to be like.
    replace : bool
        Replace files of these names, when both are complete.

    Raises `ParameterError` if there is such a file already and it is not to be replaced.
    """
    if plan.like is not None:
        return _write_like(directory, _like.read_drawing(plan.like, source), plan.seed, replace, progress)
    headers = {"trajectories": ",".join(CSV_COLUMNS.values()), "requests": "subject,time,poi"}
    if plan.quasi_identifiers is not None:
        headers["quasi-identifiers"] = "subject,time"
    if plan.pois:
        headers["pois"] = "x,y,category"
    if plan.stations:
        headers["stations"] = "x,y"
    names = [directory / f"{name}.csv" for name in headers]
    _demand_free(names, replace)
    tally = _Tally()
    network = read_network(plan)
    if not _utm.is_zone(network.srid):
        raise ParameterError(
            f"Files are written in degrees, from a UTM zone. Got SRID {network.srid}. Leave out --srid, or generate "
            f"into a dataset."
        )
    progress("finding the quickest ways", 0, None)
    scenario = tally.time_call("routes_s", Scenario.from_plan, plan, network)
    with _open_replacements(names) as opened:
        files = dict(zip(headers, opened, strict=True))
        for file, header in zip(opened, headers.values(), strict=True):
            file.write(f"{header}\n".encode())
        _append_all(files, _make_place_tables(scenario))
        make = partial(tally.time_call, "making_s", _make_tables, scenario)
        with closing(_compute_ahead(partial(make, numbers) for numbers in _yield_numbers(plan, 0))) as batches:
            for made, tables in batches:
                tally.time_call("writing_s", _append_all, files, tables)
                tally.count(len(made.fixes.number), made)
                progress("generating trajectories", tally.trajectories, plan.objects)
    places = scenario.places
    counts = {"pois": len(places.pois), "stations": len(places.stations)}
    return tally.report(scenario, dataset=None, files=tuple(map(str, names)), **counts)


def _demand_free(files: list[Path], replace: bool) -> None:
    taken = next((file for file in files if file.exists()), None)
    if taken is not None and not replace:
        raise ParameterError(
            f"Files are overwritten only with --replace. There is a {taken} already. Choose another --csv, or give "
            f"--replace."
        )


@contextmanager
def _open_replacements(files: list[Path]) -> Iterator[list[IO[bytes]]]:
    """Open files that get their names only when the block has succeeded, so that no half file is left."""
    parts = [file.with_name(file.name + ".part") for file in files]
    opened: list[IO[bytes]] = []
    try:
        files[0].parent.mkdir(parents=True, exist_ok=True)
        opened += [part.open("wb") for part in parts]
        yield opened
        for file in opened:
            file.close()
        for part, whole in zip(parts, files, strict=True):
            part.replace(whole)
    except OSError as error:
        raise DataError(
            f"The files must be writable in {files[0].parent}. Got: {error.strerror or error}. Choose another --csv."
        ) from error
    finally:
        for file, part in zip(opened, parts, strict=False):
            file.close()
            part.unlink(missing_ok=True)


def _make_tables(scenario: Scenario, numbers: Int) -> tuple[Made, dict[str, pa.Table]]:
    made = scenario.make_objects(numbers)
    fixes, sent, known = made
    lon, lat = _to_degrees(scenario, fixes.xym)
    row = np.repeat(np.arange(len(numbers)), np.diff(fixes.offset))
    positions = {
        "subject": _name_subjects(numbers).take(pa.array(row)),
        "time": _format_iso(fixes.xym[:, 2].astype(np.int64)),
        "lon": lon,
        "lat": lat,
    }
    contents = {
        "subject": _name_subjects(sent.number),
        "time": _format_iso(sent.t),
        "poi": pa.array(POIS).take(pa.array(sent.poi)),
    }
    times = {"subject": _name_subjects(known.number), "time": _format_iso(known.t)}
    tables = {"trajectories": positions, "requests": contents, "quasi-identifiers": times}
    return made, {name: pa.table(columns) for name, columns in tables.items()}


def _make_place_tables(scenario: Scenario) -> dict[str, pa.Table]:
    places = scenario.places
    kinds = {"pois": places.pois, "stations": places.stations}
    tables = {name: pa.table(dict(zip("xy", _to_degrees(scenario, at), strict=True))) for name, at in kinds.items()}
    return {**tables, "pois": tables["pois"].append_column("category", _name_categories(places))}


def _to_degrees(scenario: Scenario, at: _journeys.Float) -> list[_journeys.Float]:
    """Longitudes and latitudes; seven decimals of a degree are about a centimetre."""
    return [np.round(part, 7) for part in _utm.to_degrees(at[:, 0], at[:, 1], scenario.network.srid)]


def _format_iso(t: Int) -> pa.Array:
    return pc.strftime(pa.array(t).cast(pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%SZ")


def _append_all(files: Mapping[str, IO[bytes]], tables: Mapping[str, pa.Table]) -> None:
    for name in files.keys() & tables.keys():
        _append_csv(files[name], tables[name])


def _append_csv(file: Any, table: pa.Table) -> None:
    pacsv.write_csv(table, file, pacsv.WriteOptions(include_header=False, quoting_style="none"))


# ---- like a release --------------------------------------------------------------------------------------------------


def _write_like(directory: Path, drawing: _like.Drawing, seed: int, replace: bool, progress: Progress) -> SynthReport:
    """Write fixes of people like those of a release into a file that is named after it."""
    began, fixes = time.perf_counter(), 0
    name = directory / f"{drawing.mark.replace(',', '').replace(' ', '-')}.csv"
    _demand_free([name], replace)
    with _open_replacements([name]) as (file,):
        file.write(f"{','.join(CSV_COLUMNS.values())}\n".encode())
        for person, t, at in drawing.draw_fixes(seed, BATCH_FIXES):
            columns = [_name_subjects(person, "person_", 6), _format_iso(t), *np.round(at, 7).T]
            _append_csv(file, pa.table(columns, [*CSV_COLUMNS.values()]))
            fixes += len(t)
            progress("drawing fixes", fixes, None)
    return SynthReport(
        dataset=None, files=(str(name),), network=drawing.mark, nodes=0, edges=0, left_out=0,
        srid=drawing.about["srid"], seed=seed, trajectories=int(drawing.people[-1]), fixes=fixes, requests=0,
        timings={"total_s": time.perf_counter() - began}, peak_rss_mb=memory.measure_peak_mb(),
    )  # fmt: skip


def _fill_like(connection: Connection, dataset: str, options: Generating, progress: Progress) -> SynthReport:
    """Load people like those of a release into a new dataset, in a population of its own whose name says so."""
    if options.mode != "create" or options.population is not None:
        raise ParameterError(
            "People like those of a release must go into a new dataset, which is a population by itself. Got --append, "
            "--replace or --population. Leave it out."
        )
    drawing = _like.read_drawing(str(options.like), connection)
    given: Any = {option.name: getattr(options, option.name) for option in list_fields(OfDataset)}
    given |= {"dataset": dataset, "population": f"{dataset}, {drawing.mark}", "srid": drawing.about["srid"]}
    with tempfile.TemporaryDirectory() as folder, connection.transaction():
        made = _write_like(Path(folder), drawing, options.seed, False, progress)
        asked = LoadingTrajectories(x="lon", y="lat", allow_future=True, **given)
        load.load_trajectories(connection, list(made.files), asked, progress)
    return replace(made, dataset=dataset, files=())


def write_demo(directory: Path, seed: int = 1) -> tuple[Path, Path]:
    """Write the demo's two files: half an hour of 300 subjects in the built-in city, one position a minute.

    Returns
    -------
    tuple of Path
        ``trajectories.csv`` and ``requests.csv``.
    """
    write_files(directory, Plan(objects=300, seed=seed), replace=True, progress=lambda stage, done, total: None)
    return directory / "trajectories.csv", directory / "requests.csv"

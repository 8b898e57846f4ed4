"""Reads what a run and an attack work on, as arrays, from one snapshot of the database."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbanon import _arrow, _rows
from dbanon.attacks import Evidence, RequestEvidence, SiteEvidence
from dbanon.connection import connect, errors_translated
from dbanon.errors import DataError, ParameterError
from dbanon.trajectory import Float, Int, Places, Requests, Trajectories

_SIDES = ("ST_XMin", "ST_YMin", "ST_XMax", "ST_YMax")


@dataclass(frozen=True, kw_only=True)
class DatasetRow:
    """A row of ``dbanon.dataset``."""

    dataset_id: int
    name: str
    srid: int
    grid_m: float
    grid_s: int
    revision: int


def dataset(snapshot: _arrow.Snapshot, dataset_id: int) -> dict[str, Any]:
    """Look up a dataset: its columns by name."""
    columns = "dataset_id, name, srid, grid_m, grid_s, revision"
    query = f"SELECT {columns} FROM ONLY dbanon.dataset WHERE dataset_id = {int(dataset_id)}"
    found: list[dict[str, Any]] = _arrow.table(snapshot, query).to_pylist()
    if not found:
        raise ParameterError(f"The dataset must exist. There is none with id {dataset_id}; load one.")
    return found[0]


def trajectories(snapshot: _arrow.Snapshot, dataset_id: int) -> tuple[Trajectories, _arrow.TextCodes]:
    """Read all trajectories of a dataset, and the texts of their subjects."""
    row = dataset(snapshot, dataset_id)
    paths = _arrow.paths(snapshot, dataset_id)
    codes, subject = _arrow.TextCodes.encoding(paths.subject)
    data = Trajectories(
        trajectory_id=paths.trajectory_id,
        subject=subject,
        offset=paths.offset,
        t=paths.t,
        x=paths.x,
        y=paths.y,
        srid=row["srid"],
        grid_m=row["grid_m"],
        grid_s=row["grid_s"],
    )
    return data, codes


def subject_codes(snapshot: _arrow.Snapshot, dataset_id: int) -> _arrow.TextCodes:
    """Read the subjects of a dataset without their trajectories."""
    query = f"SELECT DISTINCT subject FROM ONLY dbanon.trajectory WHERE dataset_id = {int(dataset_id)}"
    return _arrow.TextCodes.of(_arrow.table(snapshot, query)["subject"])


def requests(snapshot: _arrow.Snapshot, dataset_id: int, subjects: _arrow.TextCodes) -> Requests:
    """Read all requests of a dataset, sorted by time, subject and content."""
    table = _arrow.table(
        snapshot,
        "SELECT subject, date_part('epoch', sent_at) AS t, content::text AS content FROM ONLY dbanon.request "
        f"WHERE dataset_id = {int(dataset_id)}",
    )
    contents = _arrow.TextCodes.of(table["content"])
    subject, t = subjects.encode(table["subject"]), _arrow.numbers(table["t"])
    content = contents.encode(table["content"])
    order = np.lexsort((content, subject, t))
    return Requests(
        subject=subject[order], t=t[order], content=content[order], contents=tuple(contents.texts.to_pylist())
    )


def places(snapshot: _arrow.Snapshot, dataset_id: int) -> Places:
    """Read the sensitive sites of a dataset, and the shapes of its trajectories."""
    site_id, site_bounds = _bounds(
        snapshot, "site_id", "geom", f"ONLY dbanon.site WHERE dataset_id = {int(dataset_id)}"
    )
    shaped = f"ONLY dbanon.trajectory WHERE dataset_id = {int(dataset_id)} AND shape IS NOT NULL"
    shape_trajectory, shape_bounds = _bounds(snapshot, "trajectory_id", "shape", shaped)
    return Places(
        site_id=site_id, site_bounds=site_bounds, shape_trajectory=shape_trajectory, shape_bounds=shape_bounds
    )


def _bounds(snapshot: _arrow.Snapshot, key: str, column: str, source: str) -> tuple[Int, Float]:
    """Read keys and the bounding rectangles of geometries, by ascending key."""
    own = snapshot.postgis
    sides = ", ".join(f"{own}.{side}({own}.Box3D({column})) AS s{i}" for i, side in enumerate(_SIDES))
    table = _arrow.table(snapshot, f"SELECT {key} AS key, {sides} FROM {source} ORDER BY {key}")
    return _arrow.numbers(table["key"]), np.column_stack([_arrow.numbers(table[f"s{i}"]) for i in range(4)])


def evidence(snapshot: _arrow.Snapshot, run_id: int) -> Evidence:
    """Read the stored rows of a run, its dataset, and what else the attack of its method looks at."""
    number = int(run_id)
    found = _arrow.table(
        snapshot,
        "SELECT dataset_id, method, algorithm, params::text AS params, suppressed::text AS suppressed, attack "
        f"FROM ONLY dbanon.run JOIN ONLY dbanon.method ON name = method WHERE run_id = {number}",
    ).to_pylist()
    if not found:
        raise no_run(run_id)
    run = found[0]
    if run["attack"] not in _EVIDENCE:
        raise DataError(
            f"The attack on a run must be one this program has. Run {number} needs another; upgrade dbanon."
        )
    data, codes = trajectories(snapshot, run["dataset_id"])
    rows, region_no = _rows.evidence(snapshot, number)
    kind, read = _EVIDENCE[run["attack"]]
    return kind(
        method=run["method"],
        algorithm=run["algorithm"],
        params=json.loads(run["params"]),
        suppressed=json.loads(run["suppressed"]),
        trajectories=data,
        **rows,
        **read(snapshot, number, run["dataset_id"], codes, rows, region_no),
    )


def no_run(run_id: int) -> ParameterError:
    """Make the error for a run that is not there."""
    return ParameterError(f"The run must exist. There is no run {run_id}. List the runs: `dbanon runs`.")


def _request_evidence(
    snapshot: _arrow.Snapshot, run_id: int, _: int, subjects: _arrow.TextCodes, rows: dict[str, Any], region_no: Int
) -> dict[str, Any]:
    table = _arrow.table(snapshot, f"SELECT * FROM dbanon_internal.request_evidence({run_id})")
    return _request_columns(table, subjects, rows, region_no)


def _site_evidence(
    snapshot: _arrow.Snapshot, run_id: int, dataset_id: int, _: _arrow.TextCodes, rows: dict[str, Any], region_no: Int
) -> dict[str, Any]:
    pairs = _arrow.table(
        snapshot, f"SELECT site_id, cloaked, rows, squared_cells FROM dbanon_internal.site_evidence({run_id})"
    )
    said = _arrow.table(snapshot, f"SELECT * FROM dbanon_internal.extra_evidence({run_id}, 'cloaked')")
    value = pc.fill_null(pc.index_in(said["value"], pa.array(["false", "true"])), -1).to_numpy()
    cloaked = np.zeros(len(region_no), np.int8)
    cloaked[np.searchsorted(region_no, _arrow.numbers(said["region_no"]))] = value
    return {
        "region_cloaked": cloaked,
        "places": places(snapshot, dataset_id),
        "pair_site": _arrow.numbers(pairs["site_id"]),
        "pair_cloaked": _arrow.numbers(pairs["cloaked"]).astype(bool),
        "pair_rows": _arrow.numbers(pairs["rows"]),
        "pair_squared": _arrow.numbers(pairs["squared_cells"]),
    }


_EVIDENCE: dict[str, tuple[Callable[..., Evidence], Callable[..., dict[str, Any]]]] = {
    "sensitive-sites": (SiteEvidence, _site_evidence),
    "tp-aware": (RequestEvidence, _request_evidence),
}
"""What each attack is given, and who reads what only it looks at."""


def _request_columns(
    table: pa.Table, subjects: _arrow.TextCodes, rows: dict[str, Any], region_no: Int
) -> dict[str, Any]:
    """Split the requests into those of rows and sent ones, with codes of their contents that both share."""
    content = _arrow.TextCodes.of(table["content"]).encode(table["content"])
    published = ~np.asarray(pc.is_null(table["region_no"]).to_numpy())
    shown, sent = table.filter(pa.array(published)), table.filter(pa.array(~published))
    region = np.searchsorted(region_no, _arrow.numbers(shown["region_no"]).astype(np.int64))
    order = np.argsort(region, kind="stable")  # the elements of a row stay in their order
    at, row = _rows.rows_of(rows, region[order])
    record = np.searchsorted(rows["offset"], row, side="right") - 1
    place = row - rows["offset"][record] + 1 if rows["place"] is None else rows["place"][row]
    return {
        "published_request_record": rows["record_id"][record],
        "published_request_seq": place.astype(np.int64),
        "published_request_content": content[published][order][at],
        "request_subject": subjects.encode(sent["subject"]),
        "request_t": _arrow.numbers(sent["t"]).astype(np.float64),
        "request_content": content[~published],
    }


class Reader:
    """Reads all that one piece of work needs from one snapshot: whatever commits meanwhile is not seen, nor half of it.

    Parameters
    ----------
    snapshot : _arrow.Snapshot

    Notes
    -----
    Made by `open_reader`.
    """

    def __init__(self, snapshot: _arrow.Snapshot) -> None:
        self._snapshot = snapshot
        self._subjects: dict[int, _arrow.TextCodes] = {}

    def dataset(self, dataset_id: int) -> DatasetRow:
        """Look up a dataset as the snapshot has it; `demand_unchanged` compares its revision with what is there later.

        Raises
        ------
        ParameterError
            If there is none.
        """
        return DatasetRow(**dataset(self._snapshot, dataset_id))

    def trajectories(self, dataset_id: int) -> Trajectories:
        """Read all trajectories of a dataset; subject codes depend on the subjects' texts alone.

        Raises
        ------
        ParameterError
            If there is no such dataset.
        """
        data, self._subjects[dataset_id] = trajectories(self._snapshot, dataset_id)
        return data

    def requests(self, dataset_id: int) -> Requests:
        """Read all requests of a dataset, sorted by time, subject and content; senders in the trajectories' codes."""
        codes = self._subjects.get(dataset_id) or subject_codes(self._snapshot, dataset_id)
        return requests(self._snapshot, dataset_id, codes)

    def places(self, dataset_id: int) -> Places:
        """Read the sensitive sites of a dataset, and the shapes of its trajectories."""
        return places(self._snapshot, dataset_id)

    def evidence(self, run_id: int) -> Evidence:
        """Read what an attack is given: the stored rows of a run, and its dataset.

        Raises
        ------
        ParameterError
            If there is no such run.
        """
        return evidence(self._snapshot, run_id)


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """Open a snapshot of a database and read from it.

    Parameters
    ----------
    url : str
        A connection of its own is opened. While it is open the server keeps what the snapshot sees, so close it before
        a long computation.
    """
    with errors_translated(), connect(url) as connection, _arrow.snapshot(connection) as snapshot:
        yield Reader(snapshot)

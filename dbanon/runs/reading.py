"""Reads what a run and an attack work on, as arrays, from one snapshot of the database."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from psycopg import sql

from dbanon import methods
from dbanon.attacks import Attacker, Evidence, import_attacker
from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.base.trajectory import Cells, Float, Int, QuasiIdentifiers, Requests, Sites, Trajectories
from dbanon.methods import parsing
from dbanon.postgres import arrow, sqlstate
from dbanon.postgres.connection import Connection, connect, translate_errors
from dbanon.runs import _blocks, _requests, _rows, queue, stored
from dbanon.runs._cells import find_fix_cells
from dbanon.runs._parallel_snapshots import SnapshotSessions

T = TypeVar("T")

_LOCK_QUERY = """SELECT FROM ONLY dbanon.trajectory, ONLY dbanon.run, ONLY dbanon.region, ONLY dbanon.period,
    ONLY dbanon.record, ONLY dbanon.membership, ONLY dbanon.hiding, ONLY dbanon.atom LIMIT 0"""
_SIDE_FUNCTIONS = ("ST_XMin", "ST_YMin", "ST_XMax", "ST_YMax")


def read_dataset(snapshot: arrow.Snapshot, dataset_id: int) -> dict[str, Any]:
    """Look up a dataset: its columns by name."""
    columns = "dataset_id, name, srid, grid_m, grid_s, revision"
    query = f"SELECT {columns} FROM ONLY dbanon.dataset WHERE dataset_id = {int(dataset_id)}"
    rows: list[dict[str, Any]] = arrow.read_table(snapshot, query).to_pylist()
    if not rows:
        raise ParameterError(f"The dataset must exist. There is none with id {dataset_id}. Load one.")
    return rows[0]


def read_trajectories(
    snapshot: arrow.Snapshot, dataset_id: int, *, is_spare: bool = False
) -> tuple[Trajectories, arrow.TextCodes]:
    """Read all trajectories of a dataset, and the texts of their subjects."""
    row = read_dataset(snapshot, dataset_id)
    paths = arrow.read_paths(snapshot, dataset_id)
    codes, subject = arrow.TextCodes.encode_new(paths.subject)
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
        subject_names=codes.texts,
        day=arrow.read_days(snapshot, dataset_id),
        is_spare=is_spare,
    )
    return data, codes


def _read_requests(source: "_Dataset", _: Mapping[str, Any]) -> Requests:
    """Read all requests of a dataset, in any order."""
    ahead = source.ahead.pop("requests", None)
    table = _requests.read(source.snapshot, source.dataset_id) if ahead is None else ahead.result()
    return _requests.encode_requests(table, source.subjects)


def _read_rows(
    snapshot: arrow.Snapshot, dataset_id: int, columns: str, relation: str, condition: str = "true"
) -> pa.Table:
    """Read columns of a dataset's rows in a table."""
    where = f"dataset_id = {int(dataset_id)} AND {condition}"
    return arrow.read_table(snapshot, f"SELECT {columns} FROM ONLY dbanon.{relation} WHERE {where}")


def _read_sites(source: "_Dataset", _: Mapping[str, Any]) -> Sites:
    """Read the sensitive sites of a dataset, and the shapes of its trajectories."""
    site_id, site_bounds = _read_bounds(source, "site_id", "geom", "site")
    shape_trajectory, shape_bounds = _read_bounds(source, "trajectory_id", "shape", "trajectory")
    return Sites(site_id=site_id, site_bounds=site_bounds, shape_trajectory=shape_trajectory, shape_bounds=shape_bounds)


def _read_bounds(source: "_Dataset", key: str, column: str, relation: str) -> tuple[Int, Float]:
    """Read keys and the bounding rectangles of geometries, by ascending key."""
    own = source.snapshot.postgis
    sides = ", ".join(f"{own}.{side}({own}.Box3D({column})) AS s{i}" for i, side in enumerate(_SIDE_FUNCTIONS))
    table = source.read_rows(f"{key} AS key, {sides}", relation, f"{column} IS NOT NULL ORDER BY {key}")
    return arrow.convert_to_numbers(table["key"]), np.column_stack(
        [arrow.convert_to_numbers(table[f"s{i}"]) for i in range(4)]
    )


def _read_quasi_identifiers(source: "_Dataset", params: Mapping[str, Any]) -> QuasiIdentifiers:
    """Read the set of quasi-identifier times that the parameter `qid_set` names.

    Raises `ParameterError` if there is no such set.
    """
    name = str(params.get("qid_set", "default"))
    options = f"set_name = {sql.Literal(name).as_string()}"
    table = source.read_rows("DISTINCT subject, date_part('epoch', at) AS t", "quasi_identifier", options)
    if not len(table):
        known = source.read_rows("DISTINCT set_name", "quasi_identifier")["set_name"].to_pylist()
        raise ParameterError(
            f"The dataset must have a set of quasi-identifiers named {parsing.quote_text(name)}. "
            f"It has {', '.join(parsing.quote_text(one) for one in sorted(known)) or 'none'}."
        )
    subject, t = source.subjects.encode(table["subject"]), arrow.convert_to_numbers(table["t"])
    subject, t = np.unique(np.stack([subject.astype(np.float64), t]), axis=1)
    return QuasiIdentifiers(subject=subject.astype(np.int64), t=t)


def _read_cells(source: "_Dataset", params: Mapping[str, Any]) -> Cells:
    """Read the cells of a dataset, what lies in them and which are neighbours, as PostGIS finds it."""
    table = source.call("count_cell_pois")
    cell_id, first, cell = np.unique(arrow.convert_to_numbers(table["cell_id"]), return_index=True, return_inverse=True)
    categories = arrow.TextCodes.from_column(table["category"].drop_null())
    category, number = categories.encode(table["category"]), arrow.convert_to_numbers(table["pois"])
    pois = np.zeros((len(cell_id), len(categories.texts)), np.int64)
    pois[cell[category >= 0], category[category >= 0]] = number[category >= 0]
    pairs, atoms = source.call("find_cell_neighbours"), source.call("find_stored_atoms", *_read_promise(params))
    neighbours = np.searchsorted(
        cell_id, np.column_stack([arrow.convert_to_numbers(pairs[c]) for c in pairs.column_names])
    )
    corners = (f"{source.snapshot.postgis}.{name}(geom)" for name in ("ST_XMin", "ST_YMin", "ST_XMax", "ST_YMax"))
    boxes = source.read_rows(", ".join(("cell_id", *corners)), "cell").sort_by("cell_id")
    atom = np.full(len(cell_id), -1)
    atom[np.searchsorted(cell_id, arrow.convert_to_numbers(atoms["cell_id"]))] = arrow.convert_to_numbers(atoms["atom"])
    return Cells(
        cell_id=cell_id,
        area_m2=arrow.convert_to_numbers(table["area_m2"])[first],
        categories=tuple(categories.texts.to_pylist()),
        pois=pois,
        neighbours=np.unique(neighbours, axis=0),
        fix_cell=find_fix_cells(source.snapshot, source.dataset_id, source.trajectories),
        overlap_m2=float(source.call("measure_cell_faults")["overlap_m2"][0].as_py() or 0),
        atom=atom if len(atoms) else None,
        bounds=np.column_stack([arrow.convert_to_numbers(boxes[c]) for c in boxes.column_names[1:]]),
    )


def _read_promise(params: Mapping[str, Any]) -> tuple[float, float]:
    """Give the l and t that atoms are asked for; those of any atoms where a family asks for none."""
    least, most = (
        params[own] if params.get(own) is not None else params.get(name)
        for own, name in (("atom_l", "l"), ("atom_t", "t"))
    )
    return float(least or 0), float("inf" if most is None else most)


_INPUT_READERS: dict[str, Callable[["_Dataset", Mapping[str, Any]], Any]] = {
    "requests": _read_requests,
    "sites": _read_sites,
    "quasi_identifiers": _read_quasi_identifiers,
    "cells": _read_cells,
}
"""Who reads what a family names in `reads` and `joins`."""


@dataclass(frozen=True)
class _Dataset:
    """A dataset in a snapshot, its trajectories, the texts of their subjects, and tables that are read already."""

    snapshot: arrow.Snapshot
    dataset_id: int
    trajectories: Trajectories
    subjects: arrow.TextCodes
    ahead: dict[str, "Future[pa.Table]"] = field(default_factory=dict)

    def read_rows(self, columns: str, relation: str, condition: str = "true") -> pa.Table:
        """Read columns of this dataset's rows in a table."""
        return _read_rows(self.snapshot, self.dataset_id, columns, relation, condition)

    def call(self, function: str, *numbers: float) -> pa.Table:
        """Call a SQL function of a dataset, with more numbers after its id."""
        arguments = "".join(f", '{float(number)}'" for number in numbers)
        return arrow.read_table(
            self.snapshot, f"SELECT * FROM dbanon_internal.{function}({int(self.dataset_id)}{arguments})"
        )

    def read_inputs(self, names: Iterable[str], params: Mapping[str, Any]) -> dict[str, Any]:
        """Read inputs by name."""
        return {name: _INPUT_READERS[name](self, params) for name in names}


@dataclass(frozen=True, kw_only=True)
class _Source:
    """What the attack on a run asks for: `dbanon.attacks.Source`. `snapshot`: of the stored rows."""

    snapshot: arrow.Snapshot
    dataset: _Dataset
    run_id: int
    params: Mapping[str, Any]
    beside: SnapshotSessions
    written: _rows.Written

    def read_table(self, function: str) -> dict[str, Any]:
        """Call a SQL evidence function; texts as codes."""
        return self._convert_columns(arrow.read_table(self.snapshot, _call(function, self.run_id)))

    def read_table_in_parts(self, function: str, *options: Int) -> dict[str, Any]:
        """Call one about some numbers at a time: the first here, the others by sessions that see the same."""
        first, *more = [
            _call(function, self.run_id, f", '{{{','.join(map(str, some.tolist()))}}}'")
            for some in options
            if len(some)
        ] or [_call(function, self.run_id, ", '{}'")]
        others = [self.beside(partial(arrow.read_table, query=query)) for query in more]
        tables = [arrow.read_table(self.snapshot, first), *(one.result() for one in others)]
        return self._convert_columns(pa.concat_tables(tables))

    def read_batches(self, function: str) -> Iterator[dict[str, Any]]:
        """Call a SQL evidence function, some megabytes at a time."""
        for batch in arrow.read_batches(self.snapshot, _call(function, self.run_id)):
            yield {
                name: column.to_numpy(zero_copy_only=False)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }

    def read_lists(self, key: str) -> tuple[Int, list[list[str]]]:
        """Give the lists of a key of `extra`, and which of them each region has."""
        texts = [one.get(key) for one in self.written.extras]
        number = {text: n for n, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
        code = np.array([-1 if text is None else number[text] for text in (*texts, None)])
        return code[self.written.extra], [_blocks.split_elements(text) for text in number]

    def _convert_columns(self, table: pa.Table) -> dict[str, Any]:
        columns = dict(zip(table.column_names, table.columns, strict=True))
        del table  # each column goes when it is converted
        return {name: self._convert_column(name, columns.pop(name)) for name in list(columns)}

    def _convert_column(self, name: str, column: pa.ChunkedArray) -> Any:
        if column.type != pa.string() and not pa.types.is_dictionary(column.type):
            return arrow.convert_to_numbers(column)
        codes = self.dataset.subjects if name == "subject" else arrow.TextCodes.from_column(column)
        return codes.encode(column)

    def read_inputs(self, *names: str) -> dict[str, Any]:
        """Read inputs of the run's dataset."""
        return self.dataset.read_inputs(names, self.params)


def _call(function: str, run_id: int, more: str = "") -> str:
    return f"SELECT * FROM dbanon_internal.{function}({run_id}{more})"


@dataclass(frozen=True, kw_only=True)
class Early:
    """Data of a dataset that are read anew while something else is done, and the dataset as it was then."""

    row: dict[str, Any]
    data: "Future[tuple[Trajectories, arrow.TextCodes]]"
    ahead: dict[str, "Future[pa.Table]"]

    @property
    def coming(self) -> list["Future[Any]"]:
        """All that is being read."""
        return [self.data, *self.ahead.values()]

    def is_of(self, row: dict[str, Any]) -> bool:
        """Whether all was read, of a dataset in this state."""
        return self.row == row and all(one.done() and one.exception() is None for one in self.coming)


def _make_evidence(
    snapshot: arrow.Snapshot, data: arrow.Snapshot, run_id: int, beside: SnapshotSessions, early: Early | None
) -> tuple[Evidence, bytes]:
    runs = arrow.read_table(
        snapshot,
        "SELECT dataset_id, method, algorithm, params::text AS params, suppressed::text AS suppressed "
        f"FROM ONLY dbanon.run WHERE run_id = {int(run_id)}",
    ).to_pylist()
    if not runs:
        raise queue.make_no_run_error(run_id)
    run = runs[0]
    row = read_dataset(snapshot, run["dataset_id"])
    if row != read_dataset(data, run["dataset_id"]):  # changed after `snapshot` was taken
        raise StoreError(
            "The dataset changed while the stored rows were attacked, so nothing was kept. Run it again.",
            sqlstate.CHANGED,
        )
    package = import_attacker(methods.find_method(run["method"]).attack)
    reading = beside(partial(_rows.read, run_id=int(run_id)))
    if early is not None and early.is_of(row):
        (paths, codes), ahead = early.data.result(), early.ahead
    else:
        ahead = _begin_requests(beside, run["dataset_id"], list_attack_inputs(package)) if data is snapshot else {}
        paths, codes = read_trajectories(data, run["dataset_id"])
    written = reading.result()
    texts = {name: json.loads(run[name]) for name in ("params", "suppressed")}
    rows = Evidence(method=run["method"], algorithm=run["algorithm"], **texts, trajectories=paths, **written.fields)
    source = _Source(
        snapshot=snapshot, dataset=_Dataset(data, run["dataset_id"], paths, codes, ahead), run_id=int(run_id),
        params=rows.params, beside=beside, written=written,
    )  # fmt: skip
    read = package.read(rows, source)
    if any(getattr(read, item.name) is not getattr(rows, item.name) for item in fields(Evidence)):
        raise DataError("An attack must be given the rows as they are stored. This is a defect of its reading.")
    names = _blocks.digest_names(rows.member_trajectory, paths.trajectory_id, paths.subject, codes.texts)
    return read, stored.compute_digest(snapshot.connection, run_id, written.digests + names)


def list_attack_inputs(package: Attacker) -> Collection[str]:
    """Name the inputs with many rows that an attack reads."""
    return getattr(package, "READS", ())


def _begin_requests(beside: SnapshotSessions, dataset_id: int, names: Iterable[str]) -> dict[str, "Future[pa.Table]"]:
    """Begin to read inputs with many rows."""
    return {"requests": beside(partial(_requests.read, dataset_id=dataset_id))} if "requests" in names else {}


class Reader:
    """Reads all that one piece of work needs from one snapshot: whatever commits meanwhile is not seen, nor half of it.

    `beside`: further sessions that see the same. `data`: what is read of datasets, where that is another server's.

    Made by `open_reader`.
    """

    def __init__(self, snapshot: arrow.Snapshot, beside: SnapshotSessions, data: arrow.Snapshot) -> None:
        self._snapshot, self._beside, self._data = snapshot, beside, data
        self._read: dict[int, tuple[Trajectories, arrow.TextCodes]] = {}
        self._ahead: dict[int, dict[str, Future[pa.Table]]] = {}

    def read_dataset(self, dataset_id: int) -> DatasetRow:
        """Look up a dataset as the snapshot has it; `demand_unchanged` compares its revision with what is there later.

        Raises `ParameterError` if there is none.
        """
        return DatasetRow(**read_dataset(self._data, dataset_id))

    def begin(self, dataset_id: int, names: Iterable[str]) -> None:
        """Begin to read inputs that will be asked for, while the trajectories are read: of these, requests are many."""
        if self._data is self._snapshot:  # `beside` is of the latter
            self._ahead[dataset_id] = _begin_requests(self._beside, dataset_id, names)

    def read_early(self, dataset_id: int, names: Iterable[str]) -> Early:
        """Read the trajectories of a dataset, and inputs with many rows, while this goes on."""
        return Early(
            row=read_dataset(self._snapshot, dataset_id),
            data=self._beside(partial(read_trajectories, dataset_id=dataset_id)),
            ahead=_begin_requests(self._beside, dataset_id, names),
        )

    def read_trajectories(self, dataset_id: int, *, is_spare: bool = False) -> Trajectories:
        """Read all trajectories of a dataset; subject codes depend on the subjects' texts alone.

        Raises `ParameterError` if there is no such dataset.
        """
        if dataset_id not in self._read:
            self._read[dataset_id] = read_trajectories(self._data, dataset_id, is_spare=is_spare)
        return self._read[dataset_id][0]

    def read_inputs(
        self, dataset_id: int, names: Iterable[str], params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Read inputs beside the trajectories, in whose codes subjects are.

        Parameters
        ----------
        names : iterable of str
            Among `requests`, `sites`, `quasi_identifiers` and `cells`.
        params : mapping
            The run's; those that say which of several sets to read are looked up.

        Returns
        -------
        dict
            By name: `Requests`, `Sites`, `QuasiIdentifiers`, `Cells` of `dbanon.base.trajectory`.

        Raises `ParameterError` if there is no set of that name.
        """
        self.read_trajectories(dataset_id)
        ahead = self._ahead.get(dataset_id, {})
        return _Dataset(self._data, dataset_id, *self._read[dataset_id], ahead).read_inputs(names, params or {})

    def read_evidence(self, run_id: int, early: Early | None = None) -> tuple[Evidence, bytes]:
        """Read what an attack is given, the stored rows of a run and its dataset, and make the digest of the run.

        Parameters
        ----------
        early : Early, optional
            The dataset; taken if it has not changed since.

        Raises `ParameterError` if there is no such run; `StoreError` if the replica that data are read from has another
        state of the dataset.
        """
        self._snapshot.connection.execute(_LOCK_QUERY)
        return _make_evidence(self._snapshot, self._data, run_id, self._beside, early)

    def call_beside(self, call: Callable[[Connection, int], T], run_id: int) -> "Future[T]":
        """Call with a connection that sees what this reader does and with a run, while this reader goes on.

        Nothing can be changed through it. Tables of runs and data are locked before, so that none is emptied between
        what one session reads and what the other does.
        """
        self._snapshot.connection.execute(_LOCK_QUERY)
        return self._beside(lambda snapshot: call(snapshot.connection, run_id))


@contextmanager
def open_reader(
    url: str, data: Callable[[], AbstractContextManager[arrow.Snapshot | None]] = nullcontext
) -> Iterator[Reader]:
    """Open a snapshot of a database and read from it.

    Parameters
    ----------
    url : str
        A separate connection is opened. While it is open the server keeps what the snapshot sees, so close it before a
        long computation.
    data : callable
        Called when the snapshot is taken; gives the one that datasets are read from, or None for the same.
    """
    with (
        translate_errors(),
        connect(url) as connection,
        arrow.open_snapshot(connection) as snapshot,
        data() as elsewhere,
    ):
        beside = SnapshotSessions(snapshot, url)
        try:
            yield Reader(snapshot, beside, elsewhere or snapshot)
        finally:
            beside.cancel()

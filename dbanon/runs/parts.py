"""Has an attack's questions about fixes answered by other processes, each of which reads those of some people.

A task says where the evidence is and which part of it to look at: a snapshot that the process with the run holds open,
the run, and trajectories by their ids and their subjects' numbers. It carries no login, which every process has from
its own environment, no name and no position. Invariant: the answers are about the very state that the process with the
run has read, and about all people, each once; else there is no verdict.
"""

import hashlib
import os
import pickle
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import psycopg

from dbanon.attacks import Evidence
from dbanon.attacks.shared.apart import Bounds, WithoutFixes
from dbanon.attacks.shared.claims import UndecidableError
from dbanon.attacks.shared.replay import join_ranges, select_slots
from dbanon.base.errors import DataError, DbanonError, StoreError
from dbanon.base.tasks import Tasks
from dbanon.base.trajectory import Int, Trajectories
from dbanon.postgres import arrow, server, sqlstate
from dbanon.postgres.connection import Session, connect, make_sql, translate_errors
from dbanon.runs import _rows, queue, replica
from dbanon.runs._cells import find_fix_cells

T = TypeVar("T")

PART_THREADS = 4  # that a part keeps busy on one machine: below twice as many cores one process has all
# Fixes of a part: of fewer, reading the rows again costs more; more take memory.
_MIN_PART_FIXES, _MAX_PART_FIXES = 1 << 22, 1 << 24
_PARTS_PER_READER = 2  # none of them waits long for another's last
# Ranges of ids that a part is read in; where people's trajectories lie scattered, one, and more than it has.
_MAX_ID_RANGES = 64
_NONE, _NO_TIMES = np.empty(0, np.int64), np.empty(0)
_MEMBER_COLUMNS = ("member_record", "member_trajectory", "member_start_s", "member_end_s")
_NO_ROWS: dict[str, Any] = {
    **dict.fromkeys(("record_id", "region", "period", "region_no", "region_srid", "region_crowd"), _NONE),
    **dict.fromkeys(
        ("region_subjects", "region_other_keys", "region_rectangle", "hiding_record", "hiding_other"), _NONE
    ),
    **dict.fromkeys(("period_start_s", "period_end_s", "hiding_start_s", "hiding_end_s"), _NO_TIMES),
    **dict.fromkeys(("member_record", "member_trajectory"), _NONE),
    **dict.fromkeys(("member_start_s", "member_end_s"), _NO_TIMES),
    **dict.fromkeys(("offset", "hiding_offset"), np.zeros(1, np.int64)),
    "region_bounds": np.empty((0, 4)),
    "place": None,
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a task finds what it looks at, and how it knows that this is it."""

    server: tuple[int, int]  # the system's number, and that of the database
    snapshot: str
    attack: str  # drawn for each: a server that was started again names its snapshots as before
    run_id: int
    dataset_id: int
    revision: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """All trajectories of some people."""

    ids: Int  # ascending
    subject: Int  # of each: its number among all of the dataset
    # After which id, and up to which one, they are: others may lie between. None: each is looked up.
    ranges: list[tuple[int, int]] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question:
    """What `dbanon.attacks.shared.apart.Ask` is given."""

    look: Callable[..., Any]
    arguments: tuple[Any, ...]
    bounds: Bounds
    prepare: Callable[..., Any] | None
    given: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Answer:
    """What came of a part: of which trajectories and rows, as they were read, and the result, if a fix was there.

    Or why nothing can be decided on it.
    """

    ids: bytes
    rows: bytes
    found: tuple[Any, ...]
    undecided: str | None = None


# ---- in the process with the run -------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class Parts:
    """`dbanon.attacks.shared.apart.Ask`: cuts the people of a dataset into parts, and has tasks done about them."""

    tasks: Tasks
    number: int
    place: Place
    ids: Int
    subject: Int
    weight: Int
    rows: bytes = b""  # the digests of the stored rows, once they are read

    def __call__(
        self,
        look: Callable[..., T],
        arguments: tuple[Any, ...],
        bounds: Bounds,
        prepare: Callable[..., Any] | None,
        given: str | None,
    ) -> list[T]:
        """Have all parts looked at; raises `StoreError` unless each was, in the state that is to be judged."""
        rows = self.rows if prepare is not None else b""
        question = _Question(look=look, arguments=arguments, bounds=bounds, prepare=prepare, given=given)
        parts = _cut_people(self.subject, self.weight, self.number)
        tasks = ((self.place, self._make_part(at), question) for at in parts)
        try:
            answers = self.tasks.map(_answer_question, tasks, threads=PART_THREADS)
        except DbanonError as error:  # of a process that could not do its task: nothing is known of the run
            state = error.sqlstate if isinstance(error, StoreError) else None
            raise StoreError(str(error), state) from error
        except Exception as error:  # a machine's fault, too
            raise StoreError(
                f"A process of the cluster must look at its part of the people. It stopped with "
                f"{type(error).__name__}, so nothing was decided. See its log, and run it again.",
                sqlstate.CHANGED,
            ) from error
        for answer in answers:
            if answer.undecided is not None:
                raise UndecidableError(answer.undecided)
        seen = np.zeros(len(self.ids), np.int64)
        for at, answer in zip(parts, answers, strict=False):
            if (answer.ids, answer.rows) == (_digest_ids(self.ids[at]), rows):
                seen[at] += 1
        if len(answers) != len(parts) or (seen != 1).any():
            raise StoreError(
                "Every person must be looked at once, in the state that is verified. Some were not, so nothing was "
                "decided. Run it again.",
                sqlstate.CHANGED,
            )
        return [one for answer in answers for one in answer.found]

    def _make_part(self, at: Int) -> _Part:
        ids, cuts = self.ids[at], np.flatnonzero(np.diff(at) > 1) + 1
        pieces = np.split(ids, cuts) if len(cuts) < _MAX_ID_RANGES else [ids]
        return _Part(ids=ids, subject=self.subject[at], ranges=[(int(one[0]) - 1, int(one[-1])) for one in pieces])


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """A dataset whose fixes others read, the texts of its subjects, and who asks those others."""

    data: WithoutFixes
    subjects: arrow.TextCodes
    parts: Parts


def count_parts(fixes: int, readers: int) -> int:
    """Count the parts that so many fixes are cut into for so many threads that read; 0 where one process has all."""
    number = min(fixes // _MIN_PART_FIXES, max(_PARTS_PER_READER * readers, fixes // _MAX_PART_FIXES)) if readers else 0
    return number if number > 1 else 0


def read_without_fixes(snapshot: arrow.Snapshot, row: dict[str, Any], run_id: int, tasks: Tasks) -> Shared | None:
    """Read who is in a dataset, without fixes; None where no other process reads, or there is little to read.

    `snapshot` must stay open while parts are looked at.
    """
    readers = tasks.count_readers(PART_THREADS)
    if not readers:
        return None
    people = arrow.read_owners(snapshot, int(row["dataset_id"]))
    number = count_parts(int(people.weight.sum()) // 24, readers)
    if not number:
        return None
    codes, subject = arrow.TextCodes.encode_new(people.subject)
    place = Place(
        server=_identify_server(snapshot.connection),
        snapshot=arrow.export_snapshot(snapshot),
        attack=secrets.token_hex(8),
        run_id=int(run_id),
        dataset_id=int(row["dataset_id"]),
        revision=row["revision"],
    )
    parts = Parts(
        tasks=tasks, number=number, place=place, ids=people.trajectory_id, subject=subject, weight=people.weight
    )
    return Shared(
        data=WithoutFixes(
            trajectory_id=people.trajectory_id,
            subject=subject,
            srid=row["srid"],
            grid_m=row["grid_m"],
            grid_s=row["grid_s"],
            ends=people.ends,
            ask=parts,
            read=lambda at: _read(snapshot, place, _Part(ids=people.trajectory_id[at], subject=subject[at])),
            day=arrow.read_days(snapshot, int(row["dataset_id"])),
        ),
        subjects=codes,
        parts=parts,
    )


def _cut_people(subject: Int, weight: Int, number: int) -> list[Int]:
    """Cut trajectories into parts of about one weight, people whole: the indices of each part, ascending."""
    first = np.unique(subject, return_index=True)[1][np.unique(subject, return_inverse=True)[1]]
    order = np.argsort(first, kind="stable")  # by the first trajectory of the subject
    heads = np.flatnonzero(np.diff(first[order], prepend=-1))
    done = np.cumsum(np.add.reduceat(weight[order], heads)) if len(heads) else heads
    cuts = np.searchsorted(done, done[-1] * np.arange(1, number) / number) + 1 if len(done) else done
    ends = np.unique(np.concatenate([heads[np.minimum(cuts, len(heads) - 1)], [0, len(order)]]))
    return [np.sort(order[low:high]) for low, high in pairwise(ends)]


def _digest_ids(ids: Int) -> bytes:
    return hashlib.sha256(ids.astype(np.int64).tobytes()).digest()


def _identify_server(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    found: tuple[int, int] = connection.execute(replica.IDENTITY_QUERY).fetchone() or (0, 0)
    return found


# ---- in the process that does a task ---------------------------------------------------------------------------------

_prepared: dict[Any, "_Ready"] = {}  # of one place: what all parts of it need
_preparing = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ready:
    """The stored rows, their digests, members by trajectory, and what was made of all that."""

    rows: dict[str, Any]
    digests: bytes
    by_trajectory: dict[str, Any]
    made: Any


def _answer_question(place: Place, part: _Part, question: _Question) -> _Answer:
    """Read a part, and look at it."""
    try:
        return _answer_part(place, part, question)
    except (UndecidableError, DataError) as doubt:  # which one process would have, too
        return _Answer(ids=b"", rows=b"", found=(), undecided=str(doubt))


def _answer_part(place: Place, part: _Part, question: _Question) -> _Answer:
    with translate_errors(), _open_snapshot(place) as snapshot:
        data = _read(snapshot, place, part)
        ready = None if question.prepare is None else _make_ready(snapshot, place, question)
        given = () if question.given is None else (_GIVEN_READERS[question.given](snapshot, place.dataset_id, data),)
    ids, rows, made = _digest_ids(data.trajectory_id), _NO_ROWS, tuple[Any, ...]()
    if ready is not None:
        rows, made = ready.rows | _select_members(ready, part), (ready.made,)
    data = select_slots(data, *question.bounds) if question.bounds != (None, None) else data
    found = tuple[Any, ...]()
    if len(data.trajectory_id):
        found = (question.look(_make_evidence(data, rows), *question.arguments, *made, *given),)
    return _Answer(ids=ids, rows=ready.digests if ready else b"", found=found)


_GIVEN_READERS = {"fix_cell": find_fix_cells}


@contextmanager
def _open_snapshot(place: Place) -> Iterator[arrow.Snapshot]:
    """See what the process with the run sees, by this process's own login."""
    with _open_session() as session:
        if not queue.may_compute(session):
            raise StoreError(
                f"{_PROCESS_RULE} a login with the role dbanon_worker (or that of the database's own prefix). One has "
                "another. Grant it that role, or change its DBANON_DSN."
            )  # fmt: skip
        if _identify_server(session) != place.server:
            raise StoreError(f"{_PROCESS_RULE} the database of the run. One has another. Change its DBANON_DSN.")
        with arrow.open_snapshot(session, place.snapshot) as snapshot:
            yield snapshot


_PROCESS_RULE = "Every process that does tasks must have"


def _open_session() -> Session:
    embedded = not any(os.environ.get(name) for name in ("DBANON_DSN", *server.SERVER_VARIABLES))
    if embedded and not server.EmbeddedServer().status().running:
        raise StoreError(f"{_PROCESS_RULE} a database in its environment. One has none. Set DBANON_DSN there.")
    return connect(server.resolve(None).url)


def _read(snapshot: arrow.Snapshot, place: Place, part: _Part) -> Trajectories:
    query = f"SELECT revision, srid, grid_m, grid_s FROM ONLY dbanon.dataset WHERE dataset_id = {place.dataset_id}"
    revision, srid, grid_m, grid_s = snapshot.connection.execute(make_sql(query)).fetchone() or (None, 0, 0.0, 0)
    if revision != place.revision:
        raise StoreError("The dataset changed while its parts were read. Run it again.", sqlstate.CHANGED)
    if part.ranges is None:
        paths = arrow.read_paths(snapshot, place.dataset_id, among=part.ids)
    else:
        read = [arrow.read_paths(snapshot, place.dataset_id, after=low, until=high) for low, high in part.ranges]
        paths = arrow.Paths.from_parts(read)
    kept = np.isin(paths.trajectory_id, part.ids)
    at = np.searchsorted(part.ids, paths.trajectory_id)
    if not kept.all():
        paths, at = paths.select(kept), at[kept]
    return Trajectories(
        trajectory_id=paths.trajectory_id, subject=part.subject[at], offset=paths.offset, t=paths.t, x=paths.x,
        y=paths.y, srid=srid, grid_m=grid_m, grid_s=grid_s,
    )  # fmt: skip


def _make_ready(snapshot: arrow.Snapshot, place: Place, question: _Question) -> _Ready:
    """Read the rows and make of them what all parts need; known where this process has looked at the place before."""
    key = place, question.prepare, pickle.dumps(question.arguments)
    with _preparing:
        if key not in _prepared:
            _prepared.clear()
            written = _rows.read(snapshot, place.run_id)
            rows = written.fields
            order = np.argsort(rows["member_trajectory"], kind="stable")
            members = {name: rows[name][order] for name in _MEMBER_COLUMNS}
            rows |= {name: _NO_ROWS[name] for name in _MEMBER_COLUMNS}
            made = (
                question.prepare(_make_evidence(_make_empty_people(), rows), *question.arguments)
                if question.prepare
                else None
            )
            _prepared[key] = _Ready(rows=rows, digests=written.digests, by_trajectory=members, made=made)
        return _prepared[key]


def _select_members(ready: _Ready, part: _Part) -> dict[str, Any]:
    """Give the members that are trajectories of a part."""
    low = np.searchsorted(ready.by_trajectory["member_trajectory"], part.ids)
    number = np.searchsorted(ready.by_trajectory["member_trajectory"], part.ids, side="right") - low
    at = join_ranges(low, number)
    return {name: column[at] for name, column in ready.by_trajectory.items()}


def _make_empty_people() -> Trajectories:
    """Give the people of evidence on rows alone."""
    return Trajectories(
        trajectory_id=_NONE, subject=_NONE, offset=np.zeros(1, np.int64), t=_NO_TIMES, x=_NO_TIMES, y=_NO_TIMES, srid=0,
        grid_m=1.0, grid_s=1,
    )  # fmt: skip


def _make_evidence(data: Trajectories, rows: dict[str, Any]) -> Evidence:
    return Evidence(method="", algorithm="", params={}, suppressed={}, trajectories=data, **rows)

"""The rows of all families as docs/understand/ten-people.md has them: of the people of `conftest.RUN`, as `Cloaks`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg.types.json import Jsonb

from dbanon.base.cloaks import Atoms, Cloaks, Hiding, Regions, count_by_hour
from dbanon.runs import stored, writing
from tests.db.methods import change_methods

AT_S = 1_212_566_400  # 8:00
CELLS = """
INSERT INTO dbanon.cell (cell_id, dataset_id, geom)
SELECT c, 1, ST_MakeEnvelope(x, 0, x + 100, 100, 32610) FROM (VALUES (7, 0), (8, 100), (9, 200), (12, 900)) v (c, x)
"""
METHOD = """
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, traits)
VALUES (%s, 's', 'At least k.', %s, 'attack',
    jsonb_build_array(jsonb_build_object(
        'name', 'a', 'summary', 's', 'stands_alone', %s::boolean)), %s, %s)
ON CONFLICT DO NOTHING
"""
RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, suppressed, status, program_version)
SELECT 1, revision, %s, 'a', jsonb_build_object('k', %s::int), %s, 'verified', '0.1.0'
FROM dbanon.dataset WHERE dataset_id = 1
RETURNING run_id
"""
VERIFIED = """
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
VALUES (%s, 'attack', true, dbanon_internal.compute_run_digest(%s))
"""
LEFT_OUT = {
    "subjects": {"too_few": 3},
    "by_hour": count_by_hour(np.array([AT_S]), np.array([13]), np.array([10]), {"too_few": np.array([3])}),
}


def list_minutes(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, np.int64) * 60 + AT_S


def find_own_cell(person: int) -> list[float]:
    x = person // 5 * 70 + person
    return [x, x, x + 1, x + 1]


def make_figures(**others: object) -> dict[str, object]:
    return {"suppressed": LEFT_OUT, "metrics": {}, **others}


def make_tp_aware() -> Cloaks:
    period = np.tile(list_minutes((0, 1), (1, 2)), (2, 1))
    return Cloaks.from_rows(
        record_id=np.array([1, 1, 2, 2]), start=period[:, 0], end=period[:, 1],
        bounds=np.array([[0, 0, 40, 30], [10, 0, 50, 30], [70, 60, 99, 90], [70, 50, 99, 90]], float),
        crowd=np.full(4, 5), subjects=np.full(4, 5),
        extra=np.array([0, -1, -1, -1]), extras=('{"requests": [{"poi": "pharmacy"}]}',),
        member_record=np.repeat([1, 2], 5), member_trajectory=np.arange(100, 110), **make_figures(),
    )  # fmt: skip


def make_sensitive_sites() -> Cloaks:
    record = np.arange(1, 11)
    hidden = record <= 5
    return Cloaks.from_rows(
        record_id=record, start=np.full(10, AT_S), end=np.full(10, AT_S + 60),
        bounds=np.array([[0, 0, 40, 30]] * 5 + [find_own_cell(p) for p in range(5, 10)], float),
        crowd=np.where(hidden, 5, 1), subjects=np.ones(10, int), extra=np.where(hidden, 0, -1),
        extras=('{"cloaked": true}',), member_record=record, member_trajectory=record + 99, **make_figures(),
    )  # fmt: skip


def _make_generalised(**others: object) -> Cloaks:
    period = np.tile(list_minutes((0, 4), (4, 5)), (2, 1))
    return Cloaks.from_rows(
        record_id=np.array([1, 1, 2, 2]), start=period[:, 0], end=period[:, 1],
        bounds=np.array([[0, 0, 300, 100], [200, 0, 400, 100]] * 2, float),
        crowd=np.full(4, 2), subjects=np.ones(4, int), **make_figures(**others),
    )  # fmt: skip


def make_k_merge() -> Cloaks:
    return _make_generalised(member_record=np.array([1, 1, 2, 2]), member_trajectory=np.array([100, 101, 100, 101]))


def make_kte_hide() -> Cloaks:
    """p0 is suppressed from 8:04 on, but for a second member that its record carries then."""
    stretch = list_minutes((0, 4), (4, 5), (0, 0))
    window = list_minutes((0, 5), (0, 4), (4, 5))
    return _make_generalised(
        member_record=np.array([1, 1, 2]), member_trajectory=np.array([100, 102, 101]),
        member_start=stretch[:, 0], member_end=stretch[:, 1],
        hiding=Hiding(
            record=np.array([1, 2, 2]), offset=np.arange(4), other=np.array([2, 1, 1]),
            start=window[:, 0], end=window[:, 1],
        ),
    )  # fmt: skip


def make_objects() -> Cloaks:
    record = np.repeat(np.arange(1, 11), 2)
    second = np.tile([False, True], 10)
    hidden = second & (record <= 2)
    period = np.tile(list_minutes((0, 1), (1, 2)), (10, 1))
    window = list_minutes((1, 2), (1, 2))
    bounds = np.array([find_own_cell(r - 1) for r in record], float) + np.where(second, 10, 0)[:, None] * np.array(
        [1, 0, 1, 0]
    )
    bounds[hidden] = [0, 0, 40, 30]
    return Cloaks.from_rows(
        record_id=record, start=period[:, 0], end=period[:, 1], bounds=bounds,
        crowd=np.where(hidden, 2, 1), subjects=np.ones(20, int), extra=np.where(hidden, 0, -1),
        extras=('{"cloaked": true}',), member_record=np.arange(1, 11), member_trajectory=np.arange(100, 110),
        hiding=Hiding(
            record=np.array([1, 2]), offset=np.arange(3), other=np.array([2, 1]), start=window[:, 0], end=window[:, 1]
        ),
        **make_figures(),
    )  # fmt: skip


def make_semantic() -> Cloaks:
    return Cloaks(
        offset=np.array([0, 2, 4]), region=np.array([0, 1, 0, 1], np.int32), period=np.array([0, 1, 0, 1], np.uint8),
        regions=Regions(
            crowd=np.full(2, 2, np.int32), subjects=np.ones(2, np.int32),
            cell_offset=np.array([0, 2, 6]), cell=np.array([7, 8, 7, 8, 9, 12]),
            extra=np.array([0, 1], np.int32), extras=('{"categories": 2}', '{"categories": 3}'),
        ),
        periods=list_minutes((0, 20), (20, 60)), atoms=Atoms(cell=np.array([7, 8, 9, 12]), atom=np.array([0, 0, 1, 1])),
        member_record=np.array([1, 1, 2, 2]), member_trajectory=np.array([100, 101, 100, 101]), **make_figures(),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Contract:
    """A family of docs/understand/ten-people.md: what core functions ask of it, and its rows."""

    name: str
    k: int
    cloaks: Callable[[], Cloaks]
    hidden_by: str = "record"
    stands_alone: bool = False
    hides: str = "place"
    column: tuple[str, str, str] | None = None
    region_type: str = "Polygon"


_CLOAKED = ("cloaked", "boolean", "false")
CONTRACTS = {
    contract.name: contract
    for contract in (
        Contract(name="bundles", k=5, hides="sender", cloaks=make_tp_aware, column=("requests", "jsonb", "[]")),
        Contract(name="sites", k=5, hidden_by="region", cloaks=make_sensitive_sites, column=_CLOAKED),
        Contract(name="k-merge", k=2, cloaks=make_k_merge),
        Contract(name="kte-hide", k=2, stands_alone=True, cloaks=make_kte_hide),
        Contract(name="objects", k=2, stands_alone=True, cloaks=make_objects, column=_CLOAKED),
        Contract(
            name="areas", k=2, stands_alone=True, cloaks=make_semantic,
            column=("categories", "integer", "0"), region_type="MultiPolygon",
        ),
    )
}  # fmt: skip


def write(connection: psycopg.Connection, contract: Contract, cloaks: Cloaks | None = None) -> int:
    """Write a verified run of a family, with its method; returns its id."""
    columns = [{"name": n, "sql_type": t, "default": d, "comment": "c"} for n, t, d in filter(None, [contract.column])]
    traits = {"hides": contract.hides, "hidden_by": contract.hidden_by, "notices": {}, "totals": {}, "reasons": {}}
    given = [contract.name, contract.region_type, contract.stands_alone, Jsonb(columns), Jsonb(traits)]
    if not connection.execute("SELECT 1 FROM dbanon.cell").fetchone():
        connection.execute(CELLS)
    with connection.transaction():
        change_methods(connection, METHOD, given)
        row = connection.execute(RUN, [contract.name, contract.k, Jsonb(LEFT_OUT)]).fetchone()
        assert row is not None
        written = contract.cloaks() if cloaks is None else cloaks
        writing.write_cloaks(connection, row[0], stored.find_dataset(connection, "ten"), written)
    connection.execute(VERIFIED, [row[0], row[0]])
    return int(row[0])

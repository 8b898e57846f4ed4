"""Keeps figures in ``dbanon.evaluation`` and finds them again, so that a setting is measured once.

Questions, their true counts and their answers are never kept.
"""

import importlib.metadata
import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from psycopg.rows import dict_row

from dbanon.postgres.connection import Connection, make_jsonb
from dbanon.results.figures import Against, Evaluation, Figure
from dbanon.runs import stored


@dataclass(frozen=True, kw_only=True)
class Key:
    """Identifies figures: with equal keys they are equal. `params` are all parameters stored with the run."""

    dataset_id: int
    revision: int
    method: str
    algorithm: str
    params: Mapping[str, Any]
    sample: int | None
    against: Against
    queries: int
    seed: int


def make_key(row: stored.RunRow, measured: Evaluation) -> Key:
    """Make the key of figures that were measured for a run on all people."""
    return Key(
        dataset_id=row.dataset_id,
        revision=row.dataset_revision or 0,
        method=row.method,
        algorithm=row.algorithm,
        params=row.params,
        sample=None,
        against=measured.against,
        queries=measured.queries,
        seed=measured.seed,
    )


def keep(connection: Connection, key: Key, measured: Evaluation) -> None:
    """Keep the figures of a run, and the other facts of its evaluation."""
    columns = (
        *("run_id", "dataset_id", "dataset_revision", "method", "algorithm", "params", "sample", "against"),
        *("queries", "seed", "figures", "run_figures", "notes"),
    )
    values = [
        *(measured.run_id, key.dataset_id, key.revision, key.method, key.algorithm, make_jsonb(key.params), key.sample),
        *(key.against, key.queries, key.seed, make_jsonb({"all": [_write_figure(one) for one in measured.figures]})),
        *(make_jsonb(measured.run), list(measured.notes)),
    ]
    places = ", ".join("%s -> 'all'" if column == "figures" else "%s" for column in columns)
    connection.execute(f"INSERT INTO dbanon.evaluation ({', '.join(columns)}) VALUES ({places})", values)


def find(connection: Connection, key: Key, dataset: str) -> Evaluation | None:
    """Find the figures of an earlier sweep by this version of the program, if no release of these people came since."""
    query = """
        SELECT e.run_id, e.figures, e.run_figures, e.notes
        FROM dbanon.evaluation e
        WHERE e.dataset_id = %(dataset_id)s AND e.dataset_revision = %(revision)s AND e.method = %(method)s
            AND e.algorithm = %(algorithm)s AND e.params = %(params)s AND e.sample IS NOT DISTINCT FROM %(sample)s
            AND e.against = %(against)s AND e.queries = %(queries)s AND e.seed = %(seed)s
            AND e.run_figures ->> 'version' = %(version)s AND (e.run_figures -> 'releases')::bigint = %(releases)s
        ORDER BY e.evaluation_id DESC LIMIT 1"""
    given = {
        **vars(key),
        "params": make_jsonb(key.params),
        "version": importlib.metadata.version("dbanon"),
        "releases": count_releases(connection, key.dataset_id),
    }
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(query, given).fetchone()
    if row is None:
        return None
    return Evaluation(
        run_id=row["run_id"],
        source=f"{key.method}, {key.algorithm}",
        dataset=dataset,
        against=key.against,
        queries=key.queries,
        seed=key.seed,
        figures=tuple(_read_figure(one) for one in row["figures"]),
        notes=tuple(row["notes"]),
        run=row["run_figures"],
    )


def find_latest(connection: Connection, runs: Collection[int], against: Against) -> dict[int, Evaluation]:
    """Find the figures that were last kept of some runs on all people, by run; none of a run that was not measured."""
    query = """
        SELECT DISTINCT ON (e.run_id) e.run_id, e.method, e.algorithm, d.name AS dataset, e.against, e.queries, e.seed,
            e.figures, e.run_figures, e.notes, e.evaluated_at
        FROM dbanon.evaluation e JOIN dbanon.dataset d USING (dataset_id)
        WHERE e.run_id = ANY (%s) AND e.against = %s AND e.sample IS NULL AND e.figures <> '[]'
        ORDER BY e.run_id, e.evaluation_id DESC"""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query, [list(runs), against]).fetchall()
    return {
        row["run_id"]: Evaluation(
            run_id=row["run_id"],
            source=f"run {row['run_id']} ({row['method']}, {row['algorithm']})",
            dataset=row["dataset"],
            against=row["against"],
            queries=row["queries"],
            seed=row["seed"],
            figures=tuple(_read_figure(one) for one in row["figures"]),
            notes=(f"Measured before, on {row['evaluated_at']:%Y-%m-%d}.", *row["notes"]),
            run=row["run_figures"],
        )
        for row in rows
    }


def count_releases(connection: Connection, dataset_id: int) -> int:
    """Count the releases that a run may be compared with: all of a dataset's population, withdrawn ones too."""
    row = connection.execute(
        "SELECT count(*) FROM dbanon.release l JOIN dbanon.run r ON r.run_id = l.run_id "
        "JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id "
        "JOIN dbanon.dataset o ON o.population_id = d.population_id WHERE o.dataset_id = %s",
        [dataset_id],
    ).fetchone()
    return int(row[0]) if row else 0


def _write_figure(figure: Figure) -> dict[str, Any]:
    """Make a JSON object of a figure; infinity, which JSON lacks, is a text that the server reads as infinity."""
    kept = {name: value for name, value in asdict(figure).items() if value is not None}
    return {name: "Infinity" if value == math.inf else value for name, value in kept.items()}


def _read_figure(kept: Mapping[str, Any]) -> Figure:
    known: dict[str, Any] = {name: math.inf if value == "Infinity" else value for name, value in kept.items()}
    return Figure(**{"value": None, **known})

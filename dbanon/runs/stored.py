"""Rows of datasets and runs: looked up, planned, verified, dropped; and what a run reports."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from dbanon.base.dataset import DatasetRow
from dbanon.base.errors import (
    DataError,
    DbanonError,
    InfeasibleError,
    ParameterError,
    SchemaMismatch,
    StoreError,
    VerificationFailed,
    choose_one,
)
from dbanon.options.publishing import Planning
from dbanon.pages import notebook
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection, fetch_value, make_jsonb, translate_errors
from dbanon.results.figures import format_percent
from dbanon.runs import queue

if TYPE_CHECKING:
    from dbanon.attacks import Verdict
    from dbanon.metrics.surface import Surface

ERROR_KINDS: dict[type[DbanonError], str] = {
    ParameterError: "parameter",
    DataError: "data",
    InfeasibleError: "infeasible",
    StoreError: "store",
    SchemaMismatch: "store",
}
"""What a failed run stores of its error."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A row of ``dbanon.run``, with the name of its dataset."""

    run_id: int
    dataset_id: int
    dataset: str
    dataset_revision: int | None
    data_digest: bytes | None
    method: str
    algorithm: str
    params: Mapping[str, Any]
    seed: int | None
    status: str
    metrics: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    timings: Mapping[str, Any]
    error: str | None
    error_kind: str | None
    peak_rss_mb: float | None


def find_dataset(connection: Connection, name: str) -> DatasetRow:
    """Look up a dataset by name; raises `ParameterError` if there is none, naming those there are."""
    with connection.cursor(row_factory=class_row(DatasetRow)) as cursor:
        dataset = cursor.execute(
            "SELECT dataset_id, name, srid, grid_m, grid_s, revision FROM dbanon.dataset "
            "WHERE name = %s AND dropped_at IS NULL",
            [name],
        ).fetchone()
    if dataset is not None:
        return dataset
    known = [row[0] for row in connection.execute("SELECT name FROM dbanon.dataset WHERE dropped_at IS NULL")]
    hint = choose_one(known) or "Load one with `dbanon load trajectories`."
    raise ParameterError(f"The dataset must exist. There is none named '{name[:60]}'. {hint}")


def demand_unchanged(connection: Connection, dataset: DatasetRow) -> None:
    """Raise `StoreError` if the dataset changed since `dataset` was read; the digest notices what changes later."""
    revision = fetch_value(
        connection, "SELECT revision FROM dbanon.dataset WHERE dataset_id = %s", [dataset.dataset_id]
    )
    if revision != dataset.revision:
        raise StoreError("The dataset changed while the run was computed, so nothing was kept. Run it again.")


def find_run(connection: Connection, run_id: int) -> RunRow:
    """Look up a run; raises `ParameterError` if there is none."""
    with connection.cursor(row_factory=class_row(RunRow)) as cursor:
        run = cursor.execute(
            "SELECT r.run_id, r.dataset_id, d.name AS dataset, r.dataset_revision, r.data_digest, r.method, "
            "r.algorithm, r.params, r.seed, r.status, r.metrics, r.suppressed, r.timings, r.error, r.error_kind, "
            "r.peak_rss_mb FROM dbanon.run r JOIN dbanon.dataset d USING (dataset_id) "
            "WHERE r.run_id = %s",
            [run_id],
        ).fetchone()
    if run is None:
        raise queue.make_no_run_error(run_id)
    return run


def find_kept_guests(connection: Connection, run_id: int) -> str | None:
    """Look up whether guests join a run, where an earlier one of its job, or of a live series, has found out."""
    query = """SELECT own.suppressed ->> 'guests' FROM dbanon.run own JOIN dbanon.run later ON later.run_id = %(run_id)s
            AND own.dataset_id = later.dataset_id AND own.method = later.method AND own.run_id < later.run_id
            AND ARRAY(SELECT own.params -> name FROM unnest(%(decisive)s::text[]) name)
                = ARRAY(SELECT later.params -> name FROM unnest(%(decisive)s::text[]) name)
        WHERE own.suppressed ->> 'guests' IN ('on', 'asked') AND (EXISTS (
            SELECT FROM dbanon.release rel
            WHERE rel.run_id = own.run_id AND rel.series_id IS NOT NULL AND rel.withdrawn_at IS NULL) OR EXISTS (
            SELECT FROM dbanon.job_period earlier JOIN dbanon.job_period now ON now.job_id = earlier.job_id
            WHERE earlier.run_id = own.run_id AND now.run_id = later.run_id))
        ORDER BY own.run_id LIMIT 1"""
    about = {"run_id": run_id, "decisive": ["step_s", "instants", "align", "max_gap_s"]}  # of presence
    row = connection.execute(query, about).fetchone()
    return None if row is None else str(row[0])


def list_live_releases(connection: Connection, run_id: int) -> list[str]:
    """Name the live releases of a run."""
    query = "SELECT name FROM dbanon.release WHERE run_id = %s AND withdrawn_at IS NULL ORDER BY name"
    return [row[0] for row in connection.execute(query, [run_id])]


def list_runs(connection: Connection) -> list[dict[str, Any]]:
    """List all runs, newest last, each with the names of its live releases."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            "SELECT v.run_id, v.dataset, v.method, v.algorithm, v.params, r.seed, v.status, v.progress, v.rows, "
            "r.metrics, v.releases, v.submitted_by, r.created_at, v.started_at, v.finished_at, v.duration, v.worker, "
            "v.error, v.publish_error FROM dbanon.runs v JOIN dbanon.run r USING (run_id) ORDER BY v.run_id"
        ).fetchall()


def list_health(connection: Connection) -> list[dict[str, Any]]:
    """List what is wrong, the worst first: level, about, what, since and, with commands instead of SQL, remedy."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("SELECT level, about, what, since, remedy FROM dbanon.health ORDER BY level DESC, since")
        return [{**row, "remedy": sqlstate.adapt_to_command_line(row["remedy"])} for row in rows]


def count_subjects(connection: Connection, dataset_id: int) -> int:
    """Count the people of a dataset."""
    return int(fetch_value(connection, "SELECT subjects FROM dbanon_internal.measure_data(%s)", [dataset_id]))


def complete_params(connection: Connection, method: str, algorithm: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Give all parameters as a run with these would store them, defaults too."""
    query = "SELECT dbanon_internal.complete_params(%s, %s, %s)"
    return cast("dict[str, Any]", fetch_value(connection, query, [method, algorithm, make_jsonb(params)]))


def has_rows(connection: Connection, run_id: int) -> bool:
    """Whether a run has stored rows."""
    return bool(fetch_value(connection, "SELECT EXISTS (SELECT FROM dbanon.record WHERE run_id = %s)", [run_id]))


def measure_overlap(connection: Connection, run_id: int) -> dict[str, Any]:
    """Measure a run against earlier releases of the same people, as ``dbanon.measure_overlap`` says it."""
    return cast(
        "dict[str, Any]", fetch_value(connection, "SELECT to_jsonb(m) FROM dbanon.measure_overlap(%s) m", [run_id])
    )


@dataclass(frozen=True, kw_only=True)
class PlanItem:
    """A row of ``dbanon.plan_run``; what is not `exact` is an estimate."""

    item: str
    value: int | float
    exact: bool
    note: str


def plan_run(connection: Connection, method: str, options: Planning) -> tuple[PlanItem, ...]:
    """Ask the database what a run would meet; nothing is written.

    Raises `ParameterError` if there is no such dataset, method, algorithm or parameter, or a value is outside its
    limits.
    """
    rows = connection.execute(
        "SELECT item, value, exact, note FROM dbanon.plan_run(%s, %s, %s, %s, %s)",
        [options.dataset, method, make_jsonb(options.params or {}), options.algorithm, options.allow_no_requests],
    ).fetchall()
    return tuple(
        PlanItem(item=item, value=int(value) if value == int(value) else float(value), exact=exact, note=note)
        for item, value, exact, note in ((*row[:3], sqlstate.adapt_to_command_line(row[3])) for row in rows)
    )


def lacks_needs(connection: Connection, method: str, options: Planning) -> bool:
    """Whether a run with these options could begin, and what it takes was not measured with the data of now."""
    from dbanon import methods  # with NumPy

    algorithm = methods.find_method(method).find_algorithm(options.algorithm).name
    query = """
        SELECT EXISTS (
            SELECT FROM dbanon.dataset d JOIN (
                SELECT dataset_id, dataset_revision, method, algorithm, params FROM dbanon.run WHERE status = 'verified'
                UNION ALL
                SELECT dataset_id, dataset_revision, method, algorithm, params FROM dbanon.evaluation
                WHERE run_figures ? 'needs') m ON m.dataset_id = d.dataset_id AND m.dataset_revision = d.revision
            WHERE d.name = %s AND d.dropped_at IS NULL AND m.method = %s AND m.algorithm = %s AND m.params = %s)"""
    checked = complete_params(connection, method, algorithm, options.params or {})
    if fetch_value(connection, query, [options.dataset, method, algorithm, make_jsonb(checked)]):
        return False
    return plan_run(connection, method, options)[-1].value == 0


def measure_needs(connection: Connection, run_id: int) -> dict[str, float]:
    """Measure what a verified run took."""
    return cast("dict[str, float]", fetch_value(connection, "SELECT dbanon_internal.measure_needs(%s)", [run_id]))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A row of ``dbanon.choose_method``: a method that fits a dataset. `cost` says what it costs there, if measured."""

    method: str
    algorithm: str
    params: Mapping[str, Any]
    hides: str
    facts: str
    publish_as: str
    statement: str
    cost: str = "not measured"


def choose_method(connection: Connection, dataset: str) -> tuple[Choice, ...]:
    """Ask the database which methods promise something for a dataset; raises `DataError` if none does."""
    with connection.cursor(row_factory=class_row(Choice)) as cursor:
        return tuple(cursor.execute("SELECT * FROM dbanon.choose_method(%s)", [dataset]))


def delete_rows(connection: Connection, run_id: int) -> None:
    """Delete the cloaks and members of a run that did not finish."""
    connection.execute("SELECT dbanon_internal.delete_rows(%s)", [run_id])


def compute_digest(connection: Connection, run_id: int, large: bytes | None = None) -> bytes:
    """Hash the run's stored rows, parameters and the dataset's revision as they are now.

    `large`: the digests of its regions, members and names, of who has read them.
    """
    query = """
        SELECT dbanon_internal.compute_run_digest(r, dbanon_internal.compute_content_digest(r, %s))
        FROM (VALUES (%s::bigint)) v (r)"""
    return bytes(fetch_value(connection, query, [large, run_id]))


class Found(NamedTuple):
    """What an attack found on the rows of `digest`, and the surface of rows that withstood it."""

    verdict: "Verdict"
    digest: bytes
    surface: "Surface | None" = None


def add_verification(connection: Connection, run_id: int, found: Found) -> None:
    """Record what an attack found on the rows of a run."""
    verdict, surface = found.verdict, found.surface
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, figures, clauses, digest, surface) "
        "SELECT %s, %s, %s, %s, %s, dbanon_internal.add_surface(%s, made.surface), made.surface FROM (SELECT "
        "CASE WHEN %s THEN ROW(%s, %s, %s, %s, %s, %s, %s)::published_inner.surface END AS surface) made",
        [
            *(run_id, verdict.attack, verdict.passed, make_jsonb(verdict.figures)),
            *(Jsonb([asdict(clause) for clause in verdict.clauses]), found.digest, surface is not None),
            *([*surface[:-1], surface.sums.tolist()] if surface else [None] * 7),
        ],
    )


def list_notices(connection: Connection, run_id: int) -> tuple[str, ...]:
    """Say of a verified run what `publish` will say again: what it leaves out, and what its attack warns of."""
    return tuple(row[0] for row in connection.execute("SELECT dbanon_internal.list_run_notices(%s)", [run_id]))


def find_last_verification(connection: Connection, run_id: int) -> int:
    """Number the last attack on a run; 0 if there was none."""
    query = "SELECT coalesce(max(verification_id), 0) FROM dbanon.verification WHERE run_id = %s"
    return cast("int", fetch_value(connection, query, [run_id]))


def find_latest_verdict(connection: Connection, run_id: int) -> "Verdict":
    """Look up what the last attack on a run found; raises `ParameterError` if there was none."""
    from dbanon.attacks import Clause, Verdict  # with NumPy, which is slow to import

    row = connection.execute(
        "SELECT attack, passed, figures, clauses FROM dbanon.verification WHERE run_id = %s "
        "ORDER BY verification_id DESC LIMIT 1",
        [run_id],
    ).fetchone()
    if row is None:
        raise queue.make_no_run_error(run_id)
    attack, passed, figures, clauses = row
    return Verdict(attack=attack, passed=passed, figures=figures, clauses=tuple(Clause(**clause) for clause in clauses))


def drop_run(connection: Connection, run_id: int) -> int:
    """Delete a run that was never published and is not being worked on; returns how many cloaks went.

    Raises `ParameterError` if there is no such run; `StoreError` if it was published, or is being worked on.
    """
    with translate_errors():
        row = connection.execute("SELECT dbanon.drop_run(%s)", [run_id]).fetchone()
    return cast("tuple[int]", row)[0]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What ``dbanon run`` and ``dbanon verify`` report."""

    run_id: int
    method: str
    algorithm: str
    status: str
    metrics: Mapping[str, Any]
    verdict: "Verdict"
    timings: Mapping[str, float] = field(default_factory=dict)
    suppressed: Mapping[str, Any] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    release: str | None = None
    rows_published: int | None = None
    notices: tuple[str, ...] = ()
    refusal: str | None = None
    k: int | None = None

    def _repr_html_(self) -> str:
        title = f"Run {self.run_id} · {self.method}, {self.algorithm}"
        share = self.metrics.get("published_share")
        facts = {} if share is None else {"published": format_percent(share)}
        return notebook.make_view(title, self.verdict.clauses, facts)

    def require_verified(self) -> None:
        """Raise `VerificationFailed` with the clauses that broke, unless the attack found nothing."""
        if not self.verdict.passed:
            raise VerificationFailed(self.refusal or f"Run {self.run_id} must be verified. It is {self.status}.")


def read_result(connection: Connection, run_id: int, *, after: int = 0) -> RunResult:
    """Report a run that a worker did, from what is stored of it.

    Parameters
    ----------
    after : int
        Id of the last verification that does not count.

    Raises
    ------
    DbanonError
        The run's own error, if it failed or was cancelled, or if its verification did not finish.
    """
    row = find_run(connection, run_id)
    if row.status not in ("verified", "refused"):
        kinds = {name: kind for kind, name in ERROR_KINDS.items() if kind is not SchemaMismatch}
        raise kinds.get(row.error_kind or "", StoreError)(
            row.error or f"Run {run_id} must be done. It is {row.status}."
        )
    if find_last_verification(connection, run_id) == after:
        raise queue.make_not_verified_error(connection, run_id)
    verdict = find_latest_verdict(connection, run_id)
    return RunResult(
        run_id=run_id,
        method=row.method,
        algorithm=row.algorithm,
        status=row.status,
        metrics=row.metrics,
        verdict=verdict,
        timings=row.timings,
        suppressed=row.suppressed,
        k=row.params.get("k"),
        peak_rss_mb=row.peak_rss_mb or 0.0,
        notices=list_notices(connection, run_id) if row.status == "verified" else (),
        refusal=row.error if row.status == "refused" else None,
    )

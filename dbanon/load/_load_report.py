"""The record that a load leaves, and what the SQL functions of a load say meanwhile."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import psycopg

from dbanon.base.progress import Progress
from dbanon.postgres import sqlstate
from dbanon.postgres.connection import Connection

LOAD_COLUMNS = """load_id, file_rows AS rows_read,
    rows_kept, quarantined, trajectories, subjects, days, far, target AS srid,
    first_time AT TIME ZONE 'UTC' AS first_time, last_time AT TIME ZONE 'UTC' AS last_time, left_out, late_periods"""
"""What of a load of trajectories the SQL functions report, a row for each source."""


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What a load read, kept, and left out by reason; `far` counts what lies far outside the rest and was kept.

    With `load_id` it can be taken back. `first_time` and `last_time` are those of the fixes kept: a wrong unit or zone
    shows there. `days` counts those of subjects, where they are cut. `left_out` counts by reason what has no copy in
    quarantine: `known` rows that were there already, `late` ones of published times (by period in `late_periods`),
    those of people who were `forgotten`, and others.
    """

    dataset: str
    kind: str
    load_id: int
    source: list[str]
    read: int
    kept: int
    quarantined: dict[str, int]
    trajectories: int
    subjects: int
    srid: int
    far: dict[str, int]
    left_out: dict[str, int] = field(default_factory=dict)
    late_periods: tuple[Mapping[str, Any], ...] = ()
    first_time: datetime | None = None
    last_time: datetime | None = None
    days: int | None = None
    notices: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """Rows that were there already."""
        return self.left_out.get("known", 0)

    @property
    def late(self) -> int:
        """New rows of times that are published."""
        return self.left_out.get("late", 0)

    @property
    def forgotten(self) -> int:
        """Rows of people who were forgotten."""
        return self.left_out.get("forgotten", 0)


def add_totals(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up, over the sources of a load, rows by reason."""
    total: Counter[str] = Counter()
    for of_one in counts:
        total.update(of_one)
    return dict(sorted(total.items()))


@contextmanager
def collect_notices(connection: Connection, progress: Progress) -> Iterator[list[str]]:
    """Pass on what the SQL functions of a load say, for a block in a transaction: stages to `progress`.

    Yields a list that fills with their notices.
    """
    notices: list[str] = []

    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.sqlstate != sqlstate.OWN_NOTICE:
            return
        text = sqlstate.adapt_to_command_line(diagnostic.message_primary or "")
        if diagnostic.severity_nonlocalized == "NOTICE":
            notices.append(f"Notice: {text}")
        else:
            progress(text, 0, None)

    query = "SELECT current_setting('client_min_messages'), current_setting('application_name')"
    level, name = cast("tuple[str, str]", connection.execute(query).fetchone())
    set_both = "SELECT set_config('client_min_messages', %s, true), set_config('application_name', %s, true)"
    connection.add_notice_handler(hear)
    try:
        connection.execute(set_both, ["debug1", name])
        yield notices
        connection.execute(set_both, [level, name])
    finally:
        connection.remove_notice_handler(hear)


def report(dataset: str, sources: list[str], loads: Sequence[Mapping[str, Any]], notices: Sequence[str]) -> LoadReport:
    """Report what became of trajectories: `loads` has a row for each source."""
    made = loads[0]
    first, last = (_convert_to_utc(made[name]) for name in ("first_time", "last_time"))
    return LoadReport(
        dataset=dataset,
        kind="trajectories",
        load_id=made["load_id"],
        source=sources,
        read=sum(load["rows_read"] for load in loads),
        kept=sum(load["rows_kept"] for load in loads),
        quarantined=add_totals(load["quarantined"] for load in loads),
        left_out=add_totals(load["left_out"] for load in loads),
        late_periods=tuple(made["late_periods"]),
        trajectories=made["trajectories"],
        subjects=made["subjects"],
        days=made["days"],
        srid=made["srid"],
        far=dict(sorted(made["far"].items())),
        first_time=first,
        last_time=last,
        notices=tuple(notices),
    )


def _convert_to_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)

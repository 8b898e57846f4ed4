"""Runs ``dbanon demo``: generates a small city, and loads, anonymises, attacks and publishes it as a user would.

Before it publishes, it moves one of the stored rows to show that dbanon refuses it then, and puts the row back. It ends
with a page on which the truth is shown: its people are generated.
"""

import tempfile
import textwrap
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from dbanon import methods, synth
from dbanon.base.errors import DbanonError, ParameterError
from dbanon.cli import report
from dbanon.evaluation import evaluating
from dbanon.options.reporting import Reporting
from dbanon.postgres.connection import find_postgis_schema, translate_errors
from dbanon.reports import reporting
from dbanon.runs import stored

if TYPE_CHECKING:
    from dbanon.database import Database, RunResult
    from dbanon.load import LoadReport

DATASET = "demo"
RELEASE = "demo_k5"
PARAMETERS = {"k": 5, "instants": 30, "step_s": 60}
ROWS_SHOWN = 8
COLUMNS_SHOWN = ("record_id", "seq", "valid_from", "region", "crowd", "requests")
MOVE_M = 1000
_MOVE_QUERY = (
    "UPDATE dbanon.cloak SET region = {}.ST_Translate(region, %s, 0) WHERE run_id = %s AND record_id = 1 AND seq = 1"
)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The fate of a run with one row moved: the clauses that broke, and the answers of verify and publish."""

    clauses: tuple[str, ...]
    verify: str
    publish: str


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The results of the demo: the loads (none if the dataset was there already), the run, rows of the view.

    `gate` is None if this login may not change stored rows; `page` is None if none was asked for.
    """

    loads: "tuple[LoadReport, ...]"
    result: "RunResult"
    header: list[str]
    rows: list[tuple[Any, ...]]
    gate: Gate | None
    page: Path | None


def play(database: "Database", page: Path | None = None) -> Demo:
    """Generate, load, run, attack, move a row and be refused, publish and read as an analyst; may be repeated.

    `page` is the file to write a page to, with the truth.
    """
    loads = () if _is_loaded(database) else _load(database)
    result = database.run(methods.DEMO_METHOD, dataset=DATASET, params=PARAMETERS, seed=1)
    result.require_verified()
    gate = _try_the_gate(database, result.run_id)
    rows, notices = database.publish(result.run_id, RELEASE, replace=True)
    result = replace(result, release=RELEASE, rows_published=rows, notices=notices)
    header, shown = database.release_rows(RELEASE, ROWS_SHOWN)
    written = None if page is None else _write(database, page)
    return Demo(loads=loads, result=result, header=header, rows=shown, gate=gate, page=written)


def _write(database: "Database", page: Path) -> Path:
    """Write the page as ``dbanon report --with-truth`` does, but without its questions, which take seconds."""
    connection, options = database.connection, Reporting(with_truth=True)
    with translate_errors():
        private = reporting.Private(
            choose_part=partial(evaluating.choose_part, connection),
            find_positions=partial(evaluating.find_positions, connection),
            evaluate=lambda run_id: None,
        )
        html = reporting.report(connection, RELEASE, options, private)
    return reporting.write(page, html, private=True)


def _try_the_gate(database: "Database", run_id: int) -> Gate | None:
    """Move a stored row, have the run attacked and refused, and put the row back, whatever happens in between."""
    try:
        _move(database, run_id, MOVE_M)
    except psycopg.errors.InsufficientPrivilege:
        return None
    refused = ""
    try:
        attacked = database.verify(run_id)
        try:
            database.publish(run_id, RELEASE, replace=True)
        except DbanonError as error:
            refused = str(error)
    finally:
        _move(database, run_id, -MOVE_M)
    database.verify(run_id).require_verified()
    broken = tuple(clause.name for clause in attacked.verdict.clauses if not clause.passed)
    return Gate(clauses=broken, verify=attacked.refusal or "", publish=refused)


def _move(database: "Database", run_id: int, by_m: int) -> None:
    schema = sql.Identifier(find_postgis_schema(database.connection))
    database.connection.execute(sql.SQL(_MOVE_QUERY).format(schema), [by_m, run_id])


def _is_loaded(database: "Database") -> bool:
    try:
        stored.find_dataset(database.connection, DATASET)
    except ParameterError:
        return False
    return True


def _load(database: "Database") -> "tuple[LoadReport, ...]":
    with tempfile.TemporaryDirectory(prefix="dbanon-demo-") as folder:
        database.progress("generating a city", 0, None)
        # With another seed than `dbanon synth` has by default, whose city would be recognised as a copy of the demo's.
        trajectories, requests = synth.write_demo(Path(folder), seed=12)
        columns = synth.CSV_COLUMNS
        # Equal names in another dataset mean other people.
        first = database.load_trajectories(
            [trajectories], dataset=DATASET, population=DATASET, x=columns["x"], y=columns["y"]
        )
        second = database.load_requests(requests, dataset=DATASET, columns=["poi"])
    return first, second


def format_demo(shown: Demo) -> str:
    """Lay out the demo, ending with the next steps."""
    family = methods.find_method(shown.result.method)
    parts = [report.format_load(loaded) for loaded in shown.loads]
    parts.append(report.format_run(shown.result))
    if shown.gate is not None:
        parts.append(_format_gate(shown.gate))
    parts += [
        f"SELECT {', '.join(COLUMNS_SHOWN)} FROM published.{RELEASE} LIMIT {ROWS_SHOWN};  -- as an analyst sees it\n"
        + report.format_table(
            COLUMNS_SHOWN, [[row[shown.header.index(c)] for c in COLUMNS_SHOWN] for row in shown.rows]
        ),
        f"The guarantee (k = {PARAMETERS['k']}): {family.guarantee}",
        *([_format_page(shown.page)] if shown.page is not None else []),
        "Next, with data of your own:\n"
        "  dbanon load trajectories FILE.csv --dataset mine --subject COL --time COL --x LON --y LAT\n"
        "  dbanon load requests REQUESTS.csv --dataset mine --subject COL --time COL --columns a,b\n"
        f"  dbanon run {family.name} --dataset mine -p k=5 --publish mine_k5\n"
        "  dbanon db psql -c 'SELECT * FROM published.mine_k5 LIMIT 5'",
    ]
    return "\n\n".join(parts)


def _format_gate(gate: Gate) -> str:
    """Report how the gate refused the moved row before the publication."""
    lines = [f"verify: {gate.verify}", f"publish: {gate.publish}"]
    broke = f"the clause {gate.clauses[0]} broke" if gate.clauses else "no clause broke"
    return "\n".join(
        [
            f"Tried before that: one stored row was moved by {MOVE_M:,} m, and {broke}.",
            *(textwrap.fill(one, report.LINE_WIDTH, initial_indent="  ", subsequent_indent="    ") for one in lines),
            "The row was put back, and the run verified again.",
        ]
    )


def _format_page(page: Path) -> str:
    """Name the page's file, and the way to see it."""
    return (
        f"Wrote {page}: private and published rows on one page. Its people are generated, so the truth is "
        f"shown.\nOpen it in a browser: {page.resolve().as_uri()}\nWith how far off answers are: dbanon report "
        f"{RELEASE} --with-truth -o {RELEASE}.html"
    )


def make_demo_json(shown: Demo) -> dict[str, Any]:
    """Make the object of the demo that ``--json`` prints."""
    rows = [dict(zip(shown.header, row, strict=True)) for row in shown.rows]
    return {
        "loads": [vars(one) for one in shown.loads],
        "run": report.make_run_json(shown.result),
        "gate": None if shown.gate is None else vars(shown.gate),
        "rows": rows,
        "page": None if shown.page is None else str(shown.page),
    }

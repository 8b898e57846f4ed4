"""Runs ``dbanon demo``: generates a small city, and loads, anonymises, attacks and publishes it as a user would."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon import methods, synth
from dbanon.base.errors import ParameterError
from dbanon.cli import report
from dbanon.runs import stored

if TYPE_CHECKING:
    from dbanon.database import Database, RunResult
    from dbanon.load import LoadReport

DATASET = "demo"
RELEASE = "demo_k5"
PARAMETERS = {"k": 5, "instants": 30, "step_s": 60}
ROWS_SHOWN = 8
COLUMNS_SHOWN = ("record_id", "seq", "valid_from", "region", "crowd", "requests")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo did: the loads (none where the dataset was there already), the run, rows of the view."""

    loads: "tuple[LoadReport, ...]"
    result: "RunResult"
    header: list[str]
    rows: list[tuple[Any, ...]]


def play(database: "Database") -> Demo:
    """Generate, load, run, attack, publish and read as an analyst; may be repeated."""
    loads = () if _is_loaded(database) else _load(database)
    result = database.run(
        methods.DEMO,
        dataset=DATASET,
        params=PARAMETERS,
        seed=1,
        publish=RELEASE,
        replace=True,
    )
    result.require_verified()
    header, rows = database.release_rows(RELEASE, ROWS_SHOWN)
    return Demo(loads=loads, result=result, header=header, rows=rows)


def _is_loaded(database: "Database") -> bool:
    try:
        stored.dataset_row(database.connection, DATASET)
    except ParameterError:
        return False
    return True


def _load(database: "Database") -> "tuple[LoadReport, ...]":
    with tempfile.TemporaryDirectory(prefix="dbanon-demo-") as folder:
        database.progress("generating a city", 0, None)
        # Not the city that `dbanon synth` makes by default, which would be recognised as a copy of the demo's.
        trajectories, requests = synth.write_demo(Path(folder), seed=12)
        columns = synth.CSV_COLUMNS
        # Equal names in another dataset mean other people.
        first = database.load_trajectories(
            [trajectories], dataset=DATASET, population=DATASET, x=columns["x"], y=columns["y"]
        )
        second = database.load_requests(requests, dataset=DATASET, columns=["poi"])
    return first, second


def text(shown: Demo) -> str:
    """The demo for people, ending with what to do next."""
    family = methods.method(shown.result.method)
    parts = [report.load_text(loaded) for loaded in shown.loads]
    parts += [
        report.run_text(shown.result),
        f"SELECT {', '.join(COLUMNS_SHOWN)} FROM published.{RELEASE} LIMIT {ROWS_SHOWN};  -- as an analyst sees it\n"
        + report.table(COLUMNS_SHOWN, [[row[shown.header.index(c)] for c in COLUMNS_SHOWN] for row in shown.rows]),
        f"The guarantee (k = {PARAMETERS['k']}): {family.guarantee}",
        "Next, with data of your own:\n"
        "  dbanon load trajectories FILE.csv --dataset mine --subject COL --time COL --x LON --y LAT\n"
        "  dbanon load requests REQUESTS.csv --dataset mine --subject COL --time COL --columns a,b\n"
        f"  dbanon run {family.name} --dataset mine -p k=5 --publish mine_k5\n"
        "  dbanon db psql -c 'SELECT * FROM published.mine_k5 LIMIT 5'",
    ]
    return "\n\n".join(parts)


def as_dict(shown: Demo) -> dict[str, Any]:
    """The demo as ``--json`` prints it."""
    rows = [dict(zip(shown.header, row, strict=True)) for row in shown.rows]
    return {"loads": [vars(one) for one in shown.loads], "run": report.run_json(shown.result), "rows": rows}

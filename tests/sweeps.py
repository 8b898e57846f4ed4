"""Made-up settings of a sweep: two values of k by two windows, and one that is impossible."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dbanon.evaluation import settings as judging
from dbanon.results.figures import Evaluation, Figure
from dbanon.results.sweep import Setting, Sweep


def draw_replicates(error: float, *, noise: float = 0.001, questions: str = "q") -> dict[str, Any]:
    """Errors that are drawn from the same questions differ in the same direction."""
    luck = np.random.default_rng(1).normal(0, 0.05, judging.REPLICATES)
    own = np.random.default_rng(int(error * 1e4)).normal(0, noise, judging.REPLICATES)
    return {"side_m": 2000.0, "questions": questions, "values": (error + luck + own).tolist()}


def make_setting(k: int, instants: int, share: float, error: float, **more: Any) -> Setting:
    figures = (
        Figure(name="published_share", value=share),
        Figure(name="count_error", value=error, low=error - 0.05, high=error + 0.05, side_m=2000.0, asked="moment"),
        Figure(name="count_error", value=error / 2, side_m=4000.0, asked="moment"),
        Figure(name="usable_resolution_m", value=math.inf if error > 0.4 else 1000 * (1 + error), low=1, high=math.inf),
    )
    found = Evaluation(
        run_id=None, source="tp-aware", dataset="cabs", against="published", queries=400, seed=1, figures=figures
    )
    suppressed = {"subjects": {"absent_at_some_instant": round(1000 * (1 - share)), "window_below_k": 0}}
    run = {"status": "verified", "rows": 10, "metrics": {"windows": 3}, "seen": 1000, "suppressed": suppressed}
    run |= {"overlap": {"below": 0, "relation": "disjoint"}, "replicates": draw_replicates(error), **more}
    varied = {"k": k, "instants": instants}
    return Setting(
        params=varied, varied=varied, promise={"k": k}, strength=(k,), outcome="verified", evaluation=found, run=run
    )


IMPOSSIBLE = Setting(
    params={"k": 600, "instants": 10}, varied={"k": 600, "instants": 10}, promise={"k": 600}, strength=(600,),
    outcome="impossible", reason="Too few people for k = 600.", run={"status": "impossible"},
)  # fmt: skip


def make_sweep(*found: Setting, **more: Any) -> Sweep:
    given: dict[str, Any] = {"dataset": "cabs", "wants": (), "sample": None, **more}
    made = Sweep(
        method="tp-aware", algorithm="traj-anon", people=500, queries=400, seed=1,
        settings=judging.judge(found, given["wants"]), **given,
    )  # fmt: skip
    return replace(made, sentences=judging.describe_parameters(made))


GRID = [
    make_setting(2, 10, 0.88, 0.12),
    make_setting(2, 30, 0.72, 0.16),
    make_setting(5, 10, 0.88, 0.18),
    make_setting(5, 30, 0.72, 0.27),
    IMPOSSIBLE,
]

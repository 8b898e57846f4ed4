"""The adversary that knows all that a subject did for some time, and looks for its record.

Of groups that share a record it only counts who is in them. Of records of one subject each it knows, for every subject
and every stretch of tau, the subject's samples and which of them were suppressed, finds the records that fit, and asks
whether these are k subjects', in noise and in silence, and whether they part ways again. Besides, what is published
must be true: every generalised sample holds a real one, and all that is missing is counted. Invariant: a verdict passes
only if every clause was decided and none is broken.

References
----------
Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of Spatiotemporal
Trajectory Data, 2017, sections II-B and II-C.
"""

import numpy as np

from dbanon.attacks import Evidence, Source
from dbanon.attacks.kte._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.kte._run_statements import HIDE, MERGE
from dbanon.attacks.shared.clauses import Attack, Counts
from dbanon.base.trajectory import Trajectories

__all__ = ["attack", "prepare", "read"]


def read(evidence: Evidence, source: Source) -> Evidence:
    """Read nothing beside the rows and the data."""
    del source
    return evidence


def prepare() -> None:
    """Attack two made-up people who hide each other, by either algorithm: what is compiled is what an attack needs."""
    two, ends, none = np.arange(2), np.arange(3), np.zeros(2)
    params = {
        "k": 2,
        "tau_s": 1,
        "leak_s": 1,
        "window_s": None,
        "grid_s": 1,
        "grid_m": 1.0,
        "reuse": "never",
        "improve": True,
    }
    for algorithm in (HIDE, MERGE):
        evidence = Evidence(
            method="",
            algorithm=algorithm,
            params={**params, "since": None, "until": None},
            suppressed={"samples": {}, "subjects": {}, "by_hour": []},
            trajectories=Trajectories(
                trajectory_id=two, subject=two, offset=ends, t=none, x=none, y=none, srid=0, grid_m=1.0, grid_s=1
            ),
            record_id=two, offset=ends, region=two, period=two, place=None,
            region_no=two, region_bounds=np.tile([0.0, 0.0, 1.0, 1.0], (2, 1)), region_rectangle=two >= 0,
            region_srid=two, region_crowd=two, region_subjects=two, region_other_keys=two,
            period_start_s=none, period_end_s=none + 1,
            member_record=two, member_trajectory=two, member_start_s=none * np.nan, member_end_s=none * np.nan,
            hiding_record=two, hiding_start_s=none, hiding_end_s=none + 1, hiding_offset=ends, hiding_other=two[::-1],
        )  # fmt: skip
        _count(evidence)


def _count(evidence: Evidence) -> Counts:
    from dbanon.attacks.kte import _counting

    return _counting.count_clauses(evidence)


attack = Attack(name="kte", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN, algorithms=(HIDE, MERGE))
"""Decides whether a stretch of any subject's movements fits fewer than k records, and whether the rows are true."""

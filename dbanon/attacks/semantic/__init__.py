"""The adversary that looks at what there is in each published region, and knows the whole movements of a person.

The adversary takes each polygon for the cells that its edges, or else PostGIS, show it to be the union of, and has
the points of interest of the cells counted anew: too few categories, or others than the city has, tell what people do
there. The adversary plays the run again, too, and asks from which cells it makes these regions: what no region tells
apart must not tell what people do either, and no region may depend on more. It counts who shares each record: a person
who is alone in a record is identified by any few points. What is published must be true as well: regions of whole cells
that hold the fixes of all their members, no row without all of them, and all that is missing counted.
Invariant: a verdict passes only if every clause was decided and none is broken.

References
----------
Tu, Zhao, Xu, Li, Su, Jin: Beyond K-Anonymity: Protect Your Trajectory from Semantic Attack, SECON 2017, sections II-B
and II-C.
"""

from dbanon.attacks.semantic._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.semantic.evidence import RegionEvidence, read
from dbanon.attacks.shared.clauses import Attack, Counts

__all__ = ["attack", "prepare", "read"]


def prepare() -> None:
    """Compile what looks at outlines and counts: on no cell and no region."""
    from dbanon.attacks.semantic import _atoms, _outlines

    _outlines.prepare()
    _atoms.prepare()


def _count(evidence: RegionEvidence) -> Counts:
    from dbanon.attacks.semantic import _counting

    return _counting.count_clauses(evidence)


attack = Attack(name="semantic", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN)
"""Decides whether a region tells a function or a record hides fewer than k, and whether the rows are true."""

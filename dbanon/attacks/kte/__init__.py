"""The adversary who knows all that a subject did for some time, and looks for its record.

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

from dbanon.attacks import Evidence, Source
from dbanon.attacks.kte._claims import HIDE, MERGE
from dbanon.attacks.kte._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.shared.frame import Attack, Counts

__all__ = ["APART", "attack", "prepare", "read"]

APART = True


def read(evidence: Evidence, source: Source) -> Evidence:
    """Read nothing beside the rows and the data."""
    del source
    return evidence


def prepare() -> None:
    """Import what counts, with Numba, while the evidence is read."""
    from dbanon.attacks.kte import _counting  # noqa: F401


def _count(evidence: Evidence) -> Counts:
    from dbanon.attacks.kte import _counting

    return _counting.count(evidence)


attack = Attack(name="kte", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN, algorithms=(HIDE, MERGE))
"""Decides whether a stretch of any subject's movements fits fewer than k records, and whether the rows are true."""

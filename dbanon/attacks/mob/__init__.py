"""The adversary that knows where each person was at its own instants, and which published record may be whom.

It lays out the instants anew, finds who fits which stored record at all instants that are known of them, keeps of these
pairs those that are in some assignment of all records to all people, and asks of each person whether at least k records
remain. Besides, what is published must be true: regions that hold their people, exact rows exact, nobody missing.
Invariant: a verdict passes only if every clause was decided and none is broken.

References
----------
Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009, section 4.
"""

from dbanon.attacks.mob._clauses import CLAUSES, LEFT_OPEN
from dbanon.attacks.mob.evidence import ObjectEvidence, read
from dbanon.attacks.shared.clauses import Attack, Counts

__all__ = ["attack", "prepare", "read"]


def prepare() -> None:
    """Compile what counts: attack two made-up people who hide one another."""
    from dbanon.attacks.mob import _counting

    _counting.prepare()


def _count(evidence: ObjectEvidence) -> Counts:
    from dbanon.attacks.mob import _counting

    return _counting.count_clauses(evidence)


attack = Attack(
    name="mob", clauses=CLAUSES, count=_count, left_open=LEFT_OPEN, algorithms=("symmetric", "extreme-union")
)
"""Decides whether any person fits fewer than k of the records, and whether these are true."""

"""What the attack on hidden objects looks at beside the rows: what is known of whom."""

from dataclasses import dataclass

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.cloaked import CloakedEvidence, read_cloaked
from dbanon.base.trajectory import QuasiIdentifiers


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectEvidence(CloakedEvidence):
    """What a run of hidden objects leaves: beside the rows, the times of quasi-identifiers."""

    # the set of the dataset that the run's parameters name, read anew from the database
    quasi_identifiers: QuasiIdentifiers


def read(evidence: Evidence, source: Source) -> ObjectEvidence:
    """Read the quasi-identifiers, and which rows are cloaked."""
    return evidence.extend(
        ObjectEvidence, **source.read_inputs("quasi_identifiers"), region_cloaked=read_cloaked(evidence, source)
    )

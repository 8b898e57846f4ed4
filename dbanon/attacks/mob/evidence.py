"""What the attack on hidden objects looks at beside the rows: what is known of whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.cloaked import read_cloaked
from dbanon.base.trajectory import QuasiIdentifiers


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectEvidence(Evidence):
    """What a run of hidden objects leaves: beside the rows, the times of quasi-identifiers.

    Attributes
    ----------
    quasi_identifiers : QuasiIdentifiers
        The set of the dataset that the run's parameters name, read anew from the database.
    region_cloaked : int8[r]
        Whether rows of the region say that they are no exact place: 1 where ``extra -> cloaked`` is true, 0 where it is
        false or not there, -1 where it is anything else.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "region": (*Evidence.tables["region"], "cloaked"),
    }

    quasi_identifiers: QuasiIdentifiers
    region_cloaked: NDArray[np.int8]

    @property
    def cloak_cloaked(self) -> NDArray[np.int8]:
        """Whether each row says that it is no exact place: int8[c]."""
        return np.asarray(self.region_cloaked[self.region])


def read(evidence: Evidence, source: Source) -> ObjectEvidence:
    """Read the quasi-identifiers, and which rows are cloaked."""
    return evidence.extend(
        ObjectEvidence, **source.read_inputs("quasi_identifiers"), region_cloaked=read_cloaked(evidence, source)
    )

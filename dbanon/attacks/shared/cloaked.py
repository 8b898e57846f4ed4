"""Shared by the attacks on families that publish exact rows beside regions: which of them a region says it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source


@dataclass(frozen=True, kw_only=True, eq=False)
class CloakedEvidence(Evidence):
    """Evidence with `region_cloaked`, int8[r]: whether rows of the region say that they are no exact place.

    It is 1 where ``extra -> cloaked`` is true, 0 where it is false or not there, -1 where it is anything else.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "region": (*Evidence.tables["region"], "cloaked"),
    }

    region_cloaked: NDArray[np.int8]

    @property
    def cloak_cloaked(self) -> NDArray[np.int8]:
        """Whether each row says that it is no exact place: int8[c]."""
        return np.asarray(self.region_cloaked[self.region])


def read_cloaked(evidence: Evidence, source: Source) -> NDArray[np.int8]:
    """Read `CloakedEvidence.region_cloaked`."""
    table = source.read_table("gather_cloaked_evidence")
    region = evidence.find_regions(table["region_no"])
    cloaked = np.zeros(len(evidence.region_no), np.int8)
    cloaked[region[region >= 0]] = table["cloaked"][region >= 0]
    return cloaked

"""Shared by the attacks on families that publish exact rows beside regions: which of them a region says it is."""

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source


def read_cloaked(evidence: Evidence, source: Source) -> NDArray[np.int8]:
    """Read whether rows of each region say that they are no exact place: int8[r].

    1 where ``extra -> cloaked`` is true, 0 where it is false or not there, -1 where it is anything else.
    """
    table = source.read_table("gather_cloaked_evidence")
    region = evidence.find_regions(table["region_no"])
    cloaked = np.zeros(len(evidence.region_no), np.int8)
    cloaked[region[region >= 0]] = table["cloaked"][region >= 0]
    return cloaked

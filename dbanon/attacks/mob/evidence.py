"""What the attack on hidden objects looks at beside the rows: what is known of whom, and counts of random queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.cloaked import read_cloaked
from dbanon.base.trajectory import Float, Int, QuasiIdentifiers


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectEvidence(Evidence):
    """What a run of hidden objects leaves: beside the rows, the times of quasi-identifiers, and range queries.

    Attributes
    ----------
    quasi_identifiers : QuasiIdentifiers
        The set of the dataset that the run's parameters name, read anew from the database.
    region_cloaked : int8[r]
        Whether rows of the region say that they are no exact place: 1 where ``extra -> cloaked`` is true, 0 where it is
        false or not there, -1 where it is anything else.
    query_start_s : float64[j]
        Where the period begins that a query asks about, unix seconds.
    query_bounds : float64[j, 4]
        The rectangle it asks about, on the dataset's grid: xmin, ymin, xmax, ymax.
    query_possibly, query_definitely : int64[j]
        How many rows of the period share an area with the rectangle, and how many lie in it.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "region": (*Evidence.tables["region"], "cloaked"),
        "query": ("start_s", "bounds", "possibly", "definitely"),
    }

    quasi_identifiers: QuasiIdentifiers
    region_cloaked: NDArray[np.int8]
    query_start_s: Float
    query_bounds: Float
    query_possibly: Int
    query_definitely: Int

    @property
    def cloak_cloaked(self) -> NDArray[np.int8]:
        """Whether each row says that it is no exact place: int8[c]."""
        return np.asarray(self.region_cloaked[self.region])


def read(evidence: Evidence, source: Source) -> ObjectEvidence:
    """Read the quasi-identifiers, which rows are cloaked, and what random queries find in PostGIS."""
    queries = source.read_table("gather_query_evidence")
    return evidence.extend(
        ObjectEvidence,
        **source.read_inputs("quasi_identifiers"),
        region_cloaked=read_cloaked(evidence, source),
        query_start_s=queries["start_s"],
        query_bounds=np.column_stack([queries[side] for side in ("xmin", "ymin", "xmax", "ymax")]),
        query_possibly=queries["possibly"],
        query_definitely=queries["definitely"],
    )

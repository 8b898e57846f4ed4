"""What the attack at sensitive sites looks at beside the rows: the sites, and who is found nearest to each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.cloaked import CloakedEvidence, read_cloaked
from dbanon.base.trajectory import Bool, Float, Int, Sites


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvidence(CloakedEvidence):
    """What a run around sensitive sites leaves: beside the rows, the sites, and who an adversary finds nearest to each.

    Attributes
    ----------
    sites : Sites
        The dataset's sites and shapes, read anew from the database.
    pair_site : int64[j]
        Site ids, of sites in the same cells the lowest: it stands for all. A pair is a site and one distinct (region,
        period, cloaked or not) among the rows: all at distance 0, and those not cloaked that are nearer than the run's
        ``guard_m``.
    pair_cloaked : bool[j]
    pair_rows : int64[j]
        How many rows have this region, period and `pair_cloaked`.
    pair_squared : float64[j]
        Squared distance in cells.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **CloakedEvidence.tables,
        "pair": ("site", "cloaked", "rows", "squared"),
    }

    sites: Sites
    pair_site: Int
    pair_cloaked: Bool
    pair_rows: Int
    pair_squared: Float


def read(evidence: Evidence, source: Source) -> SiteEvidence:
    """Read the sites, and join the rows with them."""
    from dbanon.attacks.sensitive_sites._join import join  # Shapely is slow to import

    given, cloaked = source.read_inputs("sites"), read_cloaked(evidence, source)
    pairs = join(evidence, cloaked == 1, given["sites"])
    return evidence.extend(SiteEvidence, **given, region_cloaked=cloaked, **pairs)

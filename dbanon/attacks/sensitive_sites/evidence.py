"""What the attack at sensitive sites looks at beside the rows: the sites, and who is found nearest to each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.cloaked import CloakedEvidence, read_cloaked
from dbanon.base.trajectory import Bool, Float, Int, Sites


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvidence(CloakedEvidence):
    """What a run around sensitive sites leaves: the rows, the sites, and who an adversary finds nearest to each."""

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **CloakedEvidence.tables,
        "pair": ("site", "cloaked", "rows", "squared"),
    }

    sites: Sites  # the dataset's sites and shapes, read anew from the database
    # int64[j]: site ids, of sites in the same cells the lowest: it stands for all. A pair is a site and one distinct
    # (region, period, cloaked or not) among the rows: all at distance 0, and those not cloaked that are nearer than the
    # run's ``guard_m``.
    pair_site: Int
    pair_cloaked: Bool  # bool[j]
    pair_rows: Int  # int64[j]: how many rows have this region, period and `pair_cloaked`
    pair_squared: Float  # float64[j]: squared distance in cells


def read(evidence: Evidence, source: Source) -> SiteEvidence:
    """Read the sites, and join the rows with them."""
    from dbanon.attacks.sensitive_sites._join import join  # Shapely is slow to import

    given, cloaked = source.read_inputs("sites"), read_cloaked(evidence, source)
    pairs = join(evidence, cloaked == 1, given["sites"])
    return evidence.extend(SiteEvidence, **given, region_cloaked=cloaked, **pairs)

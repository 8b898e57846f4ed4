"""User locations near sensitive sites: k subjects are hidden with each site, in one rectangle.

Decides who is hidden with which site, by least total area along a Hilbert curve (BK) or by groups along it (MK).
Invariant: every site has at least k subjects, no subject has two sites, and no subject who stands on a site is
published as they are.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
SSDBM 2008.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Sites, Trajectories
from dbanon.methods import CLOAKED, Algorithm, Method, Requirement, declare_parameter, declare_since, declare_until


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a run of sensitive-sites can be asked for."""

    k: int = declare_parameter(
        5, "Least number of people hidden with each site.", type="integer", minimum=2, promises="more"
    )
    at: int | None = declare_parameter(
        None,
        "Instant of the snapshot, ISO 8601 with a zone or unix seconds, a multiple of grid_s. Without it every "
        "person must have one fix only, and its time does not matter. Default: none.",
        type="instant",
    )
    max_gap_s: int = declare_parameter(
        300,
        "Oldest fix that still counts as a person's position at the instant.",
        type="integer",
        unit="s",
        minimum=0,
        maximum=604_800,
    )
    guard_m: float = declare_parameter(
        0.0,
        "People nearer to a site than this are hidden with it, too. People on the site are always hidden.",
        type="number",
        unit="m",
        minimum=0,
        maximum=100_000,
        promises="more",
    )
    guard_inside: bool = declare_parameter(
        False, "Whether all people inside a site's rectangle are hidden with it, too.", type="switch", promises="more"
    )
    improve: bool = declare_parameter(
        True,
        "Whether bk is followed by a search for smaller rectangles, which is not in the paper.",
        type="switch",
        algorithms=("bk",),
    )
    since: int | None = declare_since()
    until: int | None = declare_until()


METHOD = Method(
    name="sensitive-sites",
    module=__name__,
    summary="people near sensitive sites at one instant: one rectangle for each site and k people or more",
    guarantee="An adversary that knows the sensitive sites, and the person behind every row, cannot tie a site to "
    "fewer than k people. Each site's rectangle holds the site and at least k people, and no person counts for two "
    "sites.",
    adversary="A reader knows the sensitive sites and even the person behind every row, and wants to find the people "
    "at a site.",
    row_meaning="Each row is one person at one moment. Where cloaked is true, the person is somewhere in this region, "
    "and at least k people have the same one. Where cloaked is false, the person is exactly there.",
    left_out="People seen in the same hour (UTC), but without a position at that moment, are left out.",
    paper="Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of "
    "Sensitive Sites, 2008",
    attack="dbanon.attacks.sensitive_sites",
    algorithms=(
        Algorithm(name="bk", summary="least total area for people and sites along one curve", tight=None),
        Algorithm(name="mk", summary="people grouped along a curve, then given to sites: quicker, larger", tight=None),
    ),
    columns=(CLOAKED,),
    reads=("sites",),
    hides="place",
    holds="instant",
    hidden_by="region",
    instant="at",
    oldest="max_gap_s",
    notices={
        "exact_inside_rectangles": "People published exactly although they are inside a site's rectangle: %s. "
        "guard_inside hides them, too.",
        "rectangles_of_their_site_alone": "Rectangles no larger than their site: %s. All people of such a "
        "rectangle are at the site.",
    },
    totals={"subjects": "subjects"},
    reasons={
        "absent_at_instant": "People seen in the hour (UTC) of the snapshot, but without a position at its instant."
    },
    requires=Requirement(input="sites", hides="people near sensitive sites"),
    proposed={"params": {"k": 5}},
    example={"k": 4, "at": 120},
)


def anonymise(
    data: Trajectories, params: Parameters, rng: np.random.Generator, *, algorithm: str = "bk", sites: Sites
) -> Cloaks:
    """Hide k subjects with each site.

    Parameters
    ----------
    rng : numpy.random.Generator
        `mk` draws which of two sites gets a group that fits both equally.
    sites : Sites
        The sites, and the shapes of subjects.

    Returns
    -------
    Cloaks
        One record of one row for each subject, in the order of trajectory ids.

    Raises `ParameterError` if a subject has several fixes and `at` is not given, or is no slot; `DataError` if there is
    no site, or subjects and sites lie too far apart; `InfeasibleError` if there are too few subjects for the sites.
    """
    from dbanon.methods.sensitive_sites import _rows  # with Numba, which is slow to import

    return _rows.compute_cloaks(data, params, rng, algorithm, sites)


def prepare(params: Parameters, *, algorithm: str = "bk") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.sensitive_sites import _rows

    _rows.prepare(params, algorithm)

"""Base-station trajectories in regions whose points of interest do not say what a person was doing there.

Decides which trajectories are merged, and in which periods and regions of cells. Invariant: published rows of a group
do not overlap in time, each holds a fix of every member, and every region has enough categories of points of interest,
in nearly the city's shares.

Tu, Zhao, Xu, Li, Su, Jin: Beyond K-Anonymity: Protect Your Trajectory from Semantic Attack, SECON 2017.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Cells, Trajectories
from dbanon.methods import Algorithm, Column, Method, Requirement, declare_parameter, declare_since, declare_until


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a run of semantic can be asked for."""

    k: int = declare_parameter(
        2, "Least number of people with the same record.", type="integer", minimum=1, promises="more"
    )
    l: int = declare_parameter(  # noqa: E741 - the paper's name
        3,
        "Least number of categories of points of interest in a region.",
        type="integer",
        minimum=0,
        maximum=10_000,
        promises="more",
    )
    t: float = declare_parameter(
        0.1,
        "How far the mix of points of interest in a region may be from the city's: Kullback-Leibler divergence in "
        "nats. inf allows any mix.",
        type="number",
        minimum=0,
        maximum=1000,
        infinite=True,
        promises="less",
    )
    full_loss_span_s: int = declare_parameter(
        28_800, "Loss in time that counts as a full one.", type="integer", unit="s", minimum=1, maximum=31_536_000
    )
    full_loss_area_km2: float = declare_parameter(
        25.0, "Loss in space that counts as a full one.", type="number", unit="km2", minimum=0, maximum=100_000
    )
    weight_time: float = declare_parameter(
        0.5, "Share of time in the loss. The rest is the share of space.", type="number", minimum=0, maximum=1
    )
    gap_s: int = declare_parameter(
        1800,
        "Longest time between two fixes in an atom that still are one stay.",
        type="integer",
        unit="s",
        minimum=0,
        maximum=604_800,
    )
    min_cells: int = declare_parameter(
        1,
        "Least number of atoms that a record must have been in. Other records are left out. The paper asks for 3 "
        "cells.",
        type="integer",
        minimum=1,
        maximum=1_000_000,
    )
    suppress_span_s: int | None = declare_parameter(
        None, "Rows longer than this are left out. Default: no limit.", type="integer", unit="s", minimum=1
    )
    suppress_area_km2: float | None = declare_parameter(
        None,
        "Rows larger than this are left out. Default: no limit.",
        type="number",
        unit="km2",
        minimum=0,
        maximum=1_000_000_000,
    )
    atom_l: int | None = declare_parameter(
        None,
        "Least number of categories in an atom, the smallest set of cells that a release separates. Default: l.",
        type="integer",
        minimum=0,
        maximum=10_000,
        promises="more",
    )
    atom_t: float | None = declare_parameter(
        None,
        "How far the mix of points of interest in an atom may be from the city's: a larger value makes smaller "
        "regions, and inf allows any mix. Default: t.",
        type="number",
        minimum=0,
        maximum=1000,
        infinite=True,
        promises="less",
    )
    new_atoms: bool = declare_parameter(
        False,
        "Whether to cut the city into atoms again instead of taking those of earlier releases of the same people. "
        "Old and new atoms together may reveal where people were, and then publication needs a reason.",
        type="switch",
        promises="other",
    )
    since: int | None = declare_since()
    until: int | None = declare_until()


METHOD = Method(
    name="semantic",
    module=__name__,
    distributes=True,
    summary="base-station trajectories: k alike, in regions that hide people's activities",
    guarantee="An adversary that knows a whole trajectory finds at least k people with the same record. Every "
    "published region has points of interest of at least l categories, in shares that are no further than t from the "
    "city's. An adversary that runs the program again learns only the atom of a place: a set of cells with atom_l "
    "categories and a divergence of at most atom_t, by default l and t.",
    adversary="One reader has followed a person all the time, and wants to find the person's record. Another looks up "
    "the places in the published regions, runs the program again, and wants to find out people's activities "
    "there.",
    row_meaning="Each row is one person, seen somewhere in this region at some time of this period, at least once. The "
    "others of the group have the same rows.",
    left_out="Fixes outside all cells are left out, together with the rows that the options min_cells and suppress_* "
    "exclude.",
    paper="Tu, Zhao, Xu, Li, Su, Jin: Beyond K-Anonymity: Protect Your Trajectory from Semantic Attack, SECON 2017",
    attack="dbanon.attacks.semantic",
    algorithms=(
        Algorithm(
            name="atoms",
            summary="the pair of trajectories that loses least is merged first. GLOVE on cells with l=0, t=inf",
            stands_alone=True,
            tight=None,
        ),
    ),
    columns=(
        Column(
            name="categories",
            sql_type="integer",
            default="0",
            comment="How many categories of points of interest the region has.",
        ),
    ),
    reads=("cells",),
    hides="place",
    holds="some time",
    has_days=True,
    hidden_by="record",
    region_type="MultiPolygon",
    notices={
        "few_atoms": (
            "Number of atoms that the points of interest allow with this t, nearly: %s. So regions are large. More "
            "points of interest or a larger t make them smaller."
        )
    },
    totals={"subjects": "subjects", "fixes": "fixes"},
    reasons={
        "outside": "Outside all cells.",
        "few_cells": "In records of fewer atoms than min_cells.",
        "coarse": "In rows longer than suppress_span_s or larger than suppress_area_km2.",
    },
    requires=Requirement(input="pois", hides="people's activities at points of interest", unless={"l": 0, "t": "inf"}),
    proposed={"params": {"k": 2}},
    example={"k": 4, "l": 2, "t": 0.5},
)


def anonymise(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    *,
    algorithm: str = "atoms",
    cells: Cells,
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Merge trajectories of visited atoms until k people have the same, in regions of mixed use.

    Parameters
    ----------
    rng : numpy.random.Generator
        Orders people where the choice between them is free.

    Returns
    -------
    Cloaks
        One record a subject or, where days are apart, a day of one; those of a group are alike.

    Raises `DataError` if there are no cells, or they overlap; `InfeasibleError` if there are fewer than k subjects or l
    categories, cells that hang together lack l or t even all together, or nothing is left to publish.
    """
    from dbanon.methods.semantic import _rows  # with Numba, which is slow to import

    return _rows.compute_cloaks(data, params, rng, algorithm, cells, tasks)


def prepare(params: Parameters, *, algorithm: str = "atoms") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.semantic import _rows

    _rows.prepare(params, algorithm)

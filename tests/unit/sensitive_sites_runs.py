"""Runs of `sensitive-sites` on subjects and sites that are given as points."""

import json

import numpy as np

from dbanon.base.trajectory import Sites, Trajectories
from dbanon.methods import METHODS

FAMILY = METHODS["sensitive-sites"]


def make_subjects(points, *, t=None, subject=None, grid_m=1.0, grid_s=60):
    n = len(points)
    xy = np.array(points, np.float64).reshape(-1, 2)
    return Trajectories(
        trajectory_id=np.arange(n) * 3 + 5, subject=np.arange(n) if subject is None else np.array(subject),
        offset=np.arange(n + 1), t=np.array([0] * n if t is None else t, float), x=xy[:, 0].copy(), y=xy[:, 1].copy(),
        srid=32610, grid_m=grid_m, grid_s=grid_s,
    )  # fmt: skip


def make_sites(points, shapes=None):
    """Sites at points or with bounds; `shapes` are bounds of subjects by trajectory id."""
    bounds = np.array([p if len(p) == 4 else (*p, *p) for p in points], np.float64).reshape(-1, 4)
    shapes = dict(sorted((shapes or {}).items()))
    return Sites(
        site_id=np.arange(len(bounds)) * 2 + 1, site_bounds=bounds, shape_trajectory=np.array(list(shapes), np.int64),
        shape_bounds=np.array(list(shapes.values()), np.float64).reshape(-1, 4),
    )  # fmt: skip


def run(data, places, algorithm="bk", seed=1, **params):
    known = {one.name for one in FAMILY.algorithms}  # and not those of benchmarks/papers
    chosen = FAMILY.parse({"k": 2, **params}, algorithm if algorithm in known else None)
    return FAMILY.anonymise(data, algorithm, chosen, np.random.default_rng(seed), sites=places)


def list_rows(cloaks):
    """Give (bounds, crowd, cloaked) by trajectory id."""
    cloaked = [e >= 0 and json.loads(cloaks.extras[e])["cloaked"] for e in cloaks.extra.tolist()]
    told = zip(cloaks.bounds.tolist(), cloaks.crowd.tolist(), cloaked, strict=True)
    return dict(zip(cloaks.member_trajectory.tolist(), told, strict=True))

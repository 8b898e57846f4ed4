"""Positions at instants: the kernel against a plain statement of the rules."""

import random

import numpy as np
import pytest

from dbanon.base.trajectory import Trajectories
from dbanon.methods.kernels import align as kernel
from tests.unit import oracles_tp_aware as oracle


def draw_trajectories(rng, *, subjects=6, grid_s=1, most=14, span=40):
    """Several trajectories a subject, in any order, with equal times across them and times between slots."""
    paths = []
    for _ in range(rng.randint(subjects, 2 * subjects)):
        times = sorted(rng.sample(range(2 * span), rng.randint(1, most)))
        paths.append((rng.randrange(subjects), [(t / 2, rng.uniform(-50, 50), rng.uniform(-50, 50)) for t in times]))
    flat = [fix for _, path in paths for fix in path]
    t, x, y = np.array(flat, float).T.copy()
    return Trajectories(
        trajectory_id=np.arange(len(paths)) * 3 + 10,
        subject=np.array([s for s, _ in paths]),
        offset=np.cumsum([0, *(len(p) for _, p in paths)]),
        t=t, x=x, y=y, srid=32610, grid_m=1.0, grid_s=grid_s,
    )  # fmt: skip


def list_fixes(data, subject):
    out = []
    for i, s in enumerate(data.subject):
        if s == subject:
            for f in range(data.offset[i], data.offset[i + 1]):
                out.append((data.t[f], int(data.trajectory_id[i]), data.x[f], data.y[f]))
    return out


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("grid_s", [1, 5])
def test_positions_and_their_suppliers_are_those_of_the_plain_rules(align, grid_s):
    rng = random.Random(11)
    compared = 0
    for _ in range(60):
        data = draw_trajectories(rng, grid_s=grid_s)
        gap = rng.choice([0, 5, 10, 60])
        instants = kernel.Instants(start=5, step_s=5, count=4, mode=kernel.MODES[align], max_gap_s=gap)
        line = kernel.merge(data)
        everyone = np.arange(len(line.subject), dtype=np.int32)
        x, y = kernel.compute_positions(line, instants, everyone)
        rows, which = kernel.list_suppliers(line, instants, everyone) if not line.is_single else (None, None)
        found, present, extent = kernel.survey(line, instants, 1.0)
        cells = []
        for row, subject in enumerate(line.subject.tolist()):
            fixes = list_fixes(data, subject)
            plain = [oracle.locate(fixes, t, align=align, max_gap_s=gap, grid_s=grid_s) for t in (5, 10, 15, 20)]
            assert found[row] == sum(p is not None for p in plain)
            assert (row in present) == all(p is not None for p in plain)
            for j, p in enumerate(plain):
                if p is None:
                    assert np.isnan(x[row, j])
                    continue
                compared += 1
                assert (x[row, j], y[row, j]) == p[0]  # to the last bit: the attack computes it anew
            if all(plain):
                cells += [tuple(np.floor(p[0]).tolist()) for p in plain]
            if rows is not None:
                ids = sorted(data.trajectory_id[which[rows == row]].tolist())
                assert ids == sorted(set().union(*(p[1] for p in plain if p is not None)))
        if cells:
            assert extent.tolist() == [*np.min(cells, axis=0), *np.max(cells, axis=0)]
    assert compared > 100


def test_cells_are_floors_relative_to_the_root():
    data = make_one_subject(t=[0.0, 60.0], x=[-0.5, 25.0], y=[9.99, 10.0])
    instants = kernel.Instants(start=0, step_s=60, count=2, mode=kernel.LAST, max_gap_s=0)
    line = kernel.merge(data)
    who = np.array([0], np.int32)
    x, y = (kernel.compute_cells(line, v, instants, who, 10.0, least) for v, least in ((line.x, -1.0), (line.y, 0.0)))
    assert (x.tolist(), y.tolist()) == ([[0, 3]], [[0, 1]])


def make_one_subject(t, x, y):
    return Trajectories(
        trajectory_id=np.array([7]), subject=np.array([0]), offset=np.array([0, len(t)]),
        t=np.array(t), x=np.array(x), y=np.array(y), srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def test_of_fixes_in_one_slot_the_latest_gives_the_position():
    data = make_one_subject(t=[0.1, 0.9], x=[1.0, 2.0], y=[1.0, 2.0])
    instants = kernel.Instants(start=0, step_s=60, count=1, mode=kernel.EXACT, max_gap_s=0)
    line = kernel.merge(data)
    x, _ = kernel.compute_positions(line, instants, np.array([0], np.int32))
    assert x.tolist() == [[2.0]]


def test_the_gap_is_measured_from_the_slot_and_includes_its_limit():
    data = make_one_subject(t=[0.9], x=[1.0], y=[1.0])
    for gap, found in ((59, 0), (60, 1)):
        instants = kernel.Instants(start=60, step_s=60, count=1, mode=kernel.LAST, max_gap_s=gap)
        assert kernel.survey(kernel.merge(data), instants, 1.0)[0].tolist() == [found]


def test_only_windows_that_a_fix_reaches_are_looked_at():
    data = make_one_subject(t=[0.0, 1000.0], x=[1.0, 1.0], y=[1.0, 1.0])
    windows = [kernel.Instants(start=100 * w, step_s=10, count=10, mode=kernel.LAST, max_gap_s=150) for w in range(11)]
    assert np.flatnonzero(kernel.find_reached_windows(kernel.merge(data), windows)).tolist() == [0, 1, 10]


def test_no_trajectories_make_an_empty_timeline():
    none = np.array([])
    data = Trajectories(
        trajectory_id=none.astype(int), subject=none.astype(int), offset=np.array([0]),
        t=none, x=none, y=none, srid=32610, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    assert len(kernel.merge(data).subject) == 0

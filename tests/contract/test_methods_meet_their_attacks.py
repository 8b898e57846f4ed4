"""What every algorithm computes, as its adversary reads it: written from one text by two hands, they must agree."""

import random
from dataclasses import replace

import numpy as np
import pytest

from dbanon.base.errors import InfeasibleError
from dbanon.base.trajectory import Cells, Requests, Sites, Trajectories
from dbanon.methods import METHODS
from tests.contract.evidence import CONTENTS, verify_cloaks


def draw_town(rng):
    """A few people in a few trajectories each, with fixes between slots, gaps, strays and twin times."""
    grid_s, subjects = rng.choice([1, 5, 60]), rng.randint(3, 25)
    paths = []
    for _ in range(rng.randint(subjects, 2 * subjects)):
        times = sorted(rng.sample(range(-500, 3000), rng.randint(1, 60)))
        x, y = rng.uniform(-300, 300), rng.uniform(-300, 300)
        walk = [(t / 2, x + rng.gauss(0, 40), y + rng.gauss(0, 40)) for t in times]
        paths.append((rng.randrange(subjects), walk))
    t, x, y = np.array([fix for _, walk in paths for fix in walk]).T.copy()
    return Trajectories(
        trajectory_id=np.sort(np.array(rng.sample(range(1000), len(paths)))),
        subject=np.array([s for s, _ in paths]), offset=np.cumsum([0, *(len(w) for _, w in paths)]),
        t=t, x=x, y=y, srid=32610, grid_m=rng.choice([0.1, 1.0, 7.5]), grid_s=grid_s,
    )  # fmt: skip


def draw_requests(rng, data):
    count = rng.randint(0, 60)
    return Requests(
        subject=np.array([rng.randint(-1, int(data.subject.max())) for _ in range(count)], np.int64),
        t=np.array([rng.uniform(-600, 2000) for _ in range(count)]),
        content=np.array([rng.randrange(3) for _ in range(count)], np.int64),
        contents=CONTENTS,
    )


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
@pytest.mark.parametrize("algorithm", [algorithm.name for algorithm in METHODS["tp-aware"].algorithms])
def test_the_tp_aware_adversary_finds_nothing_to_object_to(cases, algorithm, align, cloak):
    family, rng, runs = METHODS["tp-aware"], random.Random(f"{align} {cloak}"), 0
    for _ in cases(60):
        data = draw_town(rng)
        step = rng.choice([60, 120, 300])
        params = family.parse({
            "k": rng.randint(2, 4), "step_s": step, "instants": rng.randint(1, 4), "align": align, "cloak": cloak,
            "max_gap_s": rng.choice([0, 60, 300]), "start": rng.choice([None, 0, -120]),
            "min_cloak_m": rng.choice([None, 3, 1.1, 50]),
        })  # fmt: skip
        try:
            cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(0))
        except InfeasibleError:
            continue
        requests = draw_requests(rng, data)
        joined = family.attach(cloaks, data, params, requests=requests)
        verdict = verify_cloaks(family, algorithm, params, data, joined, given={"requests": requests})
        assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
        runs += 1
    assert runs >= len(cases(60)) // 6


# ---- sensitive-sites -------------------------------------------------------------------------------------------------


def draw_crowded(rng, *, at):
    """Subjects of one fix each (some are shapes) or, to be looked at an instant, of several; many at the same place."""
    grid_m, grid_s = rng.choice([0.1, 0.3, 1.0, 7.5]), rng.choice([1, 5, 60])
    spots = [(rng.uniform(-40, 40) * grid_m, rng.uniform(-40, 40) * grid_m) for _ in range(rng.randint(1, 80))]
    subjects, paths = rng.randint(4, 60), []
    for subject in [s for s in range(subjects) for _ in range(rng.randint(1, 2) if at else 1)]:
        times = sorted(rng.sample(range(-500, 3000), rng.choice([1, 1, 9]) if at else 1))
        paths.append((subject, [(t / 2, *rng.choice(spots)) for t in times]))
    rng.shuffle(paths)
    t, x, y = np.array([fix for _, walk in paths for fix in walk]).T.copy()
    data = Trajectories(
        trajectory_id=np.sort(np.array(rng.sample(range(1000), len(paths)))),
        subject=np.array([s for s, _ in paths]), offset=np.cumsum([0, *(len(w) for _, w in paths)]),
        t=t, x=x, y=y, srid=32610, grid_m=grid_m, grid_s=grid_s,
    )  # fmt: skip
    return data, draw_places(rng, data, spots)


def draw_places(rng, data, spots):
    """Sites, some at one place and some where subjects are; shapes of every fourth trajectory of one fix."""

    def around(x, y):
        wide, high = (rng.choice([0, 0, rng.uniform(0, 9)]) * data.grid_m for _ in range(2))
        return x - wide, y - high, x + wide, y + high

    sites = [around(*rng.choice(spots)) for _ in range(rng.randint(1, 5))]
    sites += rng.choices(sites, k=rng.choice([0, 0, 1]))
    single = np.flatnonzero(np.diff(data.offset) == 1)[::4]
    shapes = [around(data.x[i], data.y[i]) for i in data.offset[single]]
    return Sites(
        site_id=np.sort(np.array(rng.sample(range(100), len(sites)))), site_bounds=np.array(sites),
        shape_trajectory=data.trajectory_id[single], shape_bounds=np.array(shapes).reshape(-1, 4),
    )  # fmt: skip


def attack_around_sites(rng, algorithm, *, at, known=None, **params):
    """Run an algorithm on a random town; its cloaks and the verdict on them, None where there are too few subjects.

    `known` names the algorithm as which it is attacked, where the registry does not know it.
    """
    data, places = draw_crowded(rng, at=at)
    slot = rng.randrange(0, 1200, data.grid_s) if at else None
    family = METHODS["sensitive-sites"]
    params = family.parse({"k": rng.randint(2, 5), "at": slot, **params}, known or algorithm)
    try:
        cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(0), sites=places)
    except InfeasibleError:
        return None
    return cloaks, verify_cloaks(family, known or algorithm, params, data, cloaks, given={"sites": places})


@pytest.mark.parametrize("at", [False, True], ids=["one fix each", "at an instant"])
@pytest.mark.parametrize("algorithm", ["bk", "mk"])
def test_the_adversary_at_sensitive_sites_finds_nothing_to_object_to(cases, algorithm, at):
    find_nothing_around_sites(cases, algorithm, at)


def find_nothing_around_sites(cases, algorithm, at, known=None):
    rng, runs = random.Random(f"{algorithm} {at}"), 0
    for _ in cases(60):
        found = attack_around_sites(
            rng, algorithm, at=at, known=known, max_gap_s=rng.choice([0, 60, 600]),
            guard_m=rng.choice([0, 0.9, 1.1, 7.5, 30]), guard_inside=rng.random() < 0.3,
            improve=algorithm != "bk" or rng.random() < 0.7,
        )  # fmt: skip
        if found is not None:
            cloaks, verdict = found
            assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
            assert verdict.figures["cloaked"] == cloaks.metrics["subjects_cloaked"]
            assert verdict.figures["exact"] == cloaks.metrics["subjects_left_exact"]
            runs += 1
    assert runs >= len(cases(60)) // 4


# ---- kte -------------------------------------------------------------------------------------------------------------


def attack_generalised(rng, algorithm, known=None):
    """Run an algorithm on a random town, of 1970 or of now; the verdict on it, None where none can be hidden.

    `known` names the algorithm as which it is attacked, where the registry does not know it.
    """
    data, family = draw_town(rng), METHODS["kte"]
    data = replace(data, t=data.t + rng.choice([0, 1_767_600_000]))
    grid_s = data.grid_s * rng.choice([1, 2, 3])
    given = {"k": rng.randint(2, 4), "grid_s": grid_s, "grid_m": data.grid_m * rng.choice([1, 2, 10])}
    if algorithm == "kte-hide":
        given["leak_s"] = grid_s * rng.choice([1, 4, 10, 30])
        given["tau_s"] = given["leak_s"] * rng.randint(1, 3)
        given |= {"reuse": rng.choice(["never", "apart"]), "improve": rng.random() < 0.6}
    if algorithm == "k-merge":
        given["window_s"] = rng.choice([None, grid_s, 4 * grid_s, 30 * grid_s])
    params = family.parse(given, known or algorithm)
    try:
        cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(rng.randrange(99)))
    except InfeasibleError:
        return None
    return verify_cloaks(family, known or algorithm, params, data, cloaks)


@pytest.mark.parametrize("algorithm", ["kte-hide", "k-merge"])
def test_the_adversary_of_kte_finds_nothing_to_object_to(cases, algorithm):
    rng, runs = random.Random(algorithm), 0
    for _ in cases(60):
        verdict = attack_generalised(rng, algorithm)
        if verdict is not None:
            assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
            runs += 1
    assert runs >= len(cases(60)) // 4


@pytest.mark.stress
def test_one_wild_time_is_not_counted_hour_by_hour():
    data, family = draw_town(random.Random(1)), METHODS["kte"]
    t = data.t + 1_767_600_000
    t[0] = 0
    data, params = replace(data, t=t), family.parse({"k": 2, "grid_s": 60, "grid_m": data.grid_m}, "kte-hide")
    cloaks = family.anonymise(data, "kte-hide", params, np.random.default_rng(0))
    assert len(cloaks.suppressed["by_hour"]) <= 3
    assert verify_cloaks(family, "kte-hide", params, data, cloaks).passed


# ---- semantic --------------------------------------------------------------------------------------------------------


def attack_in_cells(rng):
    """A random town over squares, some fixes outside; points of interest here and there, and days apart or not."""
    data = draw_town(rng)
    data = replace(data, day=np.array([rng.randrange(2) for _ in data.trajectory_id]) if rng.random() < 0.4 else None)
    edge, wide = rng.choice([100.0, 200.0]), 6
    column, row = (np.floor((c - c.min()) / edge).astype(np.int64) for c in (data.x, data.y))
    inside, number = (column < wide) & (row < wide), np.arange(wide * wide)
    right, up = number[number % wide < wide - 1], number[:-wide]
    pois = np.array([[rng.choice([0, 0, 1, 3]) for _ in range(3)] for _ in number])
    pois[0] = 1
    pairs = sorted([*zip(right, right + 1, strict=True), *zip(up, up + wide, strict=True)])
    cells = Cells(
        cell_id=number * 2 + 1, area_m2=np.full(len(number), edge**2), categories=("a", "b", "c"), pois=pois,
        neighbours=np.array(pairs), fix_cell=np.where(inside, row * wide + column, -1),
    )  # fmt: skip
    return data, cells


@pytest.mark.many
@pytest.mark.parametrize("levels", [1, 2])
def test_the_adversary_of_semantic_finds_nothing_to_object_to(cases, monkeypatch, levels):
    rng, runs, family = random.Random(levels), 0, METHODS["semantic"]
    for _ in cases(60):
        data, cells = attack_in_cells(rng)
        # All pairs of few units are compared, of many those that candidates make.
        monkeypatch.setattr("dbanon.methods.semantic._groups.MAX_ALL_PAIRS_GROUPS", rng.choice([3, 50]))
        least, most = rng.randint(0, 3), rng.choice(["inf", 0.5, 0.05])
        less = {"atom_l": rng.randint(0, least), "atom_t": rng.choice(["inf", most])} if levels == 2 else {}
        params = family.parse({
            "k": rng.randint(1, 4), "l": least, "t": most, **less,
            "gap_s": rng.choice([0, 60, 1800]), "min_cells": rng.choice([1, 1, 3]),
            "weight_time": rng.choice([0, 0.5, 1]),
            "suppress_span_s": rng.choice([None, None, 600]), "suppress_area_km2": rng.choice([None, None, 0.2]),
            "since": rng.choice([None, None, 0]), "until": rng.choice([None, None, 1200]),
        })  # fmt: skip
        try:
            cloaks = family.anonymise(data, "atoms", params, np.random.default_rng(rng.randrange(99)), cells=cells)
        except InfeasibleError:
            continue
        verdict = verify_cloaks(family, "atoms", params, data, cloaks, given={"cells": cells})
        assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
        assert verdict.figures["groups"] == cloaks.metrics["groups"]
        runs += 1
    assert runs >= len(cases(60)) // 4

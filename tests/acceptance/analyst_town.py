"""A small town for the functions of analysts: people who walk and are seen now and then, published by every family."""

from pathlib import Path

import numpy as np

from tests.acceptance.analyst_places import SRID, Place

START_S = 1_767_600_000
CORNER = np.array([550_000.0, 4_180_000.0])
PEOPLE = 90
SIDE_M = 3_000
ZONE = "America/Los_Angeles"  # whose midnight START_S is
NIGHT_PEOPLE = 25
RUNS = {
    "tp": ("tp-aware", "-p", "k=4", "-p", "instants=6"),
    "tp_joined": (
        *("tp-aware", "-p", "k=4", "-p", "instants=8", "-p", "step_s=30"),
        *("-p", "align=linear", "-p", "min_contents=2"),
    ),
    "tp_quadrants": ("tp-aware", "-p", "k=7", "-p", "instants=4", "-p", "cloak=quadrant", "-p", "min_cloak_m=50"),
    "sites_bk": ("sensitive-sites", "-p", "k=4", "-p", f"at={START_S + 900}"),
    "sites_mk": ("sensitive-sites", "--algorithm", "mk", "-p", "k=4", "-p", f"at={START_S + 900}"),
    "mob": ("mob", "-p", "k=3", "-p", "qid_only=off"),
    "mob_hidden": ("mob", "-p", "k=3"),
    "mob_union": ("mob", "--algorithm", "extreme-union", "-p", "k=3", "-p", "qid_only=off"),
    "kte": ("kte", "-p", "k=2", "-p", "tau_s=600", "-p", "leak_s=600"),
    "kte_groups": ("kte", "--algorithm", "k-merge", "-p", "k=3"),
    "kte_windows": ("kte", "--algorithm", "k-merge", "-p", "k=3", "-p", "window_s=600"),
    "semantic": ("semantic", "-p", "k=2", "-p", "l=2", "-p", "t=0.5"),
}  # fmt: skip


def write(folder: Path) -> None:
    """Write the files of the town: 40 minutes of walks by six together, seen at odd times, and what methods read."""
    rng = np.random.default_rng(18)
    convoys = rng.uniform(0, SIDE_M, (PEOPLE // 6, 10, 2))  # where six people are together, every five minutes
    trips, asked, known = [], [], []
    for i in range(PEOPLE):
        begin, end = (0, 2400) if i % 5 else sorted(rng.uniform(0, 2400, 2))
        t = begin + np.cumsum(rng.uniform(10, 150, 80))
        t = t[t < max(end, begin + 300)]
        legs = convoys[i // 6]
        walk = np.stack([np.interp(t, np.arange(0, 3000, 300), legs[:, axis]) for axis in (0, 1)], axis=1)
        walk += rng.normal(0, 15, walk.shape) + CORNER
        trips += [f"p{i},{START_S + s:.1f},{x:.2f},{y:.2f}" for s, (x, y) in zip(t, walk, strict=True)]
        asked += [f"p{i},{START_S + rng.uniform(0, 2400):.0f},{rng.choice(['bank', 'bar', 'bus'])}" for _ in range(3)]
        known += [f"p{i},{START_S + 60 * rng.integers(6, 38)}" for _ in range(4)]
    spots = rng.uniform(-500, SIDE_M + 500, (4, 2)) + CORNER
    files = {
        "trips": ["subject,time,x,y", *trips],
        "requests": ["subject,time,poi", *asked],
        "known": ["subject,time", *known],
        "sites": ["name,x,y", *(f"s{i},{x:.0f},{y:.0f}" for i, (x, y) in enumerate(spots))],
    }
    _write(folder, rng, files)


def write_nights(folder: Path) -> None:
    """Write three days, cut in the middle of two nights: people are in the west, then east, then west again."""
    rng = np.random.default_rng(18)
    trips = []
    for i in range(NIGHT_PEOPLE):
        west = rng.uniform([0, 0], [SIDE_M / 4, SIDE_M])
        for night in range(2):
            t = np.linspace(-5100, 5100, 18) + rng.uniform(-250, 250, 18)
            stays = west + rng.normal(0, 100, (18, 2)) + CORNER
            stays[(abs(t) > 1800) & (abs(t) < 3600), 0] += SIDE_M * 2 / 3
            t += START_S + 86_400 * night
            trips += [f"n{i},{s:.1f},{x:.2f},{y:.2f}" for s, (x, y) in zip(t, stays, strict=True)]
    _write(folder, rng, {"trips": ["subject,time,x,y", *trips]})


def write_visits(folder: Path) -> None:
    """Write a day of visits to the town, each by another person who was seen once, and one place to hide."""
    rng = np.random.default_rng(18)
    spots = rng.uniform(0, SIDE_M, (PEOPLE, 2)) + CORNER
    t = START_S + rng.uniform(0, 86_400, PEOPLE)
    trips = [f"v{i},{s:.1f},{x:.2f},{y:.2f}" for i, (s, (x, y)) in enumerate(zip(t, spots, strict=True))]
    (x, y), s = spots[0], t[0]
    files = {
        "trips": ["subject,time,x,y", *trips],
        "requests": ["subject,time,poi", f"v0,{s:.0f},bar"],
        "known": ["subject,time", f"v0,{s:.0f}"],
        "sites": ["name,x,y", f"s0,{x + 50:.0f},{y:.0f}"],
    }
    _write(folder, rng, files)


def _write(folder: Path, rng: np.random.Generator, files: dict[str, list[str]]) -> None:
    """Write files, and points of interest and stations all over the town."""
    spots = rng.uniform(-500, SIDE_M + 500, (700, 2)) + CORNER
    kinds = rng.choice(["food", "shop", "work", "home"], 700)
    files["pois"] = ["category,x,y", *(f"{k},{x:.1f},{y:.1f}" for k, (x, y) in zip(kinds, spots, strict=True))]
    files["stations"] = ["x,y", *(f"{x:.1f},{y:.1f}" for x, y in spots[-40:])]
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


# Each of these in three parts, of which two follow one another and the third comes after a gap.
PARTS = ((START_S, START_S + 720), (START_S + 720, START_S + 1440), (START_S + 1560, START_S + 2280))
GROWN = {
    **{name: RUNS[name] for name in ("tp", "mob_hidden", "kte_groups", "semantic")},
    "sites": ("sensitive-sites", "-p", "k=4", "-p", "at={middle}"),
    "kte": ("kte", "-p", "k=2", "-p", "tau_s=240", "-p", "leak_s=240"),
    "kte_windows": ("kte", "--algorithm", "k-merge", "-p", "k=3", "-p", "window_s=120"),  # six in each part
}
TOWN = Place("town", SRID, "poi", write, CORNER, SIDE_M, RUNS)
NIGHTS = Place("nights", SRID, "poi", write_nights, CORNER, SIDE_M, {"semantic_days": RUNS["semantic"]}, ZONE)
# Who is seen once has no other time than that, so no instant is named.
VISITS = Place("visits", SRID, "poi", write_visits, CORNER, SIDE_M, {"visits": ("sensitive-sites", "-p", "k=4")})
TOWN_IN_PARTS = Place("parts", SRID, "poi", write, CORNER, SIDE_M, GROWN, parts=PARTS)

"""What surfaces bring: errors of `expected` beside another checkout; cells, passes and likelihoods; what they cost.

``./dev bench benchmarks/surface.py answers DIRECTORY [WORLD ...]``: runs of every family, evaluated by this checkout
and by the one in the directory, each on a server of its own with the same people, runs and questions: 400 of each size
and kind. "held" is the share of true counts within intervals, which are as wide as the factor "x" makes them.

``cells``: `expected` at moments by other rasters, passes and likelihoods, in memory: errors as shares of the even
spread's. ``size``: the surface of 2 million people in a city of 50 km.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import dbanon  # isort: skip - before modules that put this checkout first
import numpy as np
import shapely
from _measure import run_private_server
from defaults import DAY, make_clinics

from dbanon import schema
from dbanon.base import memory
from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import DbanonError
from dbanon.base.trajectory import Trajectories
from dbanon.evaluation import measurement
from dbanon.evaluation.truth import Members, Rows, Truth, find_window
from dbanon.methods import METHODS
from dbanon.metrics.questions import count_true_answers, draw_questions
from dbanon.results.figures import Questions

find_last = surface = None
with suppress(ImportError):  # the older checkout has none
    from dbanon.evaluation.truth import find_last
    from dbanon.metrics import surface

ROOT = Path(__file__).parents[1]
OLDENBURG = ROOT.parent / "shared" / "data" / "oldenburg"
STREETS = {"nodes": OLDENBURG / "oldenburgGen_node.txt", "edges": OLDENBURG / "oldenburgGen_edge.txt"}
CITY = {"objects": 1500, "instants": 120, "quasi_identifiers": "random", "seed": 3, "pois": 800, "stations": 60}
PHONES = {"objects": 1500, "instants": 1440, "calls_per_day": 40, "seed": 4, "pois": 800, "stations": 60, "blocks": 80}
WORLDS = {
    "taxis": {}, "grid": {**CITY, "blocks": 80}, "city": {**CITY, **STREETS, "whole_share": 0.67}, "phones": PHONES,
}  # fmt: skip
HALF_HOURS = {"window_s": 1800}
RELEASES = {
    **{f"tp-aware {k}": ("tp-aware", "traj-anon", {"k": k}) for k in (5, 2, 20)},
    "mob 5": ("mob", None, {"k": 5, "qid_only": False}),
    "sites 5": ("sensitive-sites", None, {"k": 5}),
    "semantic 2": ("semantic", None, {}),
    **{f"k-merge {k}": ("kte", "k-merge", {"k": k, **HALF_HOURS}) for k in (5, 2, 20)},
    "k-merge 5 days": ("kte", "k-merge", {"k": 5}),
}
SIDES_M = 500, 1000, 2000, 4000
NEAR_S = 300.0  # published_inner.near_s
LARGE_ERROR, MOST_RATIO, MOST_RATIO_20, WORSE, MOST_BIAS = 0.2, 0.7, 0.85, 1.1, 0.1


# ---- answers ---------------------------------------------------------------------------------------------------------


def draw_alike(drawn, _, *, moments, spans, **options) -> Questions:
    """Draw questions as `evaluate` does, those of spans alike whether moments are asked about or not."""
    kinds = [
        drawn(np.random.default_rng(seed), moments=some, spans=others, **options)
        for seed, (some, others) in enumerate(((moments, np.empty((0, 2))), (np.empty(0), spans)))
    ]
    return Questions(**{name: np.concatenate([getattr(one, name) for one in kinds]) for name in vars(kinds[0])})


def load(database, url: str, world: str, folder: Path) -> tuple[str, str]:
    """Load the people of a world; the dataset, and a moment."""
    if WORLDS[world]:
        database.synth("city", start=f"{DAY}T00:00:00Z", **WORLDS[world])
        make_clinics(url)
        return "city", f"{DAY}T01:00:00Z"
    from tests.acceptance.analyst_taxis import ALL_TAXIS

    ALL_TAXIS.load(url, folder)
    return ALL_TAXIS.name, "2008-06-04T17:30:00Z"


def serve(world: str) -> None:
    """Load a world on a server of one's own, then run and evaluate each release that is named in a line."""
    measurement.draw_questions = partial(draw_alike, measurement.draw_questions)
    with run_private_server() as (server, folder):
        schema.upgrade(server.url)
        with dbanon.connect(server.url) as database:
            dataset, at = load(database, server.url, world, folder)
            for line in sys.stdin:
                method, algorithm, params = RELEASES[line.strip()]
                params = params | ({"at": at} if method == "sensitive-sites" else {})
                try:
                    run = database.run(method, dataset=dataset, algorithm=algorithm, seed=7, params=params)
                    figures = [vars(one) for one in database.evaluate(run.run_id, queries=400).figures]
                except DbanonError as error:
                    figures = str(error)
                print("made", json.dumps(figures), flush=True)


def ask(process: subprocess.Popen) -> dict[tuple, float] | str:
    """Wait for the figures of a release, or the reason why there are none."""
    for line in process.stdout:
        if line.startswith("made "):
            figures = json.loads(line.removeprefix("made "))
            if isinstance(figures, str):
                return figures
            return {(one["name"], one["asked"], one["side_m"]): one["value"] for one in figures}
    raise SystemExit("a process ended")


class Cell(NamedTuple):
    """Errors and biases of a size and kind, in the older checkout and this one; None where the older cannot answer."""

    what: str
    errors: list[float | None]
    biases: list[float | None]

    @property
    def ratio(self) -> float | None:
        """The error of this checkout as a share of the older one's."""
        return self.errors[1] / self.errors[0] if self.errors[0] else None

    @property
    def misses(self) -> bool:
        """Whether it does not become as small as it should, or grows by more than a tenth."""
        limit = MOST_RATIO_20 if " 20," in self.what else MOST_RATIO
        return self.ratio is not None and self.ratio > (limit if self.errors[0] > LARGE_ERROR else WORSE)

    def __str__(self) -> str:
        given = (self.errors[0], self.errors[1], *self.biases)
        share = "".join("     " if one is None else f"{100 * one:>5.0f}" for one in given)
        return f"  |{share}{'' if self.ratio is None else f'{self.ratio:.2f}':>5}"


def compare(title: str, old: dict, new: dict) -> Iterator[Cell]:
    """Print the lines of a release, and give their cells."""
    for kind in ("moment", "span"):
        held, factor = new.get(("interval_coverage", kind, None)), new.get(("interval_factor", None, None))
        cells = [
            Cell(
                f"{title}, {kind}, {side / 1000:g} km",
                *([one.get((name, kind, side)) for one in (old, new)] for name in ("count_error", "bias")),
            )
            for side in SIDES_M
        ]
        if cells[1].errors[1] is not None:
            shown = "".join("" if cell.errors[1] is None else str(cell) for cell in cells)
            print(f"{title:<22}{kind:<7}{100 * (held or 0):>4.0f}{factor or 0:>5}{shown}", flush=True)
        yield from (cell for cell in cells if cell.errors[1] is not None)


def print_answers(directory: str, worlds: list[str]) -> None:
    cells: list[Cell] = []
    print(f"{'':<29}held    x" + "".join(f"  | {f'{side / 1000:g} km':<9}bias      new/old" for side in SIDES_M))
    for world in worlds or WORLDS:
        processes = [
            subprocess.Popen(
                [Path(place, ".venv/bin/python"), __file__, "here", world], env={**os.environ, "PYTHONPATH": place},
                cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for place in (directory, str(ROOT))
        ]  # fmt: skip
        for release in RELEASES:
            for process in processes:
                print(release, file=process.stdin, flush=True)
            old, new = map(ask, processes)
            if isinstance(new, str) or isinstance(old, str):
                print(f"{world} {release}: {new if isinstance(new, str) else old}", flush=True)
                continue
            cells += compare(f"{world} {release}", old, new)
        for process in processes:
            process.communicate()
    large = [cell.ratio for cell in cells if cell.ratio is not None and cell.errors[0] > LARGE_ERROR]
    missed = [cell for cell in cells if cell.misses]
    spans = [cell for cell in cells if ", span" in cell.what]
    biased = [cell for cell in spans if abs(cell.biases[1]) > MOST_BIAS]
    print(f"\n{len(large)} cells with an error above 20 %: median ratio {statistics.median(large or [0]):.2f}")
    print(f"{len(missed)} miss their ratio, or are a tenth worse; {len(biased)} of {len(spans)} spans have more bias:")
    for cell in [*missed, *(cell for cell in biased if not cell.misses)]:
        print(f"{cell.what:<40}{cell}")


# ---- cells, passes, likelihoods --------------------------------------------------------------------------------------


class Look(NamedTuple):
    """The rows at a moment, and which questions are about it."""

    bounds: np.ndarray  # float64[n, 4]
    crowd: np.ndarray  # int64[n]
    people: np.ndarray  # float64[n]
    asked: np.ndarray  # bool[q]


def spread_inside(sums, cells, crowd, weight, change) -> None:
    """Add factors as `surface._spread` does, as if people were somewhere inside."""
    x0, y0, x1, y1 = cells.T
    full = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
    each = np.divide(weight, full, out=np.zeros(len(full)), where=full > 0)
    for place, sign in (((y0, x0), 1), ((y0, x1), -1), ((y1, x0), -1), ((y1, x1), 1)):
        np.add.at(change, place, sign * each)


spread_tight = getattr(surface, "_spread", None)


def spread_mixed(sums, cells, crowd, weight, change) -> None:
    """Add half of the tight factors, and half of those of people somewhere inside."""
    for spread in (spread_tight, spread_inside):
        spread(sums, cells, crowd, weight / 2, change)


SETTINGS = {
    **{f"{passes} passes": {"PASSES": passes} for passes in (8, 2, 4, 12)},
    **{f"{cells} cells": {"CELLS_PER_SIDE": cells} for cells in (8, 32)},
    "inside": {"_spread": spread_inside},
    "mixed": {"_spread": spread_mixed},
    **{f"most {crowd}": {"ESTIMATED_CROWD": crowd} for crowd in (2, 3, 6, 1000)},
}


def ask_moments(cloaks: Cloaks, data: Trajectories, params: dict, near_s: float) -> tuple[Questions, np.ndarray, list]:
    """Draw questions at twenty moments, as `evaluate` does; the true counts, and a `Look` for each moment."""
    rng = np.random.default_rng(1)
    starts = np.unique(cloaks.start)
    # Where the minutes before are of two windows, people have two records, which SQL knows and this does not.
    starts = starts[starts % HALF_HOURS["window_s"] >= near_s]
    moments = np.sort(rng.choice(starts, 20, replace=False)).astype(float)
    near = [np.flatnonzero((cloaks.start <= t) & (cloaks.end > t - near_s)) for t in moments]
    rows = Rows(
        record=cloaks.record_id, since=cloaks.start.astype(float), until=cloaks.end.astype(float),
        shapes=shapely.box(*cloaks.regions.bounds.T), shape=cloaks.region,
    ).select(np.unique(np.concatenate(near)))  # fmt: skip
    truth = Truth(data, params, Members.from_pairs(cloaks.member_record, cloaks.member_trajectory))
    seen = find_last(truth.find_covered(rows), moments, near_s) if near_s else truth.find_people(rows, moments)
    asked = draw_questions(rng, box=find_window(seen), moments=moments, spans=np.empty(0), sides_m=SIDES_M)
    looks = []
    for t, then in zip(moments, near, strict=True):
        last = then[np.append(np.diff(cloaks.record_id[then]) != 0, True)]
        share = np.minimum(near_s / (cloaks.end - cloaks.start)[last], 1) if near_s else 1
        people = cloaks.subjects[last] * share
        looks.append(Look(cloaks.bounds[last], cloaks.crowd[last].astype(int), people, asked.since == t))
    return asked, count_true_answers(seen, asked), looks


def expect(made: "surface.Surface | None", look: Look, squares: np.ndarray) -> np.ndarray:
    """Expect the people in squares: by a surface, evenly where it says nothing, or all evenly."""
    bounds, people, expected = look.bounds, look.people, np.zeros(len(squares))
    if made is not None:
        sums = made.sums.reshape(made.rows + 1, made.columns + 1).astype(float)
        corner = np.array([made.left, made.bottom] * 2)
        cells = np.floor(bounds / made.cell_m).astype(int) - corner + [0, 0, 1, 1]
        by = (cells[:, :2] >= 0).all(axis=1) & (cells[:, 2:] <= [made.columns, made.rows]).all(axis=1)
        by &= (cells[:, 2:] - cells[:, :2]).prod(axis=1) > 2
        x0, y0, x1, y1 = np.where(by[:, None], cells, 0).T
        by &= sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0] > 0
        change, total = np.zeros_like(sums), np.zeros_like(sums)
        surface._spread(sums, cells[by], look.crowd[by], people[by], change)
        inside = np.diff(np.diff(sums, axis=0), axis=1) * np.cumsum(np.cumsum(change, axis=0), axis=1)[:-1, :-1]
        total[1:, 1:] = np.cumsum(np.cumsum(inside, axis=0), axis=1)
        place = squares / made.cell_m - corner
        for x, y, sign in ((0, 1, 1), (2, 1, -1), (0, 3, -1), (2, 3, 1)):
            expected += sign * interpolate(total, place[:, x], place[:, y])
        bounds, people = bounds[~by], people[~by]
    low, high = bounds[:, :2], np.maximum(bounds[:, 2:], bounds[:, :2] + 1e-3)
    shared = np.minimum(high, squares[:, None, 2:]) - np.maximum(low, squares[:, None, :2])
    return expected + (np.maximum(shared, 0).prod(axis=2) / (high - low).prod(axis=1)) @ people


def interpolate(total: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Take sums at places within cells, where people are spread evenly."""
    x, y = (np.clip(axis, 0, size - 1 - 1e-9) for axis, size in ((x, total.shape[1]), (y, total.shape[0])))
    i, j = x.astype(int), y.astype(int)
    left, right = (total[j, at] * (1 - y + j) + total[j + 1, at] * (y - j) for at in (i, i + 1))
    return left * (1 - x + i) + right * (x - i)


def measure(made: "surface.Surface | None", looks: list[Look], asked: Questions, true: np.ndarray) -> np.ndarray:
    """Measure the error of each size: a share of the true counts."""
    squares = np.column_stack([asked.x, asked.y, asked.x + asked.side_m, asked.y + asked.side_m])
    expected = np.zeros(len(true))
    for look in looks:
        expected[look.asked] = expect(made, look, squares[look.asked])
    sizes = [asked.side_m == side for side in SIDES_M]
    return np.array([np.abs(expected - true)[own].sum() / true[own].sum() for own in sizes])


def print_cells() -> None:
    from guests import make_city
    from k_merge import read_cabs

    print(f"{'':<29}" + "".join(f"{f'{side / 1000:g} km':>6}" for side in SIDES_M))
    for world, read in (("taxis", read_cabs), ("city ", partial(make_city, 2000))):
        data = read()
        for release, (name, algorithm, given) in RELEASES.items():
            if release.split()[0] not in ("tp-aware", "k-merge") or "days" in release:
                continue
            method = METHODS[name]
            params = method.parse(given | ({"guests": False} if name == "tp-aware" else {}), algorithm)
            cloaks = method.anonymise(data, algorithm, params, np.random.default_rng(7))
            asked, true, looks = ask_moments(cloaks, data, vars(params), 0.0 if name == "tp-aware" else NEAR_S)
            rows = surface.Rows(
                cloaks.regions.bounds, cloaks.regions.crowd.astype(int), cloaks.regions.subjects.astype(int),
                cloaks.offset, cloaks.region, cloaks.start.astype(float), cloaks.end.astype(float),
            )  # fmt: skip
            even = measure(None, looks, asked, true)
            print(f"{world} {release:<12}{'even, %':<11}" + "".join(f"{100 * one:>6.0f}" for one in even))
            for setting, constants in SETTINGS.items():
                with patch.multiple(surface, **constants):
                    made = surface.make_surface(rows)
                    print_ratios(f"{world} {release:<12}{setting:<11}", made, measure(made, looks, asked, true) / even)
            edges = [
                (low + np.arange(n + 1)) * made.cell_m
                for low, n in ((made.bottom, made.rows), (made.left, made.columns))
            ]
            everybody = np.histogram2d(data.y, data.x, edges)[0] + 1e-6
            made = made._replace(sums=np.pad(everybody.cumsum(0).cumsum(1), ((1, 0), (1, 0))).ravel())
            print_ratios(f"{world} {release:<12}{'all fixes':<11}", made, measure(made, looks, asked, true) / even)


def print_ratios(title: str, made: "surface.Surface", ratios: np.ndarray) -> None:
    print(title + "".join(f"{one:>6.2f}" for one in ratios) + f"  {made.cell_m:g} m", flush=True)


# ---- size ------------------------------------------------------------------------------------------------------------


def print_size(people: int = 2_000_000, k: int = 50, instants: int = 30, city_m: float = 50_000.0) -> None:
    """Make the surface of rectangles of groups that move, most of them in the middle of a city."""
    rng, groups = np.random.default_rng(1), people // k
    corner = rng.normal(city_m / 2, city_m / 6, (groups, 1, 2)) + rng.normal(0, 200, (groups, instants, 2)).cumsum(1)
    corner = np.clip(corner, 0, city_m)
    bounds = np.concatenate([corner, corner + rng.gamma(4, 500, (groups, instants, 2))], axis=2).reshape(-1, 4)
    crowd, at = np.full(len(bounds), k), np.tile(np.arange(instants) * 60.0, groups)
    rows = surface.Rows(bounds, crowd, crowd, np.arange(groups + 1) * instants, np.arange(len(bounds)), at, at + 60)
    surface.prepare()
    memory.forget_peak()
    before, began, used = memory.measure_peak_mb(), time.perf_counter(), time.process_time()
    made = surface.make_surface(rows)
    took, cpu, more = time.perf_counter() - began, time.process_time() - used, memory.measure_peak_mb() - before
    print(f"{people:,} people, {len(bounds):,} rectangles: {took:.1f} s ({cpu:.1f} s of CPU), {more:,.0f} MB more")
    print(f"{made.columns} x {made.rows} cells of {made.cell_m:g} m: {made.sums.astype(np.int32).nbytes:,} bytes")


def main(words: list[str]) -> None:
    commands = {"answers": lambda: print_answers(words[1], words[2:]), "cells": print_cells, "size": print_size}
    commands["here"] = lambda: serve(words[1])
    commands[words[0]]()


if __name__ == "__main__":
    main(sys.argv[1:])

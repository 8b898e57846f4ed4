"""How long it takes to generate into PostGIS, phase by phase, and how much faster that is than one path at a time.

Run with ``python benchmarks/synth.py``; with ``--large``, 2 million trajectories too. Each size is one cold process of
``dbanon synth`` on the streets of San Francisco where they lie beside the repository, else on the built-in city. The
plain side runs Dijkstra's algorithm once for each journey, in Python, until the destination is reached, as one reads
Brinkhoff; on the same network and with the same classes of objects.
"""

import heapq
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from _data import CITY, NETWORK, ROOT

sys.path.insert(0, str(Path(__file__).parents[1]))
from dbanon.database import open_database
from dbanon.options.generating import Plan
from dbanon.synth import Scenario, _journeys
from dbanon.synth._source import read_network

DATASET = "benchmark of dbanon synth"
PHASES = ("routes_s", "making_s", "writing_s", "total_s")


def drop() -> None:
    with open_database() as database:
        database.connection.execute("DELETE FROM dbanon.dataset WHERE name = %s", [DATASET])


def measure_into_postgis(sizes: list[int]) -> None:
    print(f"dbanon synth, 30 instants, 2 requests a subject, {CITY}")
    print(
        f"{'objects':>9} {'fixes':>11} {'requests':>10} {'routes':>7} {'making':>7} {'writing':>8} {'total s':>8}",
        end="",
    )
    print(f" {'process s':>10} {'client MB':>10}")
    for objects in sizes:
        drop()
        command = [sys.executable, "-m", "dbanon", "synth", "--json", "--dataset", DATASET, "--objects", str(objects)]
        command += [word for name, path in NETWORK.items() for word in (f"--{name}", str(path))]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        seconds = time.perf_counter() - began
        told = json.loads(done.stdout)
        routes, making, writing, total = (told["timings"][phase] for phase in PHASES)
        print(f"{objects:>9} {told['fixes']:>11} {told['requests']:>10} {routes:>7.1f} {making:>7.1f}", end="")
        print(f" {writing:>8.1f} {total:>8.1f} {seconds:>10.1f} {told['peak_rss_mb']:>10.0f}", flush=True)
    drop()
    print("making and writing overlap: the next objects are made while the server stores the last ones")


def list_neighbours(scenario: Scenario, kind: int) -> list[list[tuple[int, float]]]:
    ways = scenario.routes
    pairs = list(zip(ways.to.tolist(), ways.seconds[kind].tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(ways.first[:-1], ways.first[1:], strict=True)]


def find_path(links: list[list[tuple[int, float]]], source: int, target: int) -> tuple[list[int], list[float]]:
    """Nodes after the source up to the target, and the seconds to each."""
    reached, before, queue = {source: 0.0}, {source: source}, [(0.0, source)]
    while queue:
        seconds, node = heapq.heappop(queue)
        if node == target:
            break
        for other, length in links[node]:
            if seconds + length < reached.get(other, np.inf):
                reached[other], before[other] = seconds + length, node
                heapq.heappush(queue, (seconds + length, other))
    nodes = []
    while before[target] != target:
        nodes.append(target)
        target = before[target]
    return nodes[::-1], [reached[node] for node in nodes[::-1]]


def move_plainly(scenario: Scenario, objects: int) -> int:
    """Move objects one path at a time; returns how many positions that made."""
    ways, rng, made = scenario.routes, np.random.default_rng(1), 0
    links = [list_neighbours(scenario, kind) for kind in range(len(_journeys.OBJECT_CLASSES))]
    share = [kind.share for kind in _journeys.OBJECT_CLASSES]
    chance = np.diff(ways.reach, prepend=0)
    instants = np.arange(scenario.plan.instants) * float(scenario.plan.step_s)
    for kind in rng.choice(len(share), size=objects, p=share):
        pace, now, here = rng.uniform(0.7, 1), -rng.uniform(0, 600), int(rng.integers(len(ways.x)))
        clock, nodes = [now], [here]
        while now <= instants[-1]:
            there = rng.choice(ways.destination, size=_journeys.OBJECT_CLASSES[kind].choices, p=chance)
            here = int(there[np.argmin(np.hypot(ways.x[there] - ways.x[here], ways.y[there] - ways.y[here]))])
            passed, seconds = find_path(links[kind], nodes[-1], here)
            clock += [now + at / pace for at in seconds]
            nodes += passed
            now = clock[-1] + 1 + rng.exponential(180)
            clock.append(now)
            nodes.append(here)
        made += len(
            np.column_stack([np.interp(instants, clock, ways.x[nodes]), np.interp(instants, clock, ways.y[nodes])])
        )
    return made


def compare_with_one_path_at_a_time() -> None:
    plan = Plan(objects=200_000, whole_share=1, **NETWORK)
    began = time.perf_counter()
    scenario = Scenario.from_plan(plan, read_network(plan))
    routes_s = time.perf_counter() - began
    _journeys.walk(
        scenario.routes, timetable := _journeys.Timetable(start_s=0, instants=30, step_s=60), 1, np.arange(10)
    )
    began = time.perf_counter()
    _journeys.walk(scenario.routes, timetable, 1, np.arange(plan.objects))
    fast = (time.perf_counter() - began + routes_s) / plan.objects
    began = time.perf_counter()
    move_plainly(scenario, 200)
    slow = (time.perf_counter() - began) / 200
    print("\nmoving objects in memory, microseconds an object")
    print(
        f"one path at a time {1e6 * slow:,.0f}; by trees, their {routes_s:.1f} s shared by 200,000 {1e6 * fast:,.1f}: ",
        end="",
    )
    print(f"{slow / fast:,.0f} times as fast")


if __name__ == "__main__":
    measure_into_postgis([20_000, 200_000] + [2_000_000] * ("--large" in sys.argv))
    compare_with_one_path_at_a_time()

"""Contents that return: how many of those that people send at random count, and what counting costs a publication.

Run with ``./dev bench benchmarks/returning.py``; the taxis lie beside the repository, and are left out where they do
not. A content of the first table is sent by so many people of the run, each in a window. They are drawn among all
people in all windows, or among the requests of the data, so that who asks often is drawn often. The second table has
people at home: one sends a content in some nights, alone or mostly with the same neighbours. With ``--people``, days of
generated people are published instead, as parts of one release or as releases, on an embedded server of its own.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyproj import Transformer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import senders
from benchmarks._measure import run_private_server
from benchmarks._pickups import DATA, SRID
from dbanon import methods, schema, synth
from dbanon.attacks.tp_aware._contents import find_fronts
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Float, Int, Trajectories
from dbanon.database import open_database
from dbanon.options.generating import Generating
from dbanon.synth._source import read_network

FAMILY = methods.find_method("tp-aware")
WEEK = DATA / "cabspotting" / "cabs_20080602_08.parquet"
K, CONTENTS, NEIGHBOURLY = 5, 1000, 400
SENDINGS = (3, 5, 10, 25, 50, 100)
DAY_S, PART_S = 86400, 4 * 3600
START_S = 1_767_600_000


class Bundles:
    """Groups of one run or several, and who is in which."""

    def __init__(self, runs: list[Cloaks]) -> None:
        window, record, member, at, first = [], [], [], 0, 0
        for cloaks in runs:
            starts, code = np.unique(cloaks.start[cloaks.offset[:-1]], return_inverse=True)
            window.append(code + at)
            record.append(cloaks.member_record - 1 + first)
            member.append(cloaks.member_trajectory)
            at, first = at + len(starts), first + len(code)
        self.window, self.record, self.member = map(np.concatenate, (window, record, member))
        self.windows, self.of = at, {}
        for entry, (person, group) in enumerate(zip(self.member.tolist(), self.record.tolist(), strict=True)):
            self.of[int(self.window[group]), person] = entry

    def count_fronts(self, sent: Int, rng: np.random.Generator) -> str:
        """Draw contents from these entries, `SENDINGS` of each; the share that counts, for each number."""
        shares = []
        for number in SENDINGS:
            drawn = self.record[sent[rng.integers(0, len(sent), (CONTENTS, number))]]
            content = np.repeat(np.arange(CONTENTS), number)
            fronts = find_fronts(content, drawn.ravel(), self.window, self.record, self.member, k=K)
            shares.append(len(fronts) / CONTENTS)
        return "".join(f"{share:>8.1%}" for share in [*shares, float(np.mean(shares))])


def anonymise(data: Trajectories, instants: int, **given: int) -> Cloaks:
    params = FAMILY.parse({"k": K, "instants": instants, **given})
    return FAMILY.anonymise(data, "traj-anon", params, np.random.default_rng(0))


def make_city(objects: int, instants: int, seed: int) -> tuple[Trajectories, Int, Int]:
    """The people of ``dbanon synth``, and the senders and times of their requests."""
    plan = Generating(objects=objects, instants=instants, seed=seed)
    network, number = read_network(plan), np.arange(objects)
    made = synth.Scenario.from_plan(plan, network).make_objects(number)
    x, y, t = made.fixes.xym.T
    data = Trajectories(
        trajectory_id=number, subject=number, offset=made.fixes.offset, t=t.copy(), x=np.floor(x), y=np.floor(y),
        srid=network.srid, grid_m=1.0, grid_s=1,
    )  # fmt: skip
    return data, made.sent.number, made.sent.t


def read_week() -> Trajectories:
    """The taxis of a week, one trajectory a cab."""
    table = pq.read_table(WEEK).to_pydict()
    cab, t, lat, lon = (np.array(table[name]) for name in ("cab_id", "t", "lat", "lon"))
    near = (lat > 36) & (lat < 39) & (lon > -124) & (lon < -120)
    names, code = np.unique(cab[near], return_inverse=True)
    x, y = Transformer.from_crs(4326, SRID, always_xy=True).transform(lon[near], lat[near])
    rows = np.unique(np.column_stack((code, t[near].astype(float), np.floor(x), np.floor(y))), axis=0)
    rows = rows[np.append(True, (np.diff(rows[:, :2], axis=0) != 0).any(axis=1))]
    number, (_, t, x, y) = np.arange(len(names)), rows.T.copy()
    return Trajectories(
        trajectory_id=number, subject=number, offset=np.searchsorted(rows[:, 0], np.arange(len(names) + 1)), t=t, x=x,
        y=y, srid=SRID, grid_m=1.0, grid_s=1,
    )  # fmt: skip


def list_worlds() -> Iterator[tuple[str, Bundles, Int]]:
    """Name each world and drawing, with its groups and the entries among whom senders are drawn."""
    for what, objects, instants, seed, length in (
        ("demo, 5 minutes", 300, 30, 12, 5),
        ("city, 10 minutes", 1000, 241, 3, 10),
    ):
        data, sender, t = make_city(objects, instants, seed)
        yield from list_drawings(what, [anonymise(data, length)], sender, t, length)
    if not WEEK.is_file():
        return
    data, code = senders.read_taxis()
    sent = senders.read_sent(code)
    for length in (10, 30):
        yield from list_drawings(f"taxis, {length} minutes", [anonymise(data, length)], sent.subject, sent.t, length)
    week = read_week()
    begins = [senders.BEGIN_S + day * DAY_S for day in range(-2, 5)]
    evenings = [anonymise(week, 30, since=begin, until=begin + 3 * 3600) for begin in begins]
    bundles = Bundles(evenings)
    yield "taxis, 7 evenings of 30 minutes: all", bundles, np.arange(len(bundles.member))


def list_drawings(
    what: str, runs: list[Cloaks], sender: Int, t: Int, length: int
) -> Iterator[tuple[str, Bundles, Int]]:
    bundles = Bundles(runs)
    yield f"{what}: all", bundles, np.arange(len(bundles.member))
    starts = np.unique(runs[0].start[runs[0].offset[:-1]])
    at = np.searchsorted(starts, t, side="right") - 1
    inside = (at >= 0) & (t < starts[at] + length * 60)
    entries = [bundles.of.get(pair, -1) for pair in zip(at[inside].tolist(), sender[inside].tolist(), strict=True)]
    yield f"{what}: requests", bundles, np.array([entry for entry in entries if entry >= 0])


def measure_chance() -> None:
    print(f"contents of which fewer than k = {K} people are in front, of {CONTENTS} sent at random")
    print(f"{'sent so often':<40}" + "".join(f"{number:>8}" for number in SENDINGS) + f"{'mean':>8}")
    rng = np.random.default_rng(1)
    for what, bundles, sent in list_worlds():
        print(f"{what:<40}{bundles.count_fronts(sent, rng)}", flush=True)


def measure_neighbours() -> None:
    """Let one person in front send a content, and count whom a reader finds there, and who was hidden once."""
    print(f"\ncontents that one of the people at home sends in nights, {NEIGHBOURLY} of each")
    print(f"{'people':>6} {'metres':>7} {'nights':>7} {'alone':>7} {'count':>7} {'not if less one':>16} {'random':>8}")
    rng = np.random.default_rng(1)
    for people, metres in ((60, 30), (60, 300), (300, 30), (300, 300), (1000, 30), (1000, 300)):
        home = rng.uniform(5000, 10000, (people, 2))
        bundles = Bundles([anonymise(stay(home + rng.normal(0, metres, home.shape)), 3) for _ in range(30)])
        random = bundles.count_fronts(np.arange(len(bundles.member)), rng)[-8:]
        for nights in (3, 5, 8):
            alone, counted, near = [], [], []
            for _ in range(NEIGHBOURLY):
                sender, drawn = int(rng.integers(people)), rng.choice(30, nights, replace=False)
                asking = bundles.record[[bundles.of[night, sender] for night in drawn.tolist()]]
                met = np.bincount(bundles.member[np.isin(bundles.record, asking)])
                alone.append((met == nights).sum() == 1)
                given = bundles.window, bundles.record, bundles.member
                counted.append(bool(find_fronts(np.zeros(nights, np.int64), asking, *given, k=K)))
                near.append((met >= nights - 1).sum() >= K)
            of_alone = np.array([counted, near])[:, alone]
            lost = of_alone.all(axis=0).mean()
            shares = f"{np.mean(alone):>7.1%} {of_alone[0].mean():>7.1%} {lost:>16.1%} {random}"
            print(f"{people:>6} {metres:>7} {nights:>7} {shares}", flush=True)


def stay(at: Float) -> Trajectories:
    """Let people be at places for three minutes."""
    number = np.arange(len(at))
    x, y = np.floor(np.repeat(at, 3, axis=0)).T.copy()
    return Trajectories(
        trajectory_id=number, subject=number, offset=np.arange(len(at) + 1) * 3,
        t=np.tile(np.arange(3) * 60.0, len(at)), x=x, y=y, srid=SRID, grid_m=1.0, grid_s=1,
    )  # fmt: skip


PART = """
SELECT r.rows, (SELECT count(DISTINCT content) FROM dbanon.asked a WHERE a.release_id = r.release_id),
    (SELECT coalesce(sum(pg_column_size(a.*)), 0) / 1e6 FROM dbanon.asked a WHERE a.release_id = r.release_id),
    (SELECT sum(pg_column_size(g.*)) / 1e6 FROM dbanon.grouping g WHERE g.release_id = r.release_id),
    r.overlap ->> 'requests_of_few_over_parts'
FROM dbanon.release r ORDER BY r.release_id DESC LIMIT 1
"""


def measure_publishing(people: int, requests: float, grow: bool) -> None:
    """Publish three parts, or releases, of four hours each, in windows of 10 minutes."""
    print(f"\n{people:,} people, {requests} requests each in 12 hours, {'parts' if grow else 'releases'}")
    print(f"{'part':>4} {'rows':>9} {'publish s':>10} {'contents':>9} {'asked MB':>9} {'groups MB':>10} {'count':>6}")
    with run_private_server() as (server, _):
        schema.upgrade(server.url)
        with open_database(server.url) as database:
            plan = Generating(objects=people, instants=721, seed=1, start=START_S, requests_per_subject=requests)
            synth.fill_dataset(database.connection, "city", plan)
            for part in range(3):
                bounds = {"since": START_S + part * PART_S, "until": START_S + (part + 1) * PART_S}
                run = database.run("tp-aware", dataset="city", params={"k": K, "instants": 10, **bounds})
                began = time.perf_counter()
                database.publish(run.run_id, "days" if grow else f"day_{part}", grow=grow)
                seconds = time.perf_counter() - began
                rows, *figures = database.connection.execute(PART).fetchone() or []
                print(
                    f"{part + 1:>4} {rows:>9,} {seconds:>10.1f}",
                    *(f"{figure or 0!s:>9.6}" for figure in figures),
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="*", default=[], help="publish parts of so many people instead")
    parser.add_argument("--releases", action="store_true", help="publish releases under new names, not parts")
    asked = parser.parse_args()
    for people in asked.people:
        for requests in (0, 10):
            measure_publishing(people, requests, not asked.releases)
    if not asked.people:
        measure_chance()
        measure_neighbours()


if __name__ == "__main__":
    main()

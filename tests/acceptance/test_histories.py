"""Random histories of publications: other senders, near copies, restores in place and subsets of cells among them.

What must come of a step is worked out here, from the files of the people and from members of published records alone.
"""

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psycopg
import pytest

from tests.acceptance.commands import Done, call, demand_done
from tests.clients import find_client

pytestmark = [pytest.mark.db, pytest.mark.stress, pytest.mark.usefixtures("short_search")]

PEOPLE, NIGHTS, MINUTES, K = 60, 6, 40, 5
START_S = 1_767_600_000
CORNER = np.array([550_000.0, 4_180_000.0])
RARE = "falconry"
CITY, BLOCK, CELL_M = 12, 4, 300  # cells of the city along a side, of them those of the block, and how long each is
L, T = 3, 0.1
CATEGORIES = ("bar", "bank", "shop", "clinic")
BUNDLES = """
SELECT rec.run_id, rec.record_id, req.value ->> 'poi', array_agg(DISTINCT tra.subject)
FROM dbanon.release rel JOIN dbanon.run USING (run_id) JOIN dbanon.dataset dat USING (dataset_id)
JOIN dbanon.record rec USING (run_id)
CROSS JOIN LATERAL unnest(rec.regions) ele (region_no)
JOIN dbanon.region reg ON reg.run_id = rec.run_id AND reg.region_no = ele.region_no
CROSS JOIN LATERAL jsonb_array_elements(coalesce(reg.extra -> 'requests', '[]')) req
JOIN dbanon.membership mem ON mem.run_id = rec.run_id AND mem.record_id = rec.record_id
JOIN dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id
WHERE dat.name = 'walks' GROUP BY 1, 2, 3
"""
MOVES = {
    "0.3 m": lambda rng, xy: xy + rng.normal(0, 0.3, xy.shape),
    "3 m": lambda rng, xy: xy + rng.normal(0, 3, xy.shape),
    "beside": lambda rng, xy: xy + np.array([0.6, 0]),
    "rounded": lambda rng, xy: np.round(xy, -1),
}


def format_time(night: int, minute: int = 0) -> str:
    return datetime.fromtimestamp(START_S + 86_400 * night + 60 * minute, UTC).isoformat()


def walk(rng: np.random.Generator, people: int, side_m: float) -> np.ndarray:
    """Let people walk to random places at 1.4 m/s; returns metres, by person and minute."""
    xy = rng.uniform(0, side_m, (people, 2))
    goal, made = rng.uniform(0, side_m, (people, 2)), []
    for _ in range(MINUTES):
        left = np.linalg.norm(goal - xy, axis=1, keepdims=True)
        xy = xy + (goal - xy) * np.minimum(1, 84 / np.maximum(left, 1e-9))
        goal = np.where(left < 84, rng.uniform(0, side_m, (people, 2)), goal)
        made.append(xy)
    return np.stack(made, axis=1) + CORNER


def write_csv(path: Path, header: str, rows: list[str]) -> str:
    path.write_text("\n".join([header, *rows, ""]))
    return str(path)


@dataclass
class History:
    """One database, and what is known of it beside its answers."""

    url: str
    folder: Path
    draw: Random
    rng: np.random.Generator
    night: int = 0

    def tell(self, *words: str) -> Done:
        return call(self.url, *words)

    def read(self, query: str, *values: object) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    # ---- people who walk, and ask

    def load_walks(self) -> None:
        fixes, asked = [], []
        for night in range(NIGHTS):
            fixes += list_fixes("p", night, walk(self.rng, PEOPLE, 4000))
            for person in range(PEOPLE):
                asked += [
                    f"p{person},{format_time(night, self.draw.randrange(MINUTES))},w{self.draw.randrange(400)}"
                    for _ in range(2)
                ]
            sender = 3 if night != 2 else self.draw.choice([3, 41])
            asked.append(f"p{sender},{format_time(night, self.draw.randrange(MINUTES))},{RARE}")
        load_fixes(self, "walks", fixes)
        table = write_csv(self.folder / "asked.csv", "subject,time,poi", asked)
        demand_done(self.tell("load", "requests", table, "--dataset", "walks", "--columns", "poi"))

    def run_night(self, night: int, name: str, k: int = K, *, instants: int = 10, grow: bool = False) -> Done:
        span = ("-p", f"since={format_time(night)}", "-p", f"until={format_time(night, MINUTES)}")
        more = ("--grow",) if grow else ()
        return self.tell(
            *("run", "tp-aware", "--dataset", "walks", "-p", f"k={k}", "-p", f"instants={instants}", *span),
            *("--publish", name, "--allow-no-requests", *more),
        )

    def publish_night(self) -> None:
        """Publish the next night, and compare what it says of senders with the people in the bundles of each word."""
        demand_done(self.run_night(self.night, "walks", grow=True))
        self.night += 1
        [(counted,)] = self.read(
            "SELECT coalesce((overlap ->> 'requests_of_few_over_parts')::int, 0) FROM dbanon.release"
            " WHERE name = 'walks' ORDER BY release_id DESC LIMIT 1"
        )
        found = find_few(self.read(BUNDLES))
        assert counted <= len(found), (counted, found)
        # Of 60 people chance puts one into three groups of three; into four or more it puts nobody.
        assert counted > 0 or found.get(RARE, 0) < 4, found

    # ---- what must not pass

    def repeat_night(self) -> None:
        """Publish a night again with another k: windows of other lengths leave people fewer candidates."""
        if self.night:
            told = self.run_night(self.draw.randrange(self.night), "again", K + 2, instants=20)
            assert told.code == 5, told.stdout + told.stderr

    def copy_nearly(self) -> None:
        """Load people under two names each, of which the second is nearly where the first is, as a phone and a car."""
        how, xy = self.draw.choice(sorted(MOVES)), walk(self.rng, PEOPLE, 4000)
        fixes = list_fixes("a", NIGHTS, xy) + list_fixes("b", NIGHTS, MOVES[how](self.rng, xy))
        load_fixes(self, "twice", fixes, "--population", "twice")
        run = ("run", "tp-aware", "--dataset", "twice", "-p", "k=2", "-p", "instants=10", "--publish", "twice")
        told = self.tell(*run, "--allow-no-requests")
        assert told.code == 5, (how, told.stdout + told.stderr)
        demand_done(
            self.tell(*run, "--allow-no-requests", "--allow-overlap", "--reason", "each has a phone and a car here")
        )

    def restore(self) -> None:
        """Lose a publication by a restore over the database that is there, then name it."""
        if not self.night or self.night == NIGHTS:
            return
        client = find_client("pg_dump", self.url)
        dumped = subprocess.run([*client, "-Fc", "-d", self.url], check=True, stdout=subprocess.PIPE).stdout
        said: list[str] = []
        with psycopg.connect(self.url, autocommit=True) as connection:
            demand_done(self.run_night(self.night, "lost"))
            [(run,)] = connection.execute("SELECT run_id FROM dbanon.releases WHERE name = 'lost'").fetchall()
            connection.execute("SELECT dbanon.unpublish('lost')")
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
            connection.execute("SET client_min_messages = log")
            connection.execute("SELECT dbanon.publish(%s, 'lost')", [run])
            connection.execute("SET client_min_messages = notice")
            connection.execute("DROP SCHEMA published, published_inner, dbanon, dbanon_internal CASCADE")
        lines = [json.loads(line[18:]) for line in said if line.startswith("dbanon: published")]
        assert [line["name"] for line in lines] == ["lost"]
        command = [*find_client("pg_restore", self.url), "-d", self.url]
        subprocess.run(command, check=False, input=dumped, capture_output=True)
        demand_done(self.tell("db", "upgrade", "--share-roles"))
        assert self.tell("check").code == 2
        told = self.run_night(self.night, "after", K + 2, instants=20)
        assert told.code == 1, told.stderr
        assert "confirm_history" in told.stderr
        assert self.read("SELECT count(*) FROM dbanon.release WHERE name IN ('after', 'lost')") == [(0,)]
        assert self.read("SELECT dbanon.confirm_history(%s, 'as the log has it')", json.dumps(lines)) == [(1,)]
        told = self.run_night(self.night, "after", K + 2, instants=20)
        assert told.code == 5, told.stdout + told.stderr
        self.night += 1  # its parts cannot be published any more without a reason

    # ---- people at home, and the cells around them

    def publish_homes(self) -> None:
        """Publish a day of all cells, then another or one of the block alone, in which l and t would fail at home."""
        cells = [(i % CITY, i // CITY) for i in range(CITY * CITY)]
        in_block = [x < BLOCK and y < BLOCK for x, y in cells]
        spots = self.draw.choice([16, 120])
        shares = {True: (0.06, 0.06, 0.06, 0.82), False: (0.25,) * 4}
        pois = [
            f"{category},{x},{y}"
            for (column, row), block in zip(cells, in_block, strict=True)
            for category, (x, y) in zip(
                self.rng.choice(CATEGORIES, spots, p=shares[block]),
                CORNER + CELL_M * (np.array([column, row]) + self.rng.uniform(0.02, 0.98, (spots, 2))),
                strict=True,
            )
        ]
        table = write_csv(self.folder / "pois.csv", "category,x,y", pois)
        chosen = {"all": cells, "block": [cell for cell, block in zip(cells, in_block, strict=True) if block]}
        homes = [self.draw.randrange(BLOCK * BLOCK) for _ in range(40)]
        codes = {}
        for day, some in enumerate(["all", self.draw.choice(["all", "block"])]):
            name = f"homes{day}"
            load_fixes(self, name, self.list_homes(day, homes), "--population", "homes", "--grid-m", "1")
            shapes = write_csv(self.folder / f"cells{day}.csv", "geom", [format_square(*cell) for cell in chosen[some]])
            demand_done(self.tell("load", "cells", shapes, "--dataset", name, "--crs", "EPSG:32610"))
            demand_done(
                self.tell("load", "pois", table, "--dataset", name, "--category", "category", "--crs", "EPSG:32610")
            )
            run = ("run", "semantic", "--dataset", name, "-p", "k=2", "-p", f"l={L}", "-p", f"t={T}", "--publish", name)
            codes[day] = self.tell(*run).code
        assert codes[0] == 0
        assert codes[1] == (0 if some == "all" else 5), (some, spots)

    def list_homes(self, day: int, homes: list[int]) -> list[str]:
        """People at home at night, and at twelve places of the city by day."""
        rows = []
        for person, home in enumerate(homes):
            for hour in range(24):
                at_home = hour < 7 or hour > 21
                cell = (home % BLOCK, home // BLOCK) if at_home else self.rng.integers(0, CITY, 2)
                x, y = CORNER + CELL_M * (np.array(cell) + self.rng.uniform(0.1, 0.9, 2))
                rows.append(f"h{person},{format_time(30 + 2 * day, 60 * hour)},{x:.1f},{y:.1f}")
        return rows


def list_fixes(prefix: str, night: int, xy: np.ndarray) -> list[str]:
    return [
        f"{prefix}{person},{format_time(night, minute)},{x:.2f},{y:.2f}"
        for person, path in enumerate(xy)
        for minute, (x, y) in enumerate(path)
    ]


def load_fixes(history: History, dataset: str, rows: list[str], *more: str) -> None:
    table = write_csv(history.folder / f"{dataset}.csv", "subject,time,x,y", rows)
    told = history.tell(
        "load", "trajectories", table, "--dataset", dataset, "--crs", "EPSG:32610", "--srid", "32610", *more
    )
    demand_done(told)


def format_square(column: int, row: int) -> str:
    x, y = CORNER + CELL_M * np.array([column, row])
    e, n = x + CELL_M, y + CELL_M
    return f'"POLYGON(({x} {y},{e} {y},{e} {n},{x} {n},{x} {y}))"'


def find_few(rows: list[tuple[int, int, str, list[str]]]) -> dict[str, int]:
    """Find the words of which fewer than K people reach the greatest number of bundles, and that number."""
    bundles: dict[str, list[list[str]]] = {}
    for _, _, word, people in rows:
        bundles.setdefault(word, []).append(people)
    few = {}
    for word, crowds in bundles.items():
        met = Counter(person for crowd in crowds for person in crowd)
        greatest = max(met.values())
        if len(crowds) >= 3 and greatest >= 3 and list(met.values()).count(greatest) < K:
            few[word] = greatest
    return few


@pytest.mark.parametrize("number", range(6))
def test_no_step_of_a_random_history_passes_what_it_must_refuse(number: int, database: str, tmp_path: Path) -> None:
    history = History(database, tmp_path, Random(number), np.random.default_rng(number))
    history.load_walks()
    steps = [
        *[history.publish_night] * 4,
        history.repeat_night,
        history.copy_nearly,
        history.restore,
        history.publish_homes,
    ]
    history.draw.shuffle(steps)
    for step in steps:
        if step != history.publish_night or history.night < NIGHTS:
            step()

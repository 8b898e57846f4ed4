"""Other programs on the same taxis, with the same figures as dbanon's own runs: `benchmarks.figures`.

    python benchmarks/peers.py [--only NAMES] [--privkit PYTHON] [--mdl DIR --mdl-python PYTHON] [--ldptrace DIR]
                               [--adatrace DIR] [--dpmr PYTHON] [--arx JARS] [--anon]

Nothing of other people's programs is here; each is measured where a path to it is given. The directories are clones of
MobiDataLab/mdl-anonymizer, zealscott/LDPTrace and git-disl/AdaTrace; the last needs Java. PYTHON is an interpreter that
has their packages: privkit (and open3d<0.19); scikit-mobility, haversine, typer, more-itertools, xgboost, pyarrow<18,
shapely<2, numpy<2 and psutil for mdl-anonymizer; dp-mobility-report, pandas<3 and scikit-learn<1.7. JARS is a class
path with ARX, which needs Java, too. --anon needs PostgreSQL Anonymizer 1.3 in the installation that dbanon's server
is of. GLOVE and W4M are those of benchmarks/papers.

The data are one day of San Francisco's taxis, one fix a minute of each cab at most. Three ways by hand are compared,
too: new names, and places rounded to 100 m or 1 km with new names each hour. AdaTrace and LDPTrace read and write
sequences of places without times. They get the stretches of an hour, and what they write gets the times of these
stretches, a fix a minute, since counts need times; their figures of counts say no more than that. dp-mobility-report
gets the same stretches as trips, and writes how many of them end in each square kilometre in each hour. Each that it
counts becomes a track that stays at a place in the square for the hour. ARX wants a table with one row a person. It
gets one row for each half hour of a cab: the half hour, and the square of 250 m where the cab is first in each ten
minutes. It makes squares larger until five rows are equal. PostgreSQL Anonymizer hashes names, and adds noise.

One attack judges all files. A reader knows four fixes of a cab within half an hour, each to 500 m and 5 minutes, and
asks where the cab is 10 to 30 minutes after the last of them. It takes one of the records that pass by all four, each
as likely as it has people, and a place in what this record says of that time. Without such a record it takes the last
place that it knows. "followed" is how often the guess is right to 500 m.
"""

import argparse
import contextlib
import csv
import gzip
import json
import math
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pyproj
from psycopg import sql

sys.path.insert(0, str(Path(__file__).parents[1]))
import benchmarks.papers.kte  # noqa: F401 - adds glove and w4m
from benchmarks._measure import run_dbanon, run_private_server
from benchmarks.figures import FIGURES, evaluate_file, files
from benchmarks.figures.files import Rectangles, Tracks
from benchmarks.figures.unicity import measure_unicity
from dbanon.methods import METHODS
from dbanon.results.figures import Figure
from dbanon.runs import reading

CABS = Path(__file__).parents[2] / "shared" / "data" / "cabspotting" / "cabs_20080604.csv.gz"
DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
MIDNIGHT_S = 1_212_562_800  # 2008-06-04 00:00 in San Francisco
BOX = (-122.52, 37.60, -122.35, 37.82)
ZONE = 32_610
"""The system that dbanon takes for the dataset: rectangles of a file have to be in it."""
DEGREE_M = 111_320.0
SEED = 2018
EPSILON = 1.0
SHOWN = ("count_error", "usable_resolution_m", "density_jsd", "trip_jsd", "length_jsd")
KNOWN_FIXES, NEAR_M, NEAR_S = 4, 500.0, 300
"""What the reader knows of a cab: so many of its fixes, so exactly."""
LATER_S = (600, 1_800)
CASES, POINTS_PER_SIDE = 1_000, 20
"""Half hours of cabs that are attacked; places tried along each side of a rectangle."""


class Fix(NamedTuple):
    """A cab, seconds since 1970, degrees."""

    cab: str
    t: int
    lon: float
    lat: float


def read_fixes(cabs: int) -> list[Fix]:
    """Read the day: of each cab the first fix of each minute, inside of the city's box."""
    fixes = dict[tuple[str, int], Fix]()
    with gzip.open(CABS, "rt", newline="") as file:
        for row in csv.DictReader(file):
            fix = Fix(row["cab_id"], int(row["t"]), float(row["lon"]), float(row["lat"]))
            if int(fix.cab) < cabs and BOX[0] < fix.lon < BOX[2] and BOX[1] < fix.lat < BOX[3]:
                fixes.setdefault((fix.cab, fix.t // MINUTE_S), fix)
    return sorted(fixes.values())


def write(file: Path, rows: Sequence[Iterable[Any]], header: str = "id,time,lon,lat") -> None:
    with file.open("w", newline="") as out:
        out.write(header + "\n")
        csv.writer(out).writerows(rows)


# --- the peers: each writes a file from the fixes


def round_places(rows: list[Fix], step: float) -> list[Fix]:
    """Round places to a step in degrees of latitude, and give each cab a new number each hour."""
    return [
        Fix(f"{row.cab}-{row.t // HOUR_S}", row.t, round(row.lon / step) * step, round(row.lat / step) * step)
        for row in rows
    ]


def run_program(*command: str | Path, where: Path, path: Path | None = None) -> None:
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    subprocess.run([*map(str, command)], cwd=where, env=environment, check=True, stdout=subprocess.DEVNULL)


PLANAR = """
import csv, random, sys
from privkit.ppms.planar_laplace import PlanarLaplace
random.seed(int(sys.argv[4]))
noise = PlanarLaplace(float(sys.argv[3]))
with open(sys.argv[1]) as file, open(sys.argv[2], "w", newline="") as out:
    rows = csv.reader(file)
    writer = csv.writer(out)
    writer.writerow(next(rows))
    for name, t, lon, lat in rows:
        y, x, _ = noise.get_obfuscated_point(float(lat), float(lon))
        writer.writerow([name, t, x, y])
"""


def run_planar_laplace(python: Path, rows: list[Fix], place: Path, *, radius_m: float) -> Path:
    """Have privkit add noise to each fix: `epsilon` = ln 4 within a radius."""
    write(place / "in.csv", rows)
    (place / "planar.py").write_text(PLANAR)
    run_program(python, "planar.py", "in.csv", "out.csv", str(1.386 / radius_m), str(SEED), where=place)
    return place / "out.csv"


REPORT = """
import sys
import geopandas, numpy, pandas, shapely.geometry
from dp_mobility_report import DpMobilityReport, constants
rows = pandas.read_csv(sys.argv[1])
west, south, east, north, dx, dy, epsilon, midnight = map(float, sys.argv[3:])
corners = [(x, y) for x in numpy.arange(west, east, dx) for y in numpy.arange(south, north, dy)]
tiles = geopandas.GeoDataFrame(
    {"tile_id": [f"{x} {y}" for x, y in corners], "tile_name": [f"{x} {y}" for x, y in corners]},
    geometry=[shapely.geometry.box(x, y, x + dx, y + dy) for x, y in corners], crs=4326)
trips = pandas.DataFrame({"uid": rows.id.astype(str), "tid": rows.id.astype(str), "lat": rows.lat, "lng": rows.lon,
    "datetime": pandas.Timestamp("2008-06-04") + pandas.to_timedelta(rows.time - midnight, unit="s")})
report = DpMobilityReport(trips, tiles, privacy_budget=epsilon, max_trips_per_user=1, disable_progress_bar=True,
    analysis_selection=[constants.VISITS_PER_TIME_TILE], timewindows=list(range(25)))
report.report[constants.VISITS_PER_TIME_TILE].data.to_pickle(sys.argv[2])
"""


def run_mobility_report(python: Path, rows: list[Fix], place: Path) -> Path:
    """Have dp-mobility-report count the ends of hours by square kilometre; each that it counts stays for the hour."""
    parts = [[row._replace(cab=str(i)) for row in part] for i, part in enumerate(cut_stretches(rows))]
    write(place / "in.csv", [row for part in parts for row in part])
    (place / "report.py").write_text(REPORT)
    side = (1_000 / DEGREE_M / math.cos(math.radians(BOX[1])), 1_000 / DEGREE_M)
    run_program(python, "report.py", "in.csv", "counts.pkl", *map(str, (*BOX, *side, EPSILON, MIDNIGHT_S)), where=place)
    run_program(python, "-c", "import pandas; pandas.read_pickle('counts.pkl').to_csv('counts.csv')", where=place)
    with (place / "counts.csv").open(newline="") as file:
        _, windows, *counts = (row for row in csv.reader(file))
    draw, made = random.Random(SEED), list[Fix]()
    for name, *numbers in counts:
        if name == "tile_id":
            continue
        x, y = map(float, name.split())
        for window, number in zip(windows[1:], numbers, strict=True):
            begin = MIDNIGHT_S + HOUR_S * (int(window.split(":")[0]) - 1)
            for _ in range(round(float(number))):
                at = x + draw.random() * side[0], y + draw.random() * side[1]
                made += [Fix(str(len(made)), begin + MINUTE_S * minute, *at) for minute in range(0, 60, 5)]
    write(place / "out.csv", made)
    return place / "out.csv"


def run_mdl(python: Path, clone: Path, rows: list[Fix], place: Path, *, method: str, **params: object) -> Path:
    """Have mdl-anonymizer change the file by one of its methods."""
    with (place / "in.csv").open("w", newline="") as out:
        out.write("user_id,trajectory_id,lat,lon,timestamp\n")
        for fix in rows:
            at = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(fix.t))
            out.write(f"{fix.cab},{fix.cab},{fix.lat},{fix.lon},{at}\n")
    asked = {
        "method": method, "input_file": str(place / "in.csv"), "output_folder": str(place),
        "main_output_file": "made.csv", "params": params,
    }  # fmt: skip
    (place / "asked.json").write_text(json.dumps(asked))
    run_program(python, "-m", "mdl_anonymizer", "anonymize", "-f", place / "asked.json", where=clone, path=clone)
    with (place / "made.csv").open(newline="") as file:
        made = list(csv.DictReader(file))
    clock = "%Y/%m/%d %H:%M:%S %z"
    write(
        place / "out.csv",
        [
            Fix(
                m["trajectory_id"],
                int(datetime.strptime(m["timestamp"] + " +0000", clock).timestamp()),
                float(m["lon"]),
                float(m["lat"]),
            )
            for m in made
        ],
    )
    return place / "out.csv"


ARX = """
import java.nio.charset.StandardCharsets;
import org.deidentifier.arx.*;
class Run {
    public static void main(String[] columns) throws Exception {
        var data = Data.create("in.csv", StandardCharsets.UTF_8, ',');
        for (var name : columns)
            data.getDefinition().setAttributeType(
                name, AttributeType.Hierarchy.create(name + ".csv", StandardCharsets.UTF_8, ','));
        var asked = ARXConfiguration.create();
        asked.addPrivacyModel(new org.deidentifier.arx.criteria.KAnonymity(5));
        asked.setSuppressionLimit(1);
        asked.setQualityModel(org.deidentifier.arx.metric.Metric.createLossMetric(0));
        var found = new ARXAnonymizer().anonymize(data, asked);
        var table = found.getOutput();
        found.optimizeIterativeFast(table, 1.0 / data.getHandle().getNumRows());
        table.save("made.csv", ',');
    }
}
"""


def run_arx(jars: str, rows: list[Fix], place: Path) -> Path:
    """Have ARX take squares of 250 m to 32 km, the whole box, for each row by local recoding, or leave the row out."""
    project = pyproj.Transformer.from_crs(4326, ZONE, always_xy=True).transform
    x, y = project([fix.lon for fix in rows], [fix.lat for fix in rows])
    corner, side, sizes, part_s, parts = (min(x), min(y)), 250, range(8), 600, 3
    halves = dict[tuple[str, int], dict[int, tuple[int, int]]]()
    for fix, east, north in zip(rows, x, y, strict=True):
        half, part = divmod(fix.t // part_s, parts)
        square = int((east - corner[0]) // side), int((north - corner[1]) // side)
        halves.setdefault((fix.cab, half), {}).setdefault(part, square)
    known = [(half, *(f"0 {i} {j}" for _, (i, j) in sorted(at.items()))) for (_, half), at in halves.items()]
    names = ("half", *(f"part{part}" for part in range(parts)))
    write(place / "in.csv", [row for row in known if len(row) == len(names)], ",".join(names))
    squares = {square for at in halves.values() for square in at.values()}
    larger = "\n".join(",".join(f"{n} {i >> n} {j >> n}" for n in sizes) for i, j in squares)
    for name in names:
        alone = "\n".join(sorted({str(half) for _, half in halves}))
        (place / f"{name}.csv").write_text(alone if name == "half" else larger)
    (place / "Run.java").write_text(ARX)
    run_program("java", "-cp", jars, "Run.java", *names, where=place)
    with (place / "made.csv").open(newline="") as file:
        _, *table = csv.reader(file)
    made = list[Any]()
    for record, (when, *cells) in enumerate(row for row in table if row[0] != "*"):
        for part, cell in enumerate(cells):
            n, i, j = map(int, cell.split())
            since, low = (int(when) * parts + part) * part_s, (corner[0] + i * (side << n), corner[1] + j * (side << n))
            made.append((record, since, since + part_s, *low, low[0] + (side << n), low[1] + (side << n), 1))
    return write_rectangles(place, made)


def run_anon(url: str, rows: list[Fix], place: Path) -> Path:
    """Have PostgreSQL Anonymizer mask a table for good: hashed names, noise of up to 500 m each way and 5 minutes."""
    ratios = {"lon": 500 / DEGREE_M / math.cos(math.radians(BOX[1])) / -BOX[0], "lat": 500 / DEGREE_M / BOX[1]}
    masks = {name: f"anon.noise({name}, {ratio:.9f})" for name, ratio in ratios.items()}
    masks |= {"id": "anon.hash(id)", "time": "anon.dnoise(time, '5 minutes'::interval)"}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE masked")
    with psycopg.connect(url, dbname="masked") as connection:
        connection.execute("LOAD 'anon'; CREATE EXTENSION anon CASCADE; SELECT anon.init(), setseed(0.2018)")
        connection.execute(sql.SQL("SET anon.salt = {}").format(str(SEED)))
        connection.execute("CREATE TABLE fix (id text, time timestamptz, lon float, lat float)")
        with connection.cursor().copy("COPY fix FROM STDIN") as copy:
            for fix in rows:
                copy.write_row([fix.cab, time.strftime("%F %TZ", time.gmtime(fix.t)), fix.lon, fix.lat])
        for name, mask in masks.items():
            words = "SECURITY LABEL FOR anon ON COLUMN fix.{} IS {}"
            connection.execute(sql.SQL(words).format(sql.Identifier(name), f"MASKED WITH FUNCTION {mask}"))
        connection.execute("SELECT anon.anonymize_table('fix')")
        made = connection.execute("SELECT id, extract(epoch FROM time), lon, lat FROM fix").fetchall()
    write(place / "out.csv", made)
    return place / "out.csv"


def cut_stretches(rows: list[Fix]) -> list[list[Fix]]:
    """Cut each cab's day into its hours; those of one fix are no sequence."""
    stretches = dict[tuple[str, int], list[Fix]]()
    for row in rows:
        stretches.setdefault((row.cab, row.t // HOUR_S), []).append(row)
    return [one for one in stretches.values() if len(one) > 1]


def convert_to_metres(lon: float, lat: float) -> tuple[float, float]:
    """Give a place in metres east and north of the box's corner: AdaTrace writes two decimals."""
    return (lon - BOX[0]) * DEGREE_M * math.cos(math.radians(BOX[1])), (lat - BOX[1]) * DEGREE_M


def convert_to_degrees(x: float, y: float) -> tuple[float, float]:
    return BOX[0] + x / DEGREE_M / math.cos(math.radians(BOX[1])), BOX[1] + y / DEGREE_M


def format_sequences(parts: list[list[Fix]]) -> str:
    return "".join(
        f"#{i}:\n>0:{''.join('{:.2f},{:.2f};'.format(*convert_to_metres(fix.lon, fix.lat)) for fix in part)}\n"
        for i, part in enumerate(parts)
    )


def add_times(made: list[list[tuple[float, float]]], parts: list[list[Fix]]) -> list[Fix]:
    """Give sequences the beginnings of the true stretches, in a random order, and a fix a minute."""
    begins = [part[0].t for part in parts]
    random.Random(SEED).shuffle(begins)
    return [
        Fix(str(i), begins[i % len(begins)] + MINUTE_S * j, *convert_to_degrees(x, y))
        for i, one in enumerate(made)
        for j, (x, y) in enumerate(one)
    ]


def run_ldptrace(clone: Path, rows: list[Fix], place: Path) -> Path:
    """Have LDPTrace make as many sequences as there are; its grid is 6 x 6, as its page says."""
    parts = cut_stretches(rows)
    shutil.copytree(clone / "LDPTrace", place / "copy")
    data = place / "copy" / "data"
    (data / "oldenburg").mkdir(exist_ok=True)
    (data / "oldenburg.dat").write_text(format_sequences(parts))
    options = ("--dataset", "oldenburg", "--epsilon", str(EPSILON), "--re_syn", "--query_num", "1")
    # It writes first and measures afterwards, which fails where no pattern of the data is left.
    with contextlib.suppress(subprocess.CalledProcessError):
        run_program(sys.executable, "main.py", *options, where=place / "copy" / "code")
    [file] = (data / "oldenburg").glob("*.pkl")
    made = pickle.loads(file.read_bytes())
    write(place / "out.csv", add_times([[(float(p[0]), float(p[1])) for p in one] for one in made], parts))
    return place / "out.csv"


def run_adatrace(clone: Path, rows: list[Fix], place: Path) -> Path:
    """Have AdaTrace make sequences; the first of its five repetitions."""
    parts = cut_stretches(rows)
    (place / "brinkhoff.dat").write_text(format_sequences(parts))
    jars = os.pathsep.join(str(clone / name) for name in ("commons-math3-3.4.1.jar", "kd.jar"))
    run_program("javac", "-nowarn", "-d", place, "-cp", jars, *(clone / "src").rglob("*.java"), where=place)
    run_program("java", "-cp", f"{place}{os.pathsep}{jars}", "Main", where=place)
    lines = (place / f"brinkhoff.dat-eps{EPSILON}-iteration0.dat").read_text().splitlines()
    made = [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line[3:].strip(";").split(";") if pair)]
        for line in lines
        if line.startswith(">")
    ]
    write(place / "out.csv", add_times(made, parts))
    return place / "out.csv"


# --- dbanon's own

CLOAKS = """
    SELECT record_id, extract(epoch FROM lower(period)), extract(epoch FROM upper(period)),
           ST_XMin(region), ST_YMin(region), ST_XMax(region), ST_YMax(region), subjects
    FROM dbanon.cloak WHERE run_id = %s"""


def run_of(url: str, environment: dict[str, str], place: Path, *, words: tuple[str, ...]) -> Path:
    """Run a method of dbanon, and write its rows as another program would."""
    ran = run_dbanon("run", *words, "--dataset", "cabs", "--json", environment=environment)
    with psycopg.connect(url) as connection:
        rows = connection.execute(CLOAKS, [json.loads(ran.printed)["run_id"]]).fetchall()
    return write_rectangles(place, rows)


def run_paper(url: str, place: Path, *, algorithm: str, k: int) -> Path:
    """Compute one of benchmarks/papers in memory."""
    with psycopg.connect(url) as connection, reading.open_reader(url) as reader:
        [dataset] = connection.execute("SELECT dataset_id FROM dbanon.dataset").fetchone() or ()
        data = reader.read_trajectories(dataset)
    family = METHODS["kte"]
    made = family.anonymise(data, algorithm, family.parse({"k": k}, "k-merge"), np.random.default_rng(SEED))
    columns = (made.record_id, made.start, made.end, *made.bounds.T, made.subjects)
    return write_rectangles(place, list(zip(*(column.tolist() for column in columns), strict=True)))


def write_rectangles(place: Path, rows: list[Any]) -> Path:
    write(place / "out.csv", rows, "id,since,until,xmin,ymin,xmax,ymax,subjects")
    return place / "out.csv"


# --- the attack


class Rows(NamedTuple):
    """What a file says: a record was in a rectangle for a time; a track's are points. By time."""

    record: np.ndarray
    people: np.ndarray
    since: np.ndarray
    until: np.ndarray
    bounds: np.ndarray

    @classmethod
    def from_told(cls, told: Tracks | Rectangles) -> "Rows":
        """Sort what a file says by time."""
        if isinstance(told, Tracks):
            bounds = np.column_stack([told.x, told.y, told.x, told.y])
            columns = (told.person, told.weight, told.t, told.t, bounds)
        else:
            columns = (told.record, told.subjects, told.since, told.until, told.bounds)
        order = np.argsort(columns[2], kind="stable")
        return cls(*(column[order] for column in columns))


def draw_cases(cabs: Tracks) -> list[np.ndarray]:
    """Draw four fixes of a cab within half an hour, in their order, and a later one, each as t, x and y."""
    draw, cases = np.random.default_rng(SEED), list[np.ndarray]()
    places = np.column_stack([cabs.t, cabs.x, cabs.y])
    ends = np.searchsorted(cabs.person, np.arange(cabs.person.max() + 2))
    while len(cases) < CASES:
        cab = draw.integers(len(ends) - 1)
        own = places[ends[cab] : ends[cab + 1]]
        half = own[own[:, 0] // (HOUR_S // 2) == own[draw.integers(len(own)), 0] // (HOUR_S // 2)]
        if len(half) < KNOWN_FIXES:
            continue
        known = half[np.sort(draw.choice(len(half), KNOWN_FIXES, replace=False))]
        wait = own[:, 0] - known[-1, 0]
        later = own[(wait >= LATER_S[0]) & (wait <= LATER_S[1])]
        if len(later):
            cases.append(np.vstack([known, later[draw.integers(len(later))]]))
    return cases


def measure_followed(rows: Rows | None, cases: list[np.ndarray]) -> float:
    """Return how often the reader's guess of the last place of a case is right; without rows it knows the others."""
    right = [None if rows is None else follow(rows, case) for case in cases]
    stays = [float(np.hypot(*(case[-1] - case[-2])[1:]) <= NEAR_M) for case in cases]
    return float(np.mean([stay if one is None else one for one, stay in zip(right, stays, strict=True)]))


def follow(rows: Rows, case: np.ndarray) -> float | None:
    longest = float((rows.until - rows.since).max())
    fitting: np.ndarray | None = None
    for t, x, y in case[:-1]:
        there = find_around(rows, t, longest)
        x0, y0, x1, y1 = rows.bounds[there].T
        away = np.hypot(np.maximum(np.maximum(x0 - x, x - x1), 0), np.maximum(np.maximum(y0 - y, y - y1), 0))
        near = rows.record[there[away <= NEAR_M]]
        fitting = np.unique(near) if fitting is None else np.intersect1d(fitting, near)
    t, x, y = case[-1]
    there = find_around(rows, t, longest)
    there = there[np.isin(rows.record[there], fitting)]
    if not len(there):
        return None
    away_s = np.maximum(np.maximum(rows.since[there] - t, t - rows.until[there]), 0)
    there = there[np.lexsort((away_s, rows.record[there]))]
    there = there[np.unique(rows.record[there], return_index=True)[1]]  # what each says nearest to that time
    steps = (np.arange(POINTS_PER_SIDE) + 0.5) / POINTS_PER_SIDE
    x0, y0, x1, y1 = rows.bounds[there, :, None].transpose(1, 0, 2)
    across, along = (x0 + steps * (x1 - x0) - x)[:, :, None], (y0 + steps * (y1 - y0) - y)[:, None, :]
    shares = (np.hypot(across, along) <= NEAR_M).mean(axis=(1, 2))
    return float(np.average(shares, weights=rows.people[there]))


def find_around(rows: Rows, t: float, longest: float) -> np.ndarray:
    """Find the rows that are true within 5 minutes of a time."""
    low, high = np.searchsorted(rows.since, [t - NEAR_S - longest, t + NEAR_S + 1e-6])
    index = np.arange(low, high)
    return index[rows.until[index] >= t - NEAR_S]


# --- measuring


def format_figures(figures: list[Figure], right: float, shown: Sequence[str]) -> str:
    values = {one.name: one.value for one in figures}
    return "".join(f"{math.nan if values[one] is None else values[one]:>12,.3g}" for one in shown) + f"{right:>12.0%}"


def describe_unicity(cabs: Tracks) -> str:
    """Say how many cabs one to six of their places and hours single out, which no file changes."""
    alone = measure_unicity(cabs, np.random.default_rng(SEED))
    return "alone with 1 to 6 places and hours: " + ", ".join(f"{one.value or 0:.0%}" for one in alone)


def measure(name: str, make: Callable[[Path], Path], judge: Callable[[Path], str]) -> None:
    """Make a file, evaluate and attack it; says why where that cannot be done."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        try:
            file = make(Path(directory))
        except (subprocess.CalledProcessError, OSError, ValueError, KeyError, psycopg.Error) as error:
            print(f"{name:<40} could not be run: {error}", flush=True)
            return
        print(f"{name:<40}{time.perf_counter() - began:>8.1f}{judge(file)}", flush=True)


def list_peers(
    asked: argparse.Namespace, rows: list[Fix], url: str, environment: dict[str, str]
) -> dict[str, Callable[[Path], Path]]:
    """Give what can be run, by name: a function that writes a file into a directory."""

    def run_by_hand(place: Path, step: float | None) -> Path:
        write(place / "out.csv", rows if step is None else round_places(rows, step))
        return place / "out.csv"

    peers: dict[str, Callable[[Path], Path]] = {
        "by hand, new names": partial(run_by_hand, step=None),
        "by hand, rounded to 100 m": partial(run_by_hand, step=0.001),
        "by hand, rounded to 1 km": partial(run_by_hand, step=0.01),
        "dbanon tp-aware, k 5, half hours": partial(
            run_of, url, environment, words=("tp-aware", "-p", "k=5", "-p", "instants=30", "-p", "step_s=60")
        ),
        "dbanon kte, k-merge, k 2, the day": partial(
            run_of, url, environment, words=("kte", "--algorithm", "k-merge", "-p", "k=2")
        ),
        "GLOVE of benchmarks/papers, k 2": partial(run_paper, url, algorithm="glove", k=2),
        "W4M of benchmarks/papers, k 2": partial(run_paper, url, algorithm="w4m", k=2),
    }
    if asked.privkit:
        for radius_m in (200.0, 1_000.0):
            noise = partial(run_planar_laplace, asked.privkit, rows, radius_m=radius_m)
            peers[f"privkit, planar Laplace, {radius_m:,.0f} m"] = noise
    if asked.mdl:
        swap = {"spatial_thold": 0.1, "temporal_thold": 60, "seed": SEED}
        peers["mdl-anonymizer, SwapMob"] = partial(run_mdl, asked.mdl_python, asked.mdl, rows, method="SwapMob", **swap)
        distance = {"name": "Martinez2021", "params": {"p_lambda": 0.0066}}
        micro = {
            "k": 5,
            "clustering_method": {"name": "SimpleMDAV", "params": {"trajectory_distance": distance}},
            "aggregation_method": {"name": "Mean_trajectory"},
        }
        grouped = partial(run_mdl, asked.mdl_python, asked.mdl, rows, method="Microaggregation", **micro)
        peers["mdl-anonymizer, microaggregation, k 5"] = grouped
    if asked.ldptrace:
        peers["LDPTrace, epsilon 1"] = partial(run_ldptrace, asked.ldptrace, rows)
    if asked.dpmr:
        peers["dp-mobility-report, epsilon 1"] = partial(run_mobility_report, asked.dpmr, rows)
    if asked.adatrace:
        peers["AdaTrace, epsilon 1"] = partial(run_adatrace, asked.adatrace, rows)
    if asked.arx:
        peers["ARX, k 5, half hours"] = partial(run_arx, asked.arx, rows)
    if asked.anon:
        peers["PostgreSQL Anonymizer, noise of 500 m"] = partial(run_anon, url, rows)
    return peers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for peer in ("privkit", "mdl", "mdl-python", "ldptrace", "adatrace", "dpmr"):
        options.add_argument(f"--{peer}", type=Path)
    options.add_argument("--arx")
    options.add_argument("--anon", action="store_true")
    options.add_argument("--only", default="", help="a regular expression that the names of those to run have")
    options.add_argument("--cabs", type=int, default=1_000)
    options.add_argument("--queries", type=int, default=400)
    options.add_argument("--figures", nargs="+", choices=FIGURES, default=SHOWN, metavar="FIGURE")
    asked = options.parse_args()
    rows = read_fixes(asked.cabs)
    print(f"{len(rows):,} fixes of {len({row.cab for row in rows}):,} cabs")
    heads = (figure.removesuffix("_m")[:11] for figure in (*asked.figures, "followed"))
    with run_private_server() as (own, directory):
        environment = {"DBANON_DSN": own.url}
        run_dbanon("db", "upgrade", environment=environment)
        write(directory / "cabs.csv", rows)
        load = ("load", "trajectories", str(directory / "cabs.csv"), "--dataset", "cabs", "--subject", "id")
        run_dbanon(*load, "--time", "time", "--x", "lon", "--y", "lat", environment=environment)
        with psycopg.connect(own.url) as connection:
            [srid] = connection.execute("SELECT srid FROM dbanon.dataset").fetchone() or ()
        cabs = files.read(directory / "cabs.csv", srid)
        assert isinstance(cabs, Tracks)
        print(describe_unicity(cabs))
        print(f"{'':<40}{'s':>8}" + "".join(f"{head:>12}" for head in heads))
        cases = draw_cases(cabs)
        stays = measure_followed(None, cases)
        print(f"{'nothing published':<{48 + 12 * len(asked.figures)}}{stays:>12.0%}", flush=True)

        def judge(file: Path) -> str:
            figures = evaluate_file(own.url, "cabs", file, queries=asked.queries)
            followed = measure_followed(Rows.from_told(files.read(file, srid)), cases)
            return format_figures(figures, followed, asked.figures)

        for name, make in list_peers(asked, rows, own.url, environment).items():
            if re.search(asked.only, name):
                measure(name, make, judge)


if __name__ == "__main__":
    main()

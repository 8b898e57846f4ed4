"""Other programs on the same taxis, with the same figures as dbanon's own runs: ``dbanon evaluate --file``.

    python benchmarks/peers.py [--privkit PYTHON] [--mdl DIR --mdl-python PYTHON] [--ldptrace DIR] [--adatrace DIR]

Nothing of these programs is here; each is measured where a path to it is given. The directories are clones of
MobiDataLab/mdl-anonymizer, zealscott/LDPTrace and git-disl/AdaTrace; the last needs Java. PYTHON is an interpreter that
has their packages: privkit (and open3d<0.19); scikit-mobility, haversine, typer, more-itertools, xgboost, pyarrow<18,
shapely<2 and numpy<2 for mdl-anonymizer.

The data are one day of San Francisco's taxis, one fix a minute of each cab at most. Two ways by hand are compared, too:
places rounded to 100 m, and to 1 km, both with new ids each hour. AdaTrace and LDPTrace read and write sequences of
places without times. They get the stretches of an hour, and what they write gets the times of these stretches, a fix a
minute, since counts need times; their figures of counts say no more than that.
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
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._measure import run_dbanon, run_private_server

CABS = Path(__file__).parents[2] / "shared" / "data" / "cabspotting" / "cabs_20080604.csv.gz"
DAY_S, HOUR_S, MINUTE_S = 86_400, 3_600, 60
MIDNIGHT = 1_212_562_800  # 2008-06-04 00:00 in San Francisco
BOX = (-122.52, 37.60, -122.35, 37.82)
DEGREE_M = 111_320.0
SEED = 2018
EPSILON = 1.0
FIGURES = ("count_error", "usable_resolution_m", "density_jsd", "trip_jsd", "length_jsd")
KNOWN, NEAR_M, NEAR_S = 4, 500.0, 300
"""What someone knows of a cab: so many of its fixes, so exactly."""


class Fix(NamedTuple):
    """A cab, seconds since 1970, degrees."""

    cab: str
    t: int
    lon: float
    lat: float


def read_fixes(cabs: int) -> list[Fix]:
    """Read the day: of each cab the first fix of each minute, inside of the city's box."""
    found = dict[tuple[str, int], Fix]()
    with gzip.open(CABS, "rt", newline="") as file:
        for row in csv.DictReader(file):
            fix = Fix(row["cab_id"], int(row["t"]), float(row["lon"]), float(row["lat"]))
            if int(fix.cab) < cabs and BOX[0] < fix.lon < BOX[2] and BOX[1] < fix.lat < BOX[3]:
                found.setdefault((fix.cab, fix.t // MINUTE_S), fix)
    return sorted(found.values())


def write(file: Path, rows: list[Fix], header: str = "id,time,lon,lat") -> None:
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


def cut_stretches(rows: list[Fix]) -> list[list[Fix]]:
    """Cut each cab's day into its hours; those of one fix are no sequence."""
    found = dict[tuple[str, int], list[Fix]]()
    for row in rows:
        found.setdefault((row.cab, row.t // HOUR_S), []).append(row)
    return [one for one in found.values() if len(one) > 1]


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


# --- measuring


def choose_known(rows: list[Fix]) -> list[list[Fix]]:
    """Choose what someone knows: 4 fixes within half an hour, of 200 half hours of cabs."""
    halves = dict[tuple[str, int], list[Fix]]()
    for row in rows:
        halves.setdefault((row.cab, row.t // (HOUR_S // 2)), []).append(row)
    draw = random.Random(SEED)
    parts = [part for part in halves.values() if len(part) >= KNOWN]
    return [draw.sample(part, KNOWN) for part in draw.sample(parts, min(200, len(parts)))]


def measure_singled_out(rows: list[Fix], file: Path) -> float:
    """Return for which share exactly one written track passes by the fixes that someone knows."""
    with file.open(newline="") as out:
        made = [(one["id"], float(one["time"]), float(one["lon"]), float(one["lat"])) for one in csv.DictReader(out)]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(name for name, *_ in made))}
    track = np.array([numbers[name] for name, *_ in made])
    t, lon, lat = np.array([one[1:] for one in made]).T
    left = []
    for part in (some := choose_known(rows)):
        passing = [set(numbers.values())]
        for fix in part:
            away = np.hypot((lon - fix.lon) * np.cos(np.radians(fix.lat)), lat - fix.lat) * DEGREE_M
            passing.append(set(track[(away <= NEAR_M) & (np.abs(t - fix.t) <= NEAR_S)].tolist()))
        left.append(len(set.intersection(*passing)))
    return left.count(1) / len(some)


CROWD = """
    SELECT coalesce(sum(f.crowd), 0) FROM (
        SELECT c.record_id, max(c.crowd) AS crowd, count(DISTINCT k.number) AS met
        FROM unnest(%s::float[], %s::float[], %s::float[]) WITH ORDINALITY k (t, lon, lat, number)
        JOIN dbanon.cloak c ON c.run_id = %s
            AND tstzrange(to_timestamp(k.t - %s), to_timestamp(k.t + %s), '[]') && c.period
            AND ST_DWithin(c.region, ST_Transform(ST_Point(k.lon, k.lat, 4326), ST_SRID(c.region)), %s)
        GROUP BY c.record_id) f
    WHERE f.met = %s"""


def measure_singled_out_of_run(rows: list[Fix], url: str, run: int) -> float:
    """Return for which share a run's records that fit the known fixes hold one person."""
    left = []
    with psycopg.connect(url) as connection:
        for part in (some := choose_known(rows)):
            places = [[fix.t for fix in part], [fix.lon for fix in part], [fix.lat for fix in part]]
            asked = [*places, run, NEAR_S, NEAR_S, NEAR_M, KNOWN]
            [(people,)] = connection.execute(CROWD, asked).fetchall()
            left.append(people)
    return left.count(1) / len(some)


def print_figures(name: str, seconds: float, text: str, alone: float) -> None:
    figures = {one["name"]: one["value"] for one in json.loads(text)["figures"]}
    values = "".join(f"{float(figures.get(figure, 'nan')):>12,.3g}" for figure in FIGURES)
    print(f"{name:<40}{seconds:>8.1f}{values}{alone:>12.0%}", flush=True)


def measure(
    name: str, rows: list[Fix], queries: int, make: Callable[[Path], Path], environment: dict[str, str]
) -> None:
    """Make a peer's file and evaluate it; says why where that cannot be done."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        try:
            file = make(Path(directory))
        except (subprocess.CalledProcessError, OSError, ValueError, KeyError) as error:
            print(f"{name:<34} could not be run: {error}", flush=True)
            return
        seconds = time.perf_counter() - began
        told = run_dbanon(
            "evaluate",
            "--file",
            str(file),
            "--dataset",
            "cabs",
            *list_question_options(queries),
            environment=environment,
        )
        print_figures(name, seconds, told.printed, measure_singled_out(rows, file))


def list_peers(asked: argparse.Namespace, rows: list[Fix]) -> dict[str, Callable[[Path], Path]]:
    """Give what can be run, by name: a function that writes a file into a directory."""

    def by_hand(place: Path, step: float) -> Path:
        write(place / "out.csv", round_places(rows, step))
        return place / "out.csv"

    found: dict[str, Callable[[Path], Path]] = {
        "by hand, rounded to 100 m": partial(by_hand, step=0.001),
        "by hand, rounded to 1 km": partial(by_hand, step=0.01),
    }
    if asked.privkit:
        for radius_m in (200.0, 1_000.0):
            noise = partial(run_planar_laplace, asked.privkit, rows, radius_m=radius_m)
            found[f"privkit, planar Laplace, {radius_m:,.0f} m"] = noise
    if asked.mdl:
        swap = {"spatial_thold": 0.1, "temporal_thold": 60, "seed": SEED}
        found["mdl-anonymizer, SwapMob"] = partial(run_mdl, asked.mdl_python, asked.mdl, rows, method="SwapMob", **swap)
        distance = {"name": "Martinez2021", "params": {"p_lambda": 0.0066}}
        micro = {
            "k": 5,
            "clustering_method": {"name": "SimpleMDAV", "params": {"trajectory_distance": distance}},
            "aggregation_method": {"name": "Mean_trajectory"},
        }
        grouped = partial(run_mdl, asked.mdl_python, asked.mdl, rows, method="Microaggregation", **micro)
        found["mdl-anonymizer, microaggregation, k 5"] = grouped
    if asked.ldptrace:
        found["LDPTrace, epsilon 1"] = partial(run_ldptrace, asked.ldptrace, rows)
    if asked.adatrace:
        found["AdaTrace, epsilon 1"] = partial(run_adatrace, asked.adatrace, rows)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for peer in ("privkit", "mdl", "mdl-python", "ldptrace", "adatrace"):
        options.add_argument(f"--{peer}", type=Path)
    options.add_argument("--cabs", type=int, default=1_000)
    options.add_argument("--queries", type=int, default=400)
    asked = options.parse_args()
    rows = read_fixes(asked.cabs)
    print(f"{len(rows):,} fixes of {len({row.cab for row in rows}):,} cabs")
    print(
        f"{'':<40}{'s':>8}" + "".join(f"{figure.removesuffix('_m')[:11]:>12}" for figure in (*FIGURES, "singled out"))
    )
    with run_private_server() as (own, directory):
        environment = {"DBANON_DSN": own.url}
        run_dbanon("db", "upgrade", environment=environment)
        write(directory / "cabs.csv", rows)
        load = ("load", "trajectories", str(directory / "cabs.csv"), "--dataset", "cabs", "--subject", "id")
        run_dbanon(*load, "--time", "time", "--x", "lon", "--y", "lat", environment=environment)
        for name, make in list_peers(asked, rows).items():
            measure(name, rows, asked.queries, make, environment)
        for words in (
            ("tp-aware", "-p", "k=5", "-p", "instants=30", "-p", "step_s=60"),
            ("kte", "--algorithm", "k-merge", "-p", "k=2"),
        ):
            ran = run_dbanon("run", *words, "--dataset", "cabs", "--json", environment=environment)
            run = json.loads(ran.printed)["run_id"]
            told = run_dbanon("evaluate", str(run), *list_question_options(asked.queries), environment=environment)
            print_figures(
                f"dbanon {' '.join(words)}", ran.seconds, told.printed, measure_singled_out_of_run(rows, own.url, run)
            )


def list_question_options(queries: int) -> list[str]:
    return ["--queries", str(queries), "--against", "all", "--json"]


if __name__ == "__main__":
    main()

"""kte-hide on phone records and taxis: what it costs from table to release, how coarse it is, what `improve` adds.

Phone records are those of ``dbanon synth --calls-per-day`` for a day of the streets of San Francisco, about one an hour
and person as in the paper; taxis are snapped to the nearest cell tower and a minute, each cab-day a subject. k = 2 and
tau = leak = 30 min unless another is named.

``python benchmarks/kte_hide.py [PEOPLE] [PART...]``; 10,000 people and all parts by default. The parts:
way: an embedded server of its own, a table imported, a run, its attack, its release.
improve: `improve` on and off, of a tenth of the people and of the taxis.
pairs: costs of all pairs against those of near ones, of a tenth of the people.
tau: figures 6 and 8 of the paper (granularity and suppression against tau), and 9 (by the hour of the day).

Space is the sum of the spans of a generalised sample in km, and time its length in minutes; `improve` is on.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyproj import Transformer
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks._data import CITY, NETWORK
from benchmarks._measure import run_dbanon
from benchmarks.table2 import GRID_M, GRID_S, TAXIS, read_base_stations
from dbanon.base.trajectory import Trajectories
from dbanon.database import open_database
from dbanon.methods import METHODS
from dbanon.methods.kte import _samples
from dbanon.methods.kte._hide import REASONS, Hidden, _clusters, _draw, hide
from dbanon.methods.kte._samples import Samples
from dbanon.postgres import server
from dbanon.runs.reading import open_reader

SEED = 2017
DAY_OPTIONS = {"instants": 1440, "start": "2026-01-05T00:00:00Z", "whole_share": 1.0, "requests_per_subject": 0}
CALLS_PER_DAY = 30
ZONE = "America/Los_Angeles"
WEDNESDAY = "2008-06-04"
PARTS = "way", "improve", "pairs", "tau"
TAU_MIN = 10, 20, 30, 60, 120, 240
QUARTERS = 0.25, 0.5, 0.75


@contextmanager
def run_own_server() -> Iterator[None]:
    """Use an embedded server in a directory that is removed at the end."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the server's user has to find its way through
        os.environ["DBANON_HOME"] = str(Path(place) / "server")
        try:
            yield
        finally:
            server.EmbeddedServer().stop()


# ---- data ------------------------------------------------------------------------------------------------------------


def make_phones(people: int) -> Trajectories:
    """Generate a day of phone records; leave them in the table ``public.calls`` too."""
    with open_database() as database:
        database.synth("made", objects=people, calls_per_day=CALLS_PER_DAY, seed=SEED, **DAY_OPTIONS, **NETWORK)
        database.connection.execute("DROP TABLE IF EXISTS public.calls")
        database.connection.execute(
            "CREATE TABLE public.calls AS SELECT subject, t, position FROM dbanon.fix JOIN dbanon.dataset d "
            "USING (dataset_id) WHERE d.name = 'made'"
        )
    data = read("made")
    with open_database() as database:
        database.connection.execute("DELETE FROM dbanon.dataset WHERE name = 'made'")
    return data


def load_taxis() -> Trajectories:
    """Load a day of taxis, each fix at its nearest tower, and what a cab does there in a minute once."""
    table = pq.read_table(TAXIS, columns=["cab_id", "t", "lon", "lat"])
    local = pc.assume_timezone(pc.strptime(pa.array([WEDNESDAY]), "%Y-%m-%d", "s"), ZONE)
    midnight = local.cast(pa.int64())[0].as_py()
    cab, t, lon, lat = (table[name].to_numpy() for name in ("cab_id", "t", "lon", "lat"))
    degrees, metres = read_base_stations()
    inside = (t >= midnight) & (t < midnight + 86_400)
    for values, axis in ((lon, 0), (lat, 1)):
        inside &= (values >= degrees[:, axis].min()) & (values <= degrees[:, axis].max())
    there = Transformer.from_crs(4326, 32610, always_xy=True).transform(lon[inside], lat[inside])
    tower = cKDTree(metres).query(np.column_stack(there))[1]
    once = np.unique(np.column_stack([cab[inside], t[inside] // GRID_S * GRID_S, tower]), axis=0)
    snapped = {"subject": once[:, 0], "time": once[:, 1], "x": degrees[once[:, 2], 0], "y": degrees[once[:, 2], 1]}
    with tempfile.TemporaryDirectory() as place, open_database() as database:
        file = Path(place) / "snapped.parquet"
        pq.write_table(pa.table(snapped), file)
        database.load_trajectories([file], dataset="taxis", tz=ZONE, subject_per_day=True)
    return read("taxis")


def read(dataset: str) -> Trajectories:
    with open_database() as database, open_reader(database.target.url) as reader:
        query = "SELECT dataset_id FROM dbanon.dataset WHERE name = %s"
        return reader.read_trajectories(database.connection.execute(query, [dataset]).fetchone()[0])


# ---- from table to release -------------------------------------------------------------------------------------------


def run_whole_way() -> None:
    """Import the table, hide, attack and publish: each command a process of its own."""
    print(f"{'':<8}{'seconds':>9}{'its CPU':>9}{'client MB':>11}{'server MB':>11}")
    columns = ("--subject", "subject", "--time", "t", "--geom", "position")
    imported = run_dbanon("import", "public.calls", "--dataset", "phones", "--grid-s", str(GRID_S), *columns)
    ran = run_dbanon("run", "kte", "--dataset", "phones", "--publish", "phones_day", "--json")
    for name, cost in (("import", imported), ("run", ran)):
        print(f"{name:<8}{cost.seconds:>9.1f}{cost.cpu_s:>9.1f}{cost.client_mb:>11.0f}{cost.server_mb:>11.0f}")
    told = json.loads(ran.printed.splitlines()[0])
    print(f"status {told['status']}; " + ", ".join(f"{name} {spent:.1f}" for name, spent in told["timings"].items()))
    metrics = told["metrics"]
    print(f"{metrics['records']:,} records, {metrics['rows']:,} rows, {metrics['suppressed_percent']:.2f} % left out\n")


# ---- what is published -----------------------------------------------------------------------------------------------


def hide_samples(samples: Samples, **given: object) -> tuple[Hidden, str, str]:
    """Hide all; give what came out, what it took, and its figures."""
    params = METHODS["kte"].parse(given, "kte-hide")
    rank = np.random.default_rng(SEED).permutation(int(samples.subject.max()) + 1)
    began, used = time.perf_counter(), time.process_time()
    hidden = hide(samples, params, rank, np.random.default_rng(SEED))
    spent = f"{time.perf_counter() - began:>8.1f}{time.process_time() - used:>8.1f}"
    return hidden, spent, _format_figures(hidden, samples)


SPENT = f"{'s':>8}{'CPU s':>8}"
HEADS = "".join(f"{f'{unit} {name}':>9}" for unit in ("km", "min") for name in ("mean", "25 %", "50 %", "75 %"))
HEADS += "".join(f"{name:>11}" for name in (*REASONS, "out %"))


def _format_figures(hidden: Hidden, samples: Samples) -> str:
    number = hidden.run_end - hidden.run_begin
    out = [100 * number[hidden.reason == reason].sum() / number.sum() for reason in range(len(REASONS))]
    figures = [
        value for values in measure_spans(hidden, samples) for value in (values.mean(), *np.quantile(values, QUARTERS))
    ]
    cells = [f"{value:>9.2f}" for value in figures[:4]] + [f"{value:>9.1f}" for value in figures[4:]]
    return "".join(cells) + "".join(f"{share:>11.2f}" for share in (*out, sum(out)))


def measure_spans(hidden: Hidden, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Kilometres and minutes of each generalised sample."""
    merged, box = hidden.merged, hidden.merged.box
    km = (box[:, 2] - box[:, 0] + box[:, 3] - box[:, 1] + 2) * samples.grid_m / 1000
    return km, (merged.last - merged.first + 1) * samples.grid_s / 60


def print_by_tau(name: str, samples: Samples) -> None:
    """Print figures 6 and 8: granularity and suppression against tau."""
    print(f"\n{name}, tau = leak\n{'tau min':>7}{SPENT}{HEADS}")
    for tau in TAU_MIN:
        hidden, spent, figures = hide_samples(samples, tau_s=60 * tau, leak_s=60 * tau)
        print(f"{tau:>7}{spent}{figures}", flush=True)
        if tau == 30:
            day = format_by_hour(hidden, samples)
    print(f"\n{name}, tau = leak = 30 min, by the hour (UTC) of every second one\n{day}", flush=True)


def format_by_hour(hidden: Hidden, samples: Samples) -> str:
    """Figure 9: mean spans of the rows that begin in each hour of the day, and its samples left out."""
    row_hour, hour = hidden.merged.first * samples.grid_s // 3600 % 24, samples.slot * samples.grid_s // 3600 % 24
    out = np.repeat(~hidden.kept, hidden.run_end - hidden.run_begin)
    means = [_average_by_hour(row_hour, values) for values in measure_spans(hidden, samples)] + [
        _average_by_hour(hour, 100.0 * out)
    ]
    lines = [f"{'hour':<9}" + "".join(f"{at:>7}" for at in range(0, 24, 2))]
    lines += [f"{'samples':<9}" + "".join(f"{count:>7}" for count in np.bincount(hour, minlength=24)[::2])]
    for name, values in zip(("mean km", "mean min", "out %"), means, strict=True):
        lines.append(f"{name:<9}" + "".join(f"{value:>7.2f}" for value in values[::2]))
    return "\n".join(lines)


def _average_by_hour(hour: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.bincount(hour, values, minlength=24) / np.maximum(1, np.bincount(hour, minlength=24))


def print_improvement(name: str, samples: Samples) -> None:
    """Print what `improve` adds."""
    print(f"\n{name}\n{'k':>3} {'improve':<8}{SPENT}{HEADS}{'cost':>9}")
    for k in (2, 5):
        for improve in (False, True):
            print(f"{k:>3} {'on' if improve else 'off':<8}{_format_line(samples, k=k, improve=improve)}", flush=True)


def _format_line(samples: Samples, **given: object) -> str:
    """Seconds, figures, and the paper's cost, slots times cells, of a published sample."""
    hidden, spent, figures = hide_samples(samples, **given)
    box, merged = hidden.merged.box, hidden.merged
    cost = (merged.last - merged.first + 1) * (box[:, 2:] - box[:, :2] + 1).sum(axis=1)
    return f"{spent}{figures}{cost.sum() / (hidden.run_end - hidden.run_begin)[hidden.kept].sum():>9.1f}"


def print_pairs_missed(name: str, samples: Samples) -> None:
    """Print what hiding by the costs of all pairs differs from that by those of near ones."""
    print(f"\n{name}\n{'costs of':<34}{SPENT}{HEADS}{'cost':>9}")
    usual = _clusters.MAX_ALL_PAIRS_SUBJECTS, _draw.MAX_PART_PEOPLE
    for what, all_pairs, part, improve in (
        ("all pairs, the paper's way", 10**9, 10**9, False), ("candidates, the paper's way", 0, usual[1], False),
        ("all pairs, improve", 10**9, 10**9, True), ("candidates, parts of 100, improve", 0, 100, True),
    ):  # fmt: skip
        _clusters.MAX_ALL_PAIRS_SUBJECTS, _draw.MAX_PART_PEOPLE = all_pairs, part
        print(f"{what:<34}{_format_line(samples, improve=improve)}", flush=True)
    _clusters.MAX_ALL_PAIRS_SUBJECTS, _draw.MAX_PART_PEOPLE = usual


def main(people: int, parts: list[str]) -> None:
    shown = f"{people:,} people of {CITY} for a day"
    with run_own_server():
        few, many = (_samples.snap_fixes(make_phones(number), GRID_S, GRID_M) for number in (people // 10, people))
        print(f"{shown}, {len(many.slot):,} samples; of a tenth as many {len(few.slot):,}", flush=True)
        if "way" in parts:
            run_whole_way()
        cabs = _samples.snap_fixes(load_taxis(), GRID_S, GRID_M)
        print(f"taxis: {len(cabs.subject):,} subjects, {len(cabs.slot):,} samples", flush=True)
    hide_samples(few, k=3)  # compiles
    if "improve" in parts:
        print_improvement(f"{people // 10:,} people", few)
        print_improvement("taxis of a day", cabs)
    if "pairs" in parts:
        print_pairs_missed(f"{people // 10:,} people", few)
    if "tau" in parts:
        print_by_tau("taxis of a day", cabs)
        print_by_tau(shown, many)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(next(filter(str.isdigit, words), 10_000)), [word for word in words if not word.isdigit()] or list(PARTS))

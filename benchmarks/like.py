"""How like a release the people of ``dbanon synth --like`` are: steps, speeds and density, beside the truth.

Run with ``./dev bench benchmarks/like.py [K]``; in memory, from the taxis beside the repository: 2008-06-04 in San
Francisco, by `tp-aware` in half hours, k = 5. Each table has the truth (positions of the people published), what is
drawn, and what is drawn with another relative place for each person at each instant. Steps are from one minute to the
next. The density is that of all instants of the day, or of each hour by itself, in squares; the release's own has each
row's people spread evenly. The total variation of two densities is the share of people in the wrong square.
"""

import sys
import time
from pathlib import Path

import geopandas
import numpy as np
import shapely
from pyproj import Transformer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import senders
from benchmarks._pickups import SRID
from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Float, Int, Trajectories
from dbanon.methods.kernels import align
from dbanon.synth._like import Drawing

STEP_S, MAX_GAP_S = 60, 300
SEEDS, SUBSQUARES = 3, 8  # SUBSQUARES: each region is cut into so many parts by so many
Fixes = tuple[Int, Int, Float]  # person, unix seconds, metres
Places = tuple[Int, Float, Float]  # unix seconds, metres, people


def make_frame(cloaks: Cloaks) -> geopandas.GeoDataFrame:
    """What a reader has of the rows."""
    columns = {
        "record_id": cloaks.record_id,
        "seq": np.arange(cloaks.rows),
        "crowd": cloaks.crowd,
        "subjects": cloaks.subjects,
        "valid_from": cloaks.start.astype("datetime64[s]"),
        "valid_to": cloaks.end.astype("datetime64[s]"),
    }
    frame = geopandas.GeoDataFrame(columns, geometry=shapely.box(*cloaks.bounds.T), crs=SRID)
    presence = float(cloaks.metrics["guest_presence"])
    frame.attrs = {"release": "taxis", "holds": "instant", "step_s": STEP_S, "guest_presence": presence, "srid": SRID}
    return frame


def find_truth(data: Trajectories, cloaks: Cloaks) -> Fixes:
    """Where the members of each record are at its instants; a member of two records is two people."""
    first, last = int(cloaks.start.min()), int(cloaks.end.max())
    instants = align.Instants(first, STEP_S, (last - first) // STEP_S, align.LAST, MAX_GAP_S)
    places = align.compute_positions(align.merge(data), instants, np.arange(len(data.subject), dtype=np.int32))
    # A guest that comes and goes is a member several times.
    record, member = np.unique(np.column_stack([cloaks.member_record - 1, cloaks.member_trajectory]), axis=0).T
    length = np.diff(cloaks.offset)[record]
    person = np.repeat(np.arange(len(record)), length)
    row = np.arange(len(person)) - np.repeat(np.cumsum(length) - length, length) + cloaks.offset[record][person]
    t, cab = cloaks.start[row], member[person]
    at = np.column_stack([one[cab, (t - first) // STEP_S] for one in places])
    seen = ~np.isnan(at[:, 0])
    return person[seen], t[seen], at[seen]


def draw(drawing: Drawing, seed: int) -> Fixes:
    parts = list(drawing.draw_fixes(seed, 1_000_000))
    person, t, degrees = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return person, t, np.column_stack(Transformer.from_crs(4326, SRID, always_xy=True).transform(*degrees.T))


def draw_each_instant(cloaks: Cloaks, seed: int) -> Fixes:
    """Draw another place for each person at each instant."""
    row = np.repeat(np.arange(cloaks.rows), cloaks.subjects)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(cloaks.subjects) - cloaks.subjects, cloaks.subjects)
    low, high = cloaks.bounds[row, :2], cloaks.bounds[row, 2:]
    at = low + np.random.default_rng(seed).random((len(row), 2)) * (high - low)
    person, t = cloaks.record_id[row] * 1_000_000 + nth, cloaks.start[row]
    order = np.lexsort((t, person))
    return person[order], t[order], at[order]


def describe_steps(fixes: Fixes) -> str:
    person, t, at = fixes
    after = (np.diff(person) == 0) & (np.diff(t) == STEP_S)
    step = np.hypot(*np.diff(at, axis=0)[after].T)
    shown = "".join(f"{value:>8,.0f}" for value in np.percentile(step, [10, 50, 90, 99]))
    return f"{shown}{100 * np.mean(step > 130 / 3.6 * STEP_S):>12.1f}"


def measure_variation(one: Places, other: Places, side_m: int, span_s: int) -> float:
    """Half the sum of differences of two densities in squares of so many metres and spans of so many seconds."""
    cells = np.vstack([np.column_stack([t // span_s, at // side_m]).astype(np.int64) for t, at, _ in (one, other)])
    cells -= cells.min(axis=0)
    code = np.unique(np.ravel_multi_index(tuple(cells.T), tuple(cells.max(axis=0) + 1)), return_inverse=True)[1]
    share = np.concatenate([weight / weight.sum() for *_, weight in (one, other)])
    share[len(one[0]) :] *= -1
    return float(np.abs(np.bincount(code, share)).sum()) / 2


def spread(cloaks: Cloaks) -> Places:
    """Cut each row's region into parts, with people in the middle of each."""
    middle = (np.indices((SUBSQUARES, SUBSQUARES)).reshape(2, -1).T + 0.5) / SUBSQUARES
    low, high = cloaks.bounds[:, None, :2], cloaks.bounds[:, None, 2:]
    guests = np.maximum(cloaks.subjects - cloaks.crowd, 0)
    people = cloaks.subjects - guests * (1 - cloaks.metrics["guest_presence"])
    parts = len(middle)
    return np.repeat(cloaks.start, parts), (low + middle * (high - low)).reshape(-1, 2), np.repeat(people, parts)


def main() -> None:
    if not senders.CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    k = int(sys.argv[1]) if sys.argv[1:] else 5
    senders.BEGIN_S, senders.END_S = 1212562800, 1212562800 + 24 * 3600
    data, code = senders.read_taxis()
    cloaks = senders.run(data, senders.read_sent(code), k=k)
    drawing, began = Drawing(make_frame(cloaks)), time.perf_counter()
    drawn = [draw(drawing, seed) for seed in range(SEEDS)]
    seconds = (time.perf_counter() - began) / SEEDS
    truth, anew = find_truth(data, cloaks), draw_each_instant(cloaks, 0)
    print(f"k = {k}: {cloaks.rows:,} rows, {len(truth[1]):,} positions of published people", end="")
    print(f", {len(drawn[0][1]):,} drawn in {seconds:.1f} s")
    print(f"{'metres a minute':<24}{'10 %':>8}{'50 %':>8}{'90 %':>8}{'99 %':>8}{'> 130 km/h %':>13}")
    for name, fixes in (("truth", truth), ("drawn", drawn[0]), ("drawn at each instant", anew)):
        print(f"{name:<24}{describe_steps(fixes)}")
    evenly, true = spread(cloaks), (*truth[1:], np.ones(len(truth[1])))
    print(f"\n{'total variation':<24}{'side m':>8}{'release, drawn':>16}{'truth, drawn':>14}{'truth, release':>16}")
    for span_s, name in ((86_400_000, "of a day"), (3600, "of hours")):
        for side_m in (1000, 2000):
            each = [(t, at, np.ones(len(t))) for _, t, at in drawn]
            off = [np.mean([measure_variation(one, two, side_m, span_s) for two in each]) for one in (evenly, true)]
            off.append(measure_variation(true, evenly, side_m, span_s))
            print(f"{name:<24}{side_m:>8,}{off[0]:>16.2f}{off[1]:>14.2f}{off[2]:>16.2f}", flush=True)


if __name__ == "__main__":
    main()

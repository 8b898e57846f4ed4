"""Samples for tests of `kte` from lists of (slot, x, y), one a subject."""

import numpy as np

from dbanon.methods.kte._samples import Samples

GRID = (60, 100.0)


def make_samples(tracks, grid=GRID, subject=None):
    """Tracks as Samples; codes of the subjects as given, ascending."""
    tracks = [sorted(set(track)) for track in tracks]
    table = np.array([sample for track in tracks for sample in track], np.int64).reshape(-1, 3)
    return Samples(
        subject=np.arange(len(tracks)) if subject is None else np.array(subject),
        offset=np.cumsum([0, *map(len, tracks)]), slot=table[:, 0].copy(), x=table[:, 1].astype(np.int32),
        y=table[:, 2].astype(np.int32),
        grid_s=grid[0], grid_m=grid[1],
    )  # fmt: skip


def list_rows(merged, record):
    """Rows of a record: (first, last, x0, y0, x1, y1)."""
    part = slice(merged.offset[record], merged.offset[record + 1])
    return [
        (int(first), int(last), *map(int, box))
        for first, last, box in zip(merged.first[part], merged.last[part], merged.box[part], strict=True)
    ]


def walk(rng, most, slots=300, side=60, step=8):
    """A random track: bursts, gaps, and several cells in a slot."""
    x, y, track = rng.randrange(side), rng.randrange(side), []
    for _ in range(rng.randint(1, most)):
        x, y = x + rng.randint(-step, step), y + rng.randint(-step, step)
        track.append((rng.randrange(slots) if rng.random() < 0.8 or not track else track[-1][0], x, y))
    return track

"""Small random inputs for the kernels of `kte`, and samples made of plain lists."""

import numpy as np

from dbanon.methods.kte._samples import Samples


def make_samples(subjects, grid_s=60, grid_m=100.0):
    """Samples of subjects 0, 1, ... from lists of (slot, x, y)."""
    rows = np.array([(i, *row) for i, rows in enumerate(subjects) for row in sorted(set(rows))], np.int64)
    rows = rows.reshape(-1, 4)
    number = np.bincount(rows[:, 0], minlength=len(subjects))
    return Samples(
        subject=np.arange(len(subjects)), offset=np.concatenate([[0], np.cumsum(number)]), slot=rows[:, 1].copy(),
        x=rows[:, 2].astype(np.int32), y=rows[:, 3].astype(np.int32), grid_s=grid_s, grid_m=grid_m,
    )  # fmt: skip


def draw_inputs(rng, k, slots, most, side):
    """K inputs of up to `most` samples in `slots` slots: many ties where these are few."""
    return [
        sorted({(rng.randrange(slots), rng.randrange(side), rng.randrange(side)) for _ in range(rng.randint(1, most))})
        for _ in range(k)
    ]


def draw_inputs_in_runs(rng, k, slots, longest, moving):
    """K inputs that are silent while another has many samples in a row; each runs on with some probability."""
    inputs, at, t = [[] for _ in range(k)], [[0, 0] for _ in range(k)], 0
    for one in inputs:
        one.append((t, 0, 0))
        t += 1
    while t < slots:
        who, moves = rng.randrange(k), rng.random() < moving
        for _ in range(rng.choice([1, 2, longest, rng.randint(1, longest)])):
            if moves:
                at[who] = [at[who][0] + rng.randint(-1, 2), at[who][1] + rng.randint(-2, 1)]
            inputs[who].append((t, *at[who]))
            t += rng.choice([1, 1, 1, 5])
    return inputs


def draw_neighbours(rng, subjects, mean, side=200, slots=300):
    """Subjects who move about a place of their own: those of near places are cheap to merge."""
    made = []
    for _ in range(subjects):
        x, y = rng.randrange(side), rng.randrange(side)
        number = max(1, int(rng.expovariate(1 / mean)))
        made.append([(rng.randrange(slots), x + rng.randint(-5, 5), y + rng.randint(-5, 5)) for _ in range(number)])
    return made

"""People who walk from one random place to the next, and what a second device or name of one of them holds."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dbanon.base.trajectory import Trajectories

START_S, STEP_S, SIDE_M = 1_212_566_400, 60, 4000.0
ORIGIN = np.array([550_000.0, 4_180_000.0])  # San Francisco, UTM zone 10


class Walk(NamedTuple):
    """Where one person is: unix seconds, metres."""

    t: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def keep(self, kept: object) -> "Walk":
        """Keep some fixes."""
        return Walk(*(column[kept] for column in self))

    def move(self, t: object = 0, x: object = 0, y: object = 0) -> "Walk":
        """Shift it."""
        return Walk(self.t + t, self.x + x, self.y + y)


def draw_walk(rng: np.random.Generator, fixes: int = 120) -> Walk:
    """Draw a way at 1 to 1.8 m/s through random places, recorded every minute."""
    t, places, times = STEP_S * np.arange(float(fixes)), [rng.uniform(0, SIDE_M, 2)], [0.0]
    while times[-1] < t[-1]:
        places.append(rng.uniform(0, SIDE_M, 2))
        times.append(times[-1] + float(np.hypot(*(places[-1] - places[-2]))) / rng.uniform(1, 1.8))
    x, y = (np.interp(t, times, along) for along in np.array(places).T)
    return Walk(START_S + t, ORIGIN[0] + x, ORIGIN[1] + y)


def _blur(by_m: float) -> Callable[[np.random.Generator, Walk], Walk]:
    return lambda rng, walk: walk.move(x=rng.normal(0, by_m, len(walk.x)), y=rng.normal(0, by_m, len(walk.x)))


def _round(to_m: float) -> Callable[[np.random.Generator, Walk], Walk]:
    return lambda _, walk: Walk(walk.t, np.round(walk.x / to_m) * to_m, np.round(walk.y / to_m) * to_m)


def _lose(share: float) -> Callable[[np.random.Generator, Walk], Walk]:
    return lambda rng, walk: walk.keep(rng.random(len(walk.t)) >= share)


COPIES: Mapping[str, Callable[[np.random.Generator, Walk], Walk]] = {
    "the very same": lambda _, walk: walk,
    "noise of 0.1 m": _blur(0.1),
    "noise of 0.3 m": _blur(0.3),
    "noise of 3 m": _blur(3),
    "noise of 30 m": _blur(30),
    "0.6 m to the east": lambda _, walk: walk.move(x=0.6),
    "rounded to 10 m": _round(10),
    "rounded to 100 m": _round(100),
    "degrees with 5 decimals": lambda _, walk: Walk(walk.t, *_round_degrees(walk.x, walk.y)),
    "1 s later": lambda _, walk: walk.move(t=1),
    "30 s later": lambda _, walk: walk.move(t=30),
    "every second fix, from the first": lambda _, walk: walk.keep(slice(0, None, 2)),
    "every second fix, from the second": lambda _, walk: walk.keep(slice(1, None, 2)),
    "every fourth fix missing": lambda _, walk: walk.keep(np.arange(len(walk.t)) % 4 != 3),
    "every fifth fix": lambda _, walk: walk.keep(slice(0, None, 5)),
    "15 % lost at random": _lose(0.15),
    "30 % lost at random": _lose(0.3),
    "1 h later": lambda _, walk: walk.move(t=3600),
}
"""What a second name holds of a person's fixes."""
UNSEEN = ("1 h later",)
"""Copies that groups do not bring together, so that no verification can see them."""


def _round_degrees(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from pyproj import Transformer

    there, back = (Transformer.from_crs(*pair, always_xy=True) for pair in ((32610, 4326), (4326, 32610)))
    lon, lat = there.transform(x, y)
    return tuple(back.transform(np.round(lon, 5), np.round(lat, 5)))


def copy_walks(rng: np.random.Generator, walks: Sequence[Walk], kind: str) -> list[Walk]:
    """Give each of some people a second name."""
    return [*walks, *(COPIES[kind](rng, walk) for walk in walks)]


def make_trajectories(walks: Sequence[Walk], grid_m: float = 0.1) -> Trajectories:
    """Make a trajectory of each; its number is that of its subject."""
    number = np.arange(len(walks))
    t, x, y = (np.concatenate(column) for column in zip(*walks, strict=True))
    return Trajectories(
        trajectory_id=number, subject=number, offset=np.cumsum([0, *(len(walk.t) for walk in walks)]), t=t, x=x, y=y,
        srid=32610, grid_m=grid_m, grid_s=1,
    )  # fmt: skip


def list_rows(walks: Sequence[Walk]) -> list[str]:
    """Write them as rows subject,time,x,y: people in the order of a sorted list."""
    return [
        f"w{number:04},{t:.0f},{x:.3f},{y:.3f}"
        for number, walk in enumerate(walks)
        for t, x, y in zip(*walk, strict=True)
    ]

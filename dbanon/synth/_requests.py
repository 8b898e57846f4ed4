"""What moving objects ask for: requests for points of interest, by the district their sender is in.

Districts are laid over any network: a centre in its middle, a station, a hospital and a university around it, and
suburbs for the rest. Like journeys, requests depend on nothing but the seed and the number of their sender.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dbanon.synth._journeys import Fixes, Float, Int, hash_uniform
from dbanon.synth._network import Network

POI_CATEGORIES = ("restaurant", "pharmacy", "supermarket", "fuel", "parking", "cinema", "school", "bank")

DISTRICTS = {
    "centre": (30, 10, 5, 1, 25, 12, 2, 15),
    "station": (20, 8, 12, 5, 35, 5, 5, 10),
    "hospital": (10, 45, 15, 5, 15, 1, 4, 5),
    "university": (25, 8, 20, 3, 8, 14, 20, 2),
    "suburb": (8, 10, 35, 25, 2, 3, 15, 2),
}
"""How often each of `POI_CATEGORIES` is asked for in each district, in percent; the last is what is in no other."""

RARE_POIS = ("falconry shop", "harpsichord tuner", "fencing coach")
"""Each is asked for once: a value that only one subject ever uses identifies by itself, and a demo should show it."""

POIS = POI_CATEGORIES + RARE_POIS

_DISTRICT_MIDDLES = ((0.0, 0.0), (-0.55, -0.35), (0.55, -0.35), (0.0, 0.65))
_DISTRICT_RADII = (0.35, 0.3, 0.3, 0.3)
_RARE, _COUNT, _FIX, _SECOND, _CHOICE = range(2**62, 2**62 + 5)  # no object has such a number


@dataclass(frozen=True, eq=False)
class Districts:
    """Where the districts of a network are, in its bounding box from -1 to 1 each way."""

    extent: tuple[float, float, float, float]  # middle and half sides of the bounding box, metres
    places: Float  # [districts - 1, 2]: their middles, each at a node; the suburbs have none

    @classmethod
    def from_network(cls, network: Network) -> Self:
        """Lay districts over a network."""
        at = _scale_positions(network.extent, network.x, network.y)
        nearest = [int(np.argmin(((at - place) ** 2).sum(axis=1))) for place in np.array(_DISTRICT_MIDDLES)]
        return cls(network.extent, at[nearest])

    def find_district(self, x: Float, y: Float) -> Int:
        """Index into `DISTRICTS` of the district of each position."""
        away = self._measure_distances(x, y) / np.array(_DISTRICT_RADII)
        nearest = np.argmin(away, axis=1)
        inside = away[np.arange(len(away)), nearest] < 1
        return np.where(inside, nearest, len(_DISTRICT_RADII)).astype(np.int64)

    def compute_attraction(self, x: Float, y: Float) -> Float:
        """Chance of each node to be a destination: high in the middle and in the places around it, low at the rim."""
        away = self._measure_distances(x, y)
        weight = 0.1 + np.exp(-2 * away[:, 0] ** 2) + 0.5 * (away[:, 1:] < np.array(_DISTRICT_RADII[1:])).any(axis=1)
        return np.asarray(weight / weight.sum(), dtype=np.float64)

    def _measure_distances(self, x: Float, y: Float) -> Float:
        offset = _scale_positions(self.extent, x, y)[:, None] - self.places
        return np.hypot(offset[..., 0], offset[..., 1])


def _scale_positions(extent: tuple[float, float, float, float], x: Float, y: Float) -> Float:
    middle_x, middle_y, half_x, half_y = extent
    return np.column_stack([(x - middle_x) / half_x, (y - middle_y) / half_y])


@dataclass(frozen=True, eq=False)
class Sent:
    """Requests: the number of the sender, unix seconds, and an index into `POIS`; by sender."""

    number: Int
    t: Int
    poi: Int


def draw_requests(fixes: Fixes, districts: Districts, seed: int, *, step_s: int, mean: float) -> Sent:
    """Let objects ask for points of interest.

    Parameters
    ----------
    step_s : int
        A request is sent at a whole second less than `step_s` after one of its sender's fixes.
    mean : float
        Mean number of requests of an object.
    """
    count = draw_poisson(hash_uniform(seed, np.full(len(fixes.number), _COUNT), fixes.number), mean)
    row = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    at, t = _draw_moments(fixes, seed, row, nth, step_s)
    district = districts.find_district(fixes.xym[at, 0], fixes.xym[at, 1])
    share = np.array(list(DISTRICTS.values()), dtype=np.float64)[district]
    return Sent(fixes.number[row], t, choose_by_share(share, _draw_uniform(seed, _CHOICE, fixes.number[row], nth)))


def find_rare_requests(fixes: Fixes, seed: int, *, step_s: int, objects: int) -> Sent:
    """Find those of the few who ask for one of `RARE_POIS` that are among these objects.

    `objects`: all that there will be, numbered from 0.
    """
    nth = np.arange(len(RARE_POIS))
    sender = (hash_uniform(seed, np.full(len(nth), _RARE), nth) * objects).astype(np.int64)
    row = np.searchsorted(fixes.number, sender)
    here = (row < len(fixes.number)) & (fixes.number[np.minimum(row, len(fixes.number) - 1)] == sender)
    _, t = _draw_moments(fixes, seed, row[here], _RARE + nth[here], step_s)
    return Sent(sender[here], t, len(POI_CATEGORIES) + nth[here])


def _draw_moments(fixes: Fixes, seed: int, row: Int, nth: Int, step_s: int) -> tuple[Int, Int]:
    """Draw a fix of the object in each row, and a second in the step after it; returns the fix and the time."""
    number = fixes.number[row]
    length = np.diff(fixes.offset)[row]
    at = fixes.offset[row] + (_draw_uniform(seed, _FIX, number, nth) * length).astype(np.int64)
    later = (_draw_uniform(seed, _SECOND, number, nth) * step_s).astype(np.int64)
    return at, fixes.xym[at, 2].astype(np.int64) + later


def _draw_uniform(seed: int, purpose: int, number: Int, nth: Int) -> Float:
    return hash_uniform(seed, np.full(len(number), purpose), number, nth)


def draw_poisson(uniform: Float, mean: float) -> Int:
    """Turn uniform numbers into Poisson ones by inversion."""
    if mean == 0:
        return np.zeros(len(uniform), dtype=np.int64)
    k = np.arange(int(mean + 12 * np.sqrt(mean) + 30))
    below = np.cumsum(np.exp(k * np.log(mean) - mean - gammaln(k + 1)))
    return np.searchsorted(below, uniform, side="right").astype(np.int64)


def choose_by_share(share: Float, uniform: Float) -> NDArray[np.int64]:
    """Turn uniform numbers into indices, each by the shares in its row."""
    reach = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)
    # The last bound may fall short of 1 by rounding; what is above the others is the last category.
    return np.asarray((uniform[:, None] >= reach[:, :-1]).sum(axis=1), dtype=np.int64)

"""Lays out the places of a city: points of interest by district, and base stations where streets and people are dense.

Like journeys, places depend on nothing but the network, the seed and how many there are to be: never on the objects.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dbanon.synth._journeys import Float, Int
from dbanon.synth._network import Network
from dbanon.synth._requests import DISTRICTS, POI_CATEGORIES, Districts, choose_by_share

CATEGORIES = (*POI_CATEGORIES, "clinic")

CLINICS_PER_100 = (1, 1, 12, 1, 1)
"""How many there are in each of `DISTRICTS` for a hundred of the places that are asked for there."""

STREET_M = 25.0
"""About how far from the middle of its street a place may stand."""

_CLOSEST_M = 0.025  # centimetres still tell such places apart, in degrees, too
_DRAWING_ROUNDS = 50
_SQUARES_PER_PLACE = 16  # fewer would fill up where places are dense
_POIS, _STATIONS = 2, 3  # the network is drawn with the seed alone, destinations with 1


@dataclass(frozen=True, eq=False)
class Places:
    """Points of interest and base stations of a network; fewer than asked for where there is no room for them."""

    pois: Float  # [p, 2]
    category: Int  # [p]: index into `CATEGORIES`
    stations: Float  # [s, 2]

    @classmethod
    def from_network(cls, network: Network, districts: Districts, seed: int, *, pois: int, stations: int) -> Self:
        """Lay out the places of a network."""
        rng, for_stations = (np.random.default_rng([seed, purpose]) for purpose in (_POIS, _STATIONS))
        at = _draw_beside_streets(network, districts, pois, rng)
        share = np.column_stack([list(DISTRICTS.values()), CLINICS_PER_100]).astype(np.float64)
        category = choose_by_share(share[districts.find_district(at[:, 0], at[:, 1])], rng.random(len(at)))
        return cls(at, category, _draw_beside_streets(network, districts, stations, for_stations))


def _draw_beside_streets(network: Network, districts: Districts, count: int, rng: np.random.Generator) -> Float:
    """Draw places beside the streets of a network, more where it draws more people, each in a square of its own."""
    ends = np.stack([np.column_stack([network.x, network.y])[end] for end in (network.edge_from, network.edge_to)])
    middle = ends.mean(axis=0)
    reach = np.cumsum(districts.compute_attraction(middle[:, 0], middle[:, 1]) * network.length_m)
    low, high = np.reshape(network.bounds, (2, 2))
    # Many more squares than places: by the area, and by the length of the streets, which may leave most of it empty.
    squares = max(count, 1) * _SQUARES_PER_PLACE
    side = max(min(np.sqrt(np.prod(high - low + 1) / squares), network.length_m.sum() / squares), 2 * _CLOSEST_M)
    drawn = np.empty((0, 2))
    for _ in range(_DRAWING_ROUNDS if count else 0):
        edge = np.searchsorted(reach, rng.random(count) * reach[-1], side="right").clip(0, len(reach) - 1)
        along, aside = rng.random((count, 1)), rng.uniform(-STREET_M, STREET_M, (count, 2)) / np.sqrt(2)
        drawn_now = ends[0, edge] + along * (ends[1, edge] - ends[0, edge]) + aside
        drawn = np.concatenate([drawn, (drawn_now.clip(low, high) - low) / side])
        # The first in each square stays, moved to its inner half: two places are at least half a side apart.
        _, first = np.unique(np.floor(drawn) @ [1, 1j], return_index=True)
        drawn = drawn[np.sort(first)][:count]
        if len(drawn) == count:
            break
    square = np.floor(drawn)
    return np.asarray((low + (square + 0.25 + (drawn - square) / 2) * side).clip(low, high), dtype=np.float64)

"""Checks what a user asks the generator for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from dbanon.base.errors import ParameterError
from dbanon.synth import _network
from dbanon.synth._quasi_identifiers import KINDS

MORNING_S = 1_767_600_000
"""2026-01-05 08:00 UTC."""

MOST_INSTANTS = 1_000_000

_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be generated.

    Attributes
    ----------
    objects : int
        How many; each is one subject with one trajectory.
    instants, step_s : int
        Positions are recorded at ``start_s + i * step_s`` for i < instants.
    start_s : int
        Unix seconds.
    seed : int
        Same plan and seed: same rows.
    whole_share : float
        Share of the objects that are there from the first instant to the last.
    requests_per_subject : float
        Mean number of requests; 0 for none.
    calls_per_day : float, optional
        Phone records instead of all positions: the mean number of calls and messages a day, each at a tower.
    quasi_identifiers : str, optional
        At which instants an adversary may know each object, by how objects are linked: one of
        `dbanon.synth._quasi_identifiers.KINDS`.
    quasi_identifier_size, quasi_identifier_overlap : int
        Most such instants of an object, and how many of them linked objects share.
    pois, stations : int
        Numbers of points of interest, by district, and of base stations; 0 for none.
    destinations : int
        How many destinations are drawn.
    blocks : int
        Size of the built-in city, which is used unless `nodes` and `edges` are given.
    nodes, edges : Path, optional
        Files of another network; see `dbanon.synth._network.read`.
    srid, lon, lat
        Where a network is; see `dbanon.synth._network.read`.
    limits_kmh : mapping, optional
        Highest speed by class of edge.
    """

    objects: int = 1000
    instants: int = 30
    step_s: int = 60
    start_s: int = MORNING_S
    seed: int = 1
    whole_share: float = 0.8
    requests_per_subject: float = 2.0
    calls_per_day: float | None = None
    quasi_identifiers: str | None = None
    quasi_identifier_size: int = 10
    quasi_identifier_overlap: int = 1
    pois: int = 0
    stations: int = 0
    destinations: int = 1000
    blocks: int = 16
    nodes: Path | None = None
    edges: Path | None = None
    srid: int | None = None
    lon: float | None = None
    lat: float | None = None
    limits_kmh: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        _check_whole("objects", self.objects, 1, 2**31)
        _check_whole("instants", self.instants, 1, MOST_INSTANTS)
        _check_whole("step-s", self.step_s, 1, 10**9)
        _check_whole("seed", self.seed, 0, 2**63 - 1)
        _check_whole("destinations", self.destinations, 1, 100_000)
        _check_number("whole-share", self.whole_share, 1)
        _check_number("requests-per-subject", self.requests_per_subject, 1000)
        if self.calls_per_day is not None:
            _check_number("calls-per-day", self.calls_per_day, 10_000)
        if self.quasi_identifiers not in (None, *KINDS):
            raise ParameterError(
                f"--quasi-identifiers must be one of {', '.join(KINDS)}. Got {self.quasi_identifiers!r} instead."
            )
        if self.quasi_identifiers is not None and self.calls_per_day is not None:
            raise ParameterError(
                "Quasi-identifiers must be of objects whose positions are all recorded. Got --quasi-identifiers with "
                "--calls-per-day; leave one out."
            )
        _check_whole("quasi-identifier-size", self.quasi_identifier_size, 1, 10_000)
        _check_whole(
            "quasi-identifier-overlap", self.quasi_identifier_overlap, 0, max(1, self.quasi_identifier_size // 2)
        )
        _check_whole("pois", self.pois, 0, 1_000_000)
        _check_whole("stations", self.stations, 0, 100_000)
        if not _FIRST_S <= self.start_s <= self.start_s + self.instants * self.step_s <= _LAST_S:
            raise ParameterError(
                "All instants must lie in the years 1 to 9999. Got others; change --start or --step-s."
            )
        if (self.nodes is None) != (self.edges is None):
            raise ParameterError("A network must be given as two files. Got one; give both --nodes and --edges.")
        if self.nodes is None and (self.srid is not None or self.limits_kmh is not None):
            raise ParameterError(
                "Only a network from files may have --srid or --limits. Got one for the built-in city; leave it out, "
                "and place the city with --lon and --lat."
            )

    def network(self) -> _network.Network:
        """Read the network, or make the built-in city."""
        if self.nodes is None or self.edges is None:
            return _network.city(np.random.default_rng(self.seed), self.blocks, lon=self.lon, lat=self.lat)
        return _network.read(
            self.nodes, self.edges, srid=self.srid, lon=self.lon, lat=self.lat, limits_kmh=self.limits_kmh
        )

    def source(self, network: _network.Network, first: int) -> str:
        """Describe what rows were generated from, so that they can be generated again."""
        fields = {
            "seed": self.seed, "network": network.name, "objects": self.objects, "first": first,
            "instants": self.instants, "step_s": self.step_s, "start_s": self.start_s,
            "whole_share": self.whole_share, "destinations": self.destinations,
            "requests_per_subject": self.requests_per_subject,
        }  # fmt: skip
        if self.nodes is None:
            fields["blocks"] = self.blocks
        if self.quasi_identifiers is not None:
            fields["quasi_identifiers"] = self.quasi_identifiers
            fields["quasi_identifier_size"] = self.quasi_identifier_size
            fields["quasi_identifier_overlap"] = self.quasi_identifier_overlap
        place = {
            "calls_per_day": self.calls_per_day,
            "pois": self.pois or None,
            "stations": self.stations or None,
            "srid": self.srid,
            "lon": self.lon,
            "lat": self.lat,
            "limits_kmh": self.limits_kmh,
        }
        fields.update({name: value for name, value in place.items() if value is not None})
        return "synth " + ", ".join(f"{name}={value}" for name, value in fields.items())


def start_seconds(start: str | int) -> int:
    """Read a start: unix seconds, or ISO 8601 with a zone."""
    text = str(start)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"The start must be unix seconds or a time such as 2026-01-05T08:00:00Z. Got {text!r} instead."
        ) from None
    if moment.tzinfo is None:
        raise ParameterError(f"The start must name its zone. Got {text!r}; write a Z behind it for UTC.")
    return math.floor(moment.timestamp())


def limits_kmh(text: str) -> dict[int, float]:
    """Read speed limits by class of edge: ``0=110,1=80``."""
    try:
        pairs = [pair.split("=") for pair in text.split(",")]
        found = {int(name): float(value) for name, value in pairs}
    except ValueError:
        found = {}
    if not found or not all(math.isfinite(kmh) and kmh >= _network.SLOWEST_KMH for kmh in found.values()):
        raise ParameterError(f"Limits must be km/h (1 or more) by class, such as 0=110,1=80. Got {text!r} instead.")
    return found


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ParameterError(f"--{name} must be a whole number from {low} to {high:,}. Got {value} instead.")


def _check_number(name: str, value: float, high: float) -> None:
    if not 0 <= value <= high:
        raise ParameterError(f"--{name} must be a number from 0 to {high:g}. Got {value} instead.")

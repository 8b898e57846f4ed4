"""Places whose people are published by every family, for the functions of analysts: a town, taxis of San Francisco."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.acceptance.commands import call, demand_done

SRID = 32610


@dataclass(frozen=True)
class Place:
    """A dataset and its runs, each by the name of its release.

    `write` makes the files of `load`, in the coordinate system `crs`: trips, pois and stations, and all or none of
    requests (a column other than subject and time is one of theirs: `content`), known (quasi-identifiers) and sites.
    """

    name: str
    crs: int
    content: str
    write: Callable[[Path], None]
    corner: np.ndarray  # the lower left one of where most people are, in metres
    side_m: float
    runs: dict[str, tuple[str, ...]]
    day_zone: str | None = None  # at whose midnights subjects are cut into days
    parts: tuple[tuple[int, int], ...] = ()  # since and until of a run each, of which the releases grow

    def load(self, url: str, folder: Path) -> None:
        self.write(folder)
        place = ("--dataset", self.name, "--crs", f"EPSG:{self.crs}")
        trips = [f"{folder}/trips.csv", *place, "--srid", str(SRID), "--drop-outliers"]
        days = ("--subject-per-day", "--tz", self.day_zone) if self.day_zone else ()
        demand_done(call(url, "load", "trajectories", *trips, *days))
        if (folder / "known.csv").is_file():
            asked = ("--dataset", self.name, "--columns", self.content)
            demand_done(call(url, "load", "requests", f"{folder}/requests.csv", *asked))
            demand_done(call(url, "load", "quasi-identifiers", f"{folder}/known.csv", "--dataset", self.name))
            demand_done(call(url, "load", "sites", f"{folder}/sites.csv", *place, "--name", "name"))
        demand_done(call(url, "load", "pois", f"{folder}/pois.csv", *place, "--category", "category"))
        demand_done(call(url, "load", "stations", f"{folder}/stations.csv", *place))

    def publish_all(self, url: str) -> None:
        """Publish all runs in one database, beside one another; the first is run 1."""
        for name in self.runs:
            for number, part in zip(self.numbers(name), self.parts or [None], strict=True):
                self.publish(url, name, number, part)

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the runs of a release."""
        each = len(self.parts) or 1
        first = list(self.runs).index(name) * each + 1
        return list(range(first, first + each))

    def publish(self, url: str, name: str, number: int = 1, part: tuple[int, int] | None = None) -> None:
        """Run one of `runs`, which becomes the run of that number, and publish it under its name."""
        family, *options = self.runs[name]
        grow = ()
        if part:
            options = [option.format(middle=(part[0] + part[1]) // 2) for option in options]
            options += ["-p", f"since={part[0]}", "-p", f"until={part[1]}"]
            grow = ("--grow",)
        demand_done(call(url, "run", family, "--dataset", self.name, "--seed", "7", *options))
        why = ("--allow-overlap", "--reason", "a comparison of answers")
        demand_done(call(url, "publish", str(number), name, *why, *grow))

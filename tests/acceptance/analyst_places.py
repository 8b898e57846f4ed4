"""Places whose people are published by every family, for the functions of analysts: a town, taxis of San Francisco."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.acceptance.commands import Done, call

SRID = 32610


@dataclass(frozen=True)
class Place:
    """A dataset and its runs, each by the name of its release.

    `write` makes the files of `load`, in the coordinate system `crs`: trips, requests (a column other than subject and
    time is one of theirs: `content`), known (quasi-identifiers), sites, pois and stations.
    """

    name: str
    crs: int
    content: str
    write: Callable[[Path], None]
    corner: np.ndarray  # the lower left one of where most people are, in metres
    side_m: float
    runs: dict[str, tuple[str, ...]]

    def load(self, url: str, folder: Path) -> None:
        self.write(folder)
        place = ("--dataset", self.name, "--crs", f"EPSG:{self.crs}")
        done(call(url, "load", "trajectories", f"{folder}/trips.csv", *place, "--srid", str(SRID), "--drop-outliers"))
        asked = ("--dataset", self.name, "--columns", self.content)
        done(call(url, "load", "requests", f"{folder}/requests.csv", *asked))
        done(call(url, "load", "quasi-identifiers", f"{folder}/known.csv", "--dataset", self.name))
        done(call(url, "load", "sites", f"{folder}/sites.csv", *place, "--name", "name"))
        done(call(url, "load", "pois", f"{folder}/pois.csv", *place, "--category", "category"))
        done(call(url, "load", "stations", f"{folder}/stations.csv", *place))

    def publish_all(self, url: str) -> None:
        """Run each of `runs` (the first is run 1) and publish it under its name, beside the others."""
        for number, (name, (family, *options)) in enumerate(self.runs.items(), 1):
            done(call(url, "run", family, "--dataset", self.name, "--seed", "7", *options))
            why = ("--allow-overlap", "--reason", "a comparison of answers")
            done(call(url, "publish", str(number), name, *why))


def done(told: Done) -> Done:
    assert told.code == 0, told.stderr
    return told

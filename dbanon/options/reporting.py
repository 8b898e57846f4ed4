"""What pages can be asked for: for whom, in which zone, and where they are written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from dbanon.base.errors import ParameterError
from dbanon.options import Option


def _parse_path(text: str) -> Path:
    return Path(text)


@dataclass(frozen=True, kw_only=True)
class Showing:
    """How pages look."""

    tz: Annotated[str, Option("The time zone in which times are shown.", metavar="ZONE")] = "UTC"


@dataclass(frozen=True, kw_only=True)
class Writing(Showing):
    """How pages look, and where they are written."""

    output: Annotated[
        Path | None,
        Option(
            "The file to write or replace.",
            name="-o",
            metavar="FILE.html",
            typed=str | None,
            parse=_parse_path,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reporting(Writing):
    """For whom a page about a release or a run is."""

    audience: Annotated[
        Literal["file", "analysts"],
        Option(
            "For a privacy officer's file, or for analysts, from the view alone.",
            name="--for",
            choices=("file", "analysts"),
        ),
    ] = "file"
    with_truth: Annotated[
        bool, Option("Show true positions next to published ones: private, for operators of the dataset.")
    ] = False
    streets: Annotated[str | None, Option("A table of lines to draw under the maps.", metavar="TABLE")] = None

    def demand_compatible(self) -> None:
        """Raise `ParameterError` for what cannot be asked together."""
        if self.with_truth and self.audience != "file":
            raise ParameterError("A page for analysts must not show the truth. Got both. Leave out --with-truth.")

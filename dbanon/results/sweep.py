"""The result of a sweep: settings of one method on one dataset, each with its figures or the reason it has none.

`dbanon.database.Database.sweep` makes it, `dbanon.evaluation.settings` judges it, and `dbanon.pages.sweep` draws it.
"""

import csv
import importlib
import io
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dbanon.base import extras
from dbanon.results.command import format_run_command, quote_option
from dbanon.results.figures import ASKED_WORDS, Asked, Evaluation, Figure

SIDE_M = 2000.0
"""Settings are compared by counts in squares of this side, unless their questions name another."""

Outcome = Literal["verified", "refused", "impossible"]


@dataclass(frozen=True, kw_only=True)
class Want:
    """A figure that must be at least, or at most, so much."""

    name: str
    is_minimum: bool
    value: float

    def __str__(self) -> str:
        return f"{self.name}{'>=' if self.is_minimum else '<='}{self.value:g}"

    def is_met(self, value: float | None) -> bool:
        """Whether a value meets it; an unknown value meets no want."""
        if value is None or math.isnan(value):
            return False
        return value >= self.value if self.is_minimum else value <= self.value


@dataclass(frozen=True, kw_only=True, eq=False)
class Minute:
    """The rows of a setting at one moment, some of them as SVG paths in a window; never kept with its figures."""

    at: float
    window: tuple[float, float, float, float]
    rows: int
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """One combination of values.

    Attributes
    ----------
    params : mapping
        All parameters that the run was given.
    varied : mapping
        Those parameters of the run for which the sweep tries several values.
    promise : mapping
        Parameters on which the promise depends, with their defaults. Two settings that differ in one of them promise
        different things.
    strength : tuple of float
        Orders promises, with the greatest the strongest. See `dbanon.evaluation.settings.compute_strength`.
    outcome : {"verified", "refused", "impossible"}
        "refused" by the attack; or "impossible", for example with fewer than k people.
    reason : str or None
        The reason it is refused or impossible.
    evaluation : Evaluation or None
        Its figures, if its rows were verified.
    run : mapping
        Facts about its run: ``rows``, ``metrics``, ``suppressed``, ``seen`` (all people and times), ``seconds``,
        ``peak_rss_mb``, ``overlap`` with earlier releases, and ``replicates``, from which differences are computed.
    run_id : int or None
        Its run, if that was kept.
    is_earlier : bool
        Whether an earlier sweep measured it.
    minute : Minute or None
        Its rows at a moment that all settings have in common, if they were computed in this call.
    side_m : float
        Side of the squares whose counts are compared.
    is_on_front, meets, chosen : bool
        See `dbanon.evaluation.settings.judge`.
    """

    params: Mapping[str, Any]
    varied: Mapping[str, Any]
    promise: Mapping[str, Any]
    outcome: Outcome
    strength: tuple[float, ...] = ()
    reason: str | None = None
    evaluation: Evaluation | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    run_id: int | None = None
    is_earlier: bool = False
    minute: Minute | None = None
    side_m: float = SIDE_M
    is_on_front: bool = False
    meets: bool = False
    chosen: bool = False

    @property
    def name(self) -> str:
        """For people: ``k 5, instants 10``."""
        return ", ".join(f"{name} {value}" for name, value in self.varied.items()) or "as given"

    @property
    def share(self) -> float | None:
        """The share of people and times that is published."""
        return self.find_value("published_share")

    @property
    def error(self) -> Figure | None:
        """The error of counts in squares of `side_m`: at a moment, or over ten minutes if there are no moments."""
        for asked in ASKED_WORDS:
            figure = self.find_figure("count_error", side_m=self.side_m, asked=asked)
            if figure is not None and figure.value is not None:
                return figure
        return None

    @property
    def publishable(self) -> bool | None:
        """Whether earlier releases let it be published; None if that was not measured, as for a sample."""
        overlap = self.run.get("overlap")
        return None if self.outcome != "verified" or overlap is None else not overlap.get("below", 0)

    @property
    def limits(self) -> dict[str, float]:
        """The share of people and times that each reason leaves out, the greatest first."""
        left, seen = self.run.get("suppressed", {}).get("subjects") or {}, self.run.get("seen")
        shares = {reason: n / seen for reason, n in left.items() if n} if seen else {}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def find_figure(self, name: str, *, side_m: float | None = None, asked: Asked | None = None) -> Figure | None:
        """Look a figure up; None if it was not measured."""
        return self.evaluation.find_figure(name, side_m=side_m, asked=asked) if self.evaluation is not None else None

    def find_value(self, name: str) -> float | None:
        """Look a figure up by its name, or by that of a column of `Sweep.rows`, or among the run's own."""
        figure = self.figures.get(name)
        if figure is None and name == "count_error":
            figure = self.error
        if figure is None:
            moments = [one for one in self._list_figures() if one.name == name and one.side_m in (None, self.side_m)]
            figure = moments[0] if moments else None
        if figure is not None:
            return figure.value
        known = self.run.get("metrics", {}).get(name, self.run.get(name))
        return float(known) if isinstance(known, int | float) and not isinstance(known, bool) else None

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by the names of their columns: ``count_error_2000_moment``."""
        return {name_column(one): one for one in self._list_figures()}

    def _list_figures(self) -> tuple[Figure, ...]:
        return self.evaluation.figures if self.evaluation is not None else ()


def find_lines(settings: Iterable[Setting], name: str) -> list[list[Setting]]:
    """Group the settings that differ in one parameter alone, in the order of its values; groups of one are left out."""
    lines: dict[tuple[Any, ...], list[Setting]] = {}
    for one in settings:
        lines.setdefault(tuple((n, v) for n, v in one.varied.items() if n != name), []).append(one)
    return [sorted(line, key=lambda one: _make_sort_key(one.varied[name])) for line in lines.values() if len(line) > 1]


def _make_sort_key(value: Any) -> tuple[bool, Any]:
    """Sort numbers before texts."""
    return (False, value) if isinstance(value, int | float) else (True, str(value))


def name_column(figure: Figure) -> str:
    """Name the column of a figure: its name, the side of its squares, and whether it is about moments."""
    side = f"{figure.side_m:g}" if figure.side_m is not None else None
    return "_".join(part for part in (figure.name, side, figure.asked) if part)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """Settings of one method and algorithm on one dataset, all asked the same questions.

    Attributes
    ----------
    people : int
        Number of people that the settings were computed on.
    sample : int or None
        Number of people that were drawn at random, or None for all people.
    wants : tuple of Want
    settings : tuple of Setting
        In the order of the values given.
    sentences : tuple of str
        Two sentences on the effect of each parameter.
    notes : tuple of str
        Notes for a reader of the figures.
    hides : str
        The promise of the method in one sentence.
    """

    dataset: str
    method: str
    algorithm: str
    people: int
    sample: int | None
    queries: int
    seed: int
    wants: tuple[Want, ...]
    settings: tuple[Setting, ...]
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hides: str = ""

    @property
    def squares(self) -> str:
        """Words for the squares whose counts are compared."""
        side = self.settings[0].side_m if self.settings else SIDE_M
        return f"squares of {side / 1000:g} km" if side >= 1000 else f"squares of {side:g} m"

    @property
    def when(self) -> str:
        """Words for the times at which settings are compared."""
        kinds = [one.error.asked for one in self.settings if one.error is not None]
        return ASKED_WORDS[(kinds and kinds[0]) or "moment"]

    @property
    def chosen(self) -> Setting | None:
        """The chosen setting, if one meets all wants and can be published."""
        return next((one for one in self.settings if one.chosen), None)

    def write_command(self, setting: Setting, name: str = "NAME") -> str:
        """Write the command that computes a setting again and publishes it: the same groups, and the same figures."""
        return format_run_command(self.method, self.dataset, self.algorithm, setting.params, name)

    def write_sweep_command(self, file: str = "sweep.html") -> str:
        """Write the command that makes the sweep again."""
        values: dict[str, list[str]] = {}
        for setting in self.settings:
            for key, value in setting.params.items():
                if quote_option(value) not in values.setdefault(key, []):
                    values[key].append(quote_option(value))
        words = [f"dbanon sweep {self.method} --dataset {shlex.quote(self.dataset)} --algorithm {self.algorithm}"]
        words += ["-p " + shlex.quote(f"{key}={','.join(several)}") for key, several in values.items()]
        words += [f"--sample {self.sample}"] * (self.sample is not None)
        words += [f"--want '{want}'" for want in self.wants]
        return " ".join([*words, f"--queries {self.queries} --seed {self.seed} -o {file}"])

    def rows(self) -> list[dict[str, Any]]:
        """Make one row a setting: its values, outcome, figures with their intervals, facts about its run, and marks."""
        columns: dict[str, bool] = {}  # whether any setting has an interval there
        for one in self.settings:
            for name, figure in one.figures.items():
                columns[name] = columns.get(name, False) or figure.low is not None
        return [dict(_make_row(one, columns)) for one in self.settings]

    def frame(self) -> Any:
        """Make a frame of pandas of `rows`.

        Raises `DbanonError` if the part ``dbanon[files]`` is missing.
        """
        extras.demand("files")
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(self.rows())

    def csv(self) -> str:
        """Write `rows` as CSV."""
        rows = self.rows()
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _make_row(setting: Setting, columns: Mapping[str, bool]) -> Iterator[tuple[str, Any]]:
    yield from setting.params.items()
    yield from (("outcome", setting.outcome), ("reason", setting.reason))
    for name, ranged in columns.items():
        figure = setting.figures.get(name)
        yield name, figure.value if figure else None
        if ranged:
            yield f"{name}_low", figure.low if figure else None
            yield f"{name}_high", figure.high if figure else None
    for name in ("rows", "seconds", "peak_rss_mb"):
        yield name, setting.run.get(name)
    overlap = setting.run.get("overlap") or {}
    yield from (("overlap", overlap.get("relation")), ("publishable", setting.publishable), ("run_id", setting.run_id))
    yield from (("measured_earlier", setting.is_earlier), ("front", setting.is_on_front))
    yield from (("meets", setting.meets), ("chosen", setting.chosen))

"""The registry of method families and the contract they keep.

A family is one package: a frozen, keyword-only class `Parameters` made with `declare_parameter`; its entry `METHOD`; a
function ``anonymise(data, params, rng, *, algorithm, **inputs) -> Cloaks``; where there is something to compile,
``prepare(params, *, algorithm)``; and where it joins inputs to finished cloaks,
``attach(cloaks, data, params, **inputs)``. A family whose work falls into parts that need nothing of one another
`distributes` them: its ``anonymise`` takes `tasks` as well, and other processes may do them.
Validation, error sentences, help, the SQL listing and the docs are all made from the fields of `Parameters`; what core
Python and SQL ask of a family is in `METHOD`, so that nothing else names it. Same data, parameters and seed: same
cloaks.

A family's package is imported when it is first asked for, and its numerical modules when it first computes: listing
methods does not wait for Numba.
"""

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.errors import DataError, ParameterError, choose_one
from dbanon.base.extras import needs
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import parsing


def declare_parameter(
    default: Any,
    help: str,
    *,
    type: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    algorithms: tuple[str, ...] = (),
    multiple_of: str | None = None,
    infinite: bool = False,
    promises: Literal["more", "less", "other"] | None = None,
) -> Any:
    """Describe one parameter of a method, once.

    Parameters
    ----------
    default : object
        Its default; ``None`` means "derived from the data", and the help ends with how: ``Default: l.``
    help : str
        One sentence for a reader who has not read the paper.
    type : {"integer", "number", "choice", "switch", "instant", "name"}
        An instant is given as ISO 8601 with a zone or as unix seconds, and held as unix seconds. A name is that of a
        set or category of the data.
    unit : str
        "s", "m", "" for counts.
    minimum, maximum : float, optional
        Inclusive limits.
    choices : tuple of str
        For ``type="choice"``.
    algorithms : tuple of str
        With which algorithms it may be given; empty: with all.
    multiple_of : str, optional
        The integer parameter of which this one must be a multiple, with the algorithms that use it, where both are
        given.
    infinite : bool
        Whether a number may be infinite: the text ``inf``, as which it is stored.
    promises : {"more", "less", "other"} or None
        What people in the data are promised with a greater value; "other" where values are not ordered, None where it
        changes nothing. The weightiest parameters come first.
    """
    described = {"help": help, "type": type, "unit": unit, "minimum": minimum, "maximum": maximum, "choices": choices}
    return dataclasses.field(
        default=default,
        metadata={
            **described,
            "algorithms": algorithms,
            "multiple_of": multiple_of,
            "infinite": infinite,
            "promises": promises,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Column:
    """A method's own column of its published views, filled from ``extra -> name``."""

    name: str
    sql_type: str
    default: str
    comment: str


CLOAKED = Column(
    name="cloaked",
    sql_type="boolean",
    default="false",
    comment="True if the region hides several people, false if it is the place of one person.",
)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One way to compute a family, with its promise, or one of its own as `guarantee`.

    `window` names the parameter with the seconds of a window, at multiples of which since 1970 records end; None where
    it has none, or the family has its own `Method.window`.

    Releases of one that `stands_alone` are not intersected with others: their hiding sets overlap, or they promise more
    than k. No other release may speak of their people at the same time.

    With the stored parameters `tight`, each region is the least rectangle around its crowd, and a surface says where in
    it people are likely; None if it never is.
    """

    name: str
    summary: str
    guarantee: str = ""
    stands_alone: bool = False
    tight: Mapping[str, Any] | None = field(default_factory=dict)
    window: str | None = None


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What a dataset must have (of people: two), so that a family promises anything, and what the family `hides`.

    With the stored parameters `unless`, it promises something without. `without` is what a run, its release and its
    page say if none is published.
    """

    input: Literal["requests", "sites", "quasi_identifiers", "pois", "people"]
    hides: str
    unless: Mapping[str, Any] = field(default_factory=dict)
    without: str = ""


def declare_since(window: str | None = None) -> Any:
    """Make the field `since` of a parameter class; every family has one, None by default, a multiple of `window`."""
    of = f"grid_s and of {window}" if window else "grid_s"
    help = f"First time considered, ISO 8601 with a zone or unix seconds, a multiple of {of}. Default: no limit."
    return declare_parameter(None, help, type="instant", multiple_of=window)


def declare_until(window: str | None = None) -> Any:
    """Make the field `until` of a parameter class; every family has one, None by default, a multiple of `window`."""
    of = f"grid_s and of {window}" if window else "grid_s"
    help = f"Time before which all rows end, a multiple of {of}. Later data are not considered. Default: no limit."
    return declare_parameter(None, help, type="instant", multiple_of=window)


def declare_step_s() -> Any:
    """Make the field `step_s` of a family whose rows are about instants; such a family has the three below, too."""
    help = "Time between two instants, a multiple of grid_s."
    return declare_parameter(60, help, type="integer", unit="s", minimum=1, maximum=604_800)


def declare_start() -> Any:
    """Make the field `start` of a family with `step_s`: the first instant, None for one that follows from the data."""
    help = (
        "First instant, ISO 8601 with a zone or unix seconds, a multiple of grid_s. Without it: since, otherwise the "
        "data's first time, with align=last plus max_gap_s, rounded up to step_s. Default: from the data."
    )
    return declare_parameter(None, help, type="instant")


def declare_align() -> Any:
    """Make the field `align` of a family with `step_s`: how `kernels.align` finds a position at an instant."""
    help = (
        "Position of a person at an instant: the last fix, a fix of exactly that instant, or between the two nearest."
    )
    return declare_parameter("last", help, type="choice", choices=("last", "exact", "linear"))


def declare_max_gap_s() -> Any:
    """Make the field `max_gap_s` of a family with `step_s`: how old a position may be, in seconds."""
    help = "Oldest fix that still counts as a person's position (last), or widest gap to interpolate (linear)."
    return declare_parameter(300, help, type="integer", unit="s", minimum=0, maximum=604_800)


@dataclass(frozen=True, kw_only=True)
class Method:
    """One family: where its code is, what it promises, who attacks it, and what core functions ask of it.

    `row_meaning`, `adversary` and `left_out` are what its releases say to people who have not read the paper: what one
    row is, against whom the promise holds, and who is not in it.
    """

    name: str
    module: str  # the family's package
    summary: str
    guarantee: str
    adversary: str
    row_meaning: str
    left_out: str
    attack: str  # the package that attacks it, with `read` and `attack`: see `dbanon.attacks`
    algorithms: tuple[Algorithm, ...]
    # the secret it keeps: who sent a request, or where people were
    hides: Literal["sender", "place"]
    # what a row says of each person it stands for: in its region at every instant of its period, as aligned; or seen in
    # it at some time of its period, at least once. Rows longer than a slot, of a family without `every`, are of some
    # time whatever is declared.
    holds: Literal["instant", "some time"]
    # what hides its people among one another, but for algorithms that stand alone: the members of a record; those whose
    # rows have one region and period
    hidden_by: Literal["record", "region"]
    # by kind of what is left out (`subjects`, `requests`): the figure of the attack that counts all there were
    totals: Mapping[str, str]
    reasons: Mapping[str, str]  # by reason for leaving people or requests out, as in ``suppressed``: what it means
    requires: Requirement  # what a run is refused without
    # parameters by which a few dozen people can be hidden, with a small `k`: what the contract tests run
    example: Mapping[str, Any]
    # `algorithm`, by default the first one, and `params` that the documents propose
    proposed: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    columns: tuple[Column, ...] = ()
    # reads, joins: inputs beside the trajectories (`requests`, `sites`, `quasi_identifiers`, `cells`): given to
    # `anonymise`, which needs them, or to `attach`
    reads: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    region_type: Literal["Polygon", "MultiPolygon"] = "Polygon"  # of its published views
    # parameters of which the first one given says where the time of its rows begins
    begins: tuple[str, ...] = ("since",)
    instant: str | None = None  # the parameter that, where it is given, names the one instant its rows are about
    oldest: str | None = None  # the parameter that says how old, in seconds, the positions shown at that instant may be
    distributes: bool = False  # whether `anonymise` takes `tasks`, to hand parts of its work to other processes
    # of a family whose rows hold at instants: the parameter with the seconds between two of them. Without, its releases
    # speak of one moment.
    every: str | None = None
    # the parameter with the number of instants after which a person's record ends, and another one begins
    window: str | None = None
    # whether days of a person are records of their own where trajectories have a `day`; not with `window`
    has_days: bool = False
    interval_factor: float = 2.0  # by how much intervals of answers are widened where no run measured it
    # whether members for a stretch of a record are guests, who are hidden among its other members and hide nobody
    has_guests: bool = False
    # by figure of the attack, or of what a publication found beside other releases: what a run, its publication and its
    # page say if it is not 0, ``%s`` being the figure, and other figures in braces. And under ``left_out``: what would
    # help, said when more than half of anything is left out, where all figures of the attack and parameters are known
    # that stand in it in braces.
    notices: Mapping[str, str] = field(default_factory=dict)

    @property
    def traits(self) -> dict[str, Any]:
        """What core SQL reads of a family in ``dbanon.method.traits``."""
        names = (
            *("hides", "holds", "hidden_by", "reads", "joins", "begins", "instant", "oldest"),
            *("every", "window", "notices", "totals", "reasons"),
        )
        proposed = {"algorithm": self.algorithms[0].name, "params": {}, **self.proposed}
        required = {"requires": dataclasses.asdict(self.requires), "proposed": proposed}
        own = {"days": self.has_days, "guests": self.has_guests, "interval_factor": self.interval_factor}
        return own | required | {name: getattr(self, name) for name in names}

    @property
    def parameters(self) -> type[Any]:
        """The parameter class of the family."""
        return cast("type[Any]", self._load_attribute("Parameters"))

    def _load_attribute(self, name: str) -> Any:
        return getattr(importlib.import_module(self.module), name)

    def find_algorithm(self, name: str | None) -> Algorithm:
        """Look up an algorithm by name; the first is the default."""
        if name is None:
            return self.algorithms[0]
        for algorithm in self.algorithms:
            if algorithm.name == name:
                return algorithm
        raise _make_unknown_error(f"algorithm of {self.name}", name, (a.name for a in self.algorithms))

    def find_promise(self, algorithm: str) -> str:
        """Return the promise of an algorithm: its own, or the family's, as for one that is no longer known."""
        return next((one.guarantee for one in self.algorithms if one.name == algorithm), "") or self.guarantee

    def parse(self, given: Mapping[str, Any], algorithm: str | None = None) -> Any:
        """Make parameters from names and typed values, checked: all checks that need no data.

        Of several faults the same one is reported in whatever order they are given, as
        `dbanon_internal.complete_params` does.

        Raises `ParameterError` for an unknown name, a value outside its limits or that does not fit another's, or one
        the algorithm (by default the first) would not use.
        """
        chosen = self.find_algorithm(algorithm)
        items = dataclasses.fields(self.parameters)
        known = [item.name for item in items]
        unknown = set(given).difference(known)
        if unknown:
            raise _make_unknown_error(f"parameter of {self.name}", min(unknown), known)
        values = {item.name: _convert_value(self.name, item, given[item.name]) for item in items if item.name in given}
        parsed = self.parameters(**values)
        self._demand_used(chosen.name, parsed)
        return parsed

    def _demand_used(self, algorithm: str, params: Any) -> None:
        """Raise `ParameterError` for what the algorithm would not do."""
        for item in dataclasses.fields(params):
            only = item.metadata["algorithms"]
            if only and algorithm not in only and getattr(params, item.name) != item.default:
                raise ParameterError(
                    f"The '{item.name}' parameter of {self.name} must go with {' or '.join(only)}. Got it for "
                    f"{algorithm}. Leave it out."
                )
            unit = item.metadata["multiple_of"] if not only or algorithm in only else None
            value, one = getattr(params, item.name), getattr(params, unit) if unit else None
            if None not in (value, one) and value % one:
                raise ParameterError(
                    f"The '{item.name}' parameter of {self.name} must be a multiple of {unit}, {one}. "
                    f"Got {value} instead."
                )

    @needs("compute")
    def prepare(self, algorithm: str, params: Any) -> None:
        """Do what takes long before the first run of a machine and needs no data: compile. Safe in a thread."""
        ready = getattr(importlib.import_module(self.module), "prepare", None)
        if ready is not None:
            ready(params, algorithm=algorithm)

    @needs("compute")
    def anonymise(
        self,
        data: Trajectories,
        algorithm: str,
        params: Any,
        rng: np.random.Generator,
        *,
        tasks: Tasks = SERIAL_TASKS,
        **inputs: Any,
    ) -> Cloaks:
        """Compute the cloaks; pure. `inputs` are those that the family reads, by name; `tasks` does what it shares."""
        self._demand_used(algorithm, params)
        if self.distributes:
            inputs["tasks"] = tasks
        return cast("Cloaks", self._load_attribute("anonymise")(data, params, rng, algorithm=algorithm, **inputs))

    def settle_guests(
        self, data: Trajectories, params: Any, kept: str | None, **joined: Any
    ) -> tuple[Any, dict[str, str]]:
        """Decide whether guests join, where they are asked for.

        Parameters
        ----------
        kept : str or None
            What an earlier run decided for this one, too.

        Returns
        -------
        params : object
            With `guests` as decided.
        settled : dict
            The decision, for `Cloaks.suppressed`; empty where nobody asks.
        """
        if not self.has_guests or not params.guests:
            return params, {}
        found = kept or cast("str", self._load_attribute("judge_presence")(data, params, **joined))
        return dataclasses.replace(params, guests=found == "on"), {"guests": found}

    def attach(self, cloaks: Cloaks, data: Trajectories, params: Any, **inputs: Any) -> Cloaks:
        """Join inputs to finished cloaks; rows of a record may be joined, all else of rows and members may not change.

        Raises `DataError` if the family changed who is hidden with whom, or where or when: then that could depend on
        what was joined.
        """
        joined = cast("Cloaks", self._load_attribute("attach")(cloaks, data, params, **inputs))
        if not _has_same_members(cloaks, joined):
            raise DataError("Joining inputs must not change the groups of people. This is a defect of the method.")
        if not _has_same_rows(cloaks, joined):
            raise DataError(
                "Joining inputs must join rows and change nothing else in them. This is a defect of the method."
            )
        return joined


def _has_same_members(before: Cloaks, after: Cloaks) -> bool:
    """Whether two sets of cloaks have the same records, members and hiding sets."""
    names = [f.name for f in dataclasses.fields(Cloaks) if f.name.startswith(("member", "hiding"))]
    return np.array_equal(np.unique(before.record_id), np.unique(after.record_id)) and all(
        np.array_equal(one, other) if isinstance(one, np.ndarray) else one is other
        for one, other in ((getattr(before, name), getattr(after, name)) for name in names)
    )


def _has_same_rows(before: Cloaks, after: Cloaks) -> bool:
    """Whether every row is one of before, or successive ones of its record in one box, from first to last."""
    if before.regions.cell is not None:
        return after.regions.cell is before.regions.cell and after.region is before.region
    # Where each row begins in `before`, whose rows ascend by record and time: else none is found there.
    start, code = np.unique(np.concatenate([before.start, after.start]), return_inverse=True)
    begins = np.concatenate([before.record_id, after.record_id]) * len(start) + code
    begins, own = begins[: before.rows], begins[before.rows :]
    first = np.searchsorted(begins, own)
    whole = np.array_equal(first[after.offset[:-1]], before.offset[:-1]) and bool((np.diff(first) > 0).all())
    if not whole or not np.array_equal(begins[np.minimum(first, before.rows - 1)], own):
        return False
    last, low, high = np.append(first[1:], before.rows) - 1, before.bounds[:, :2], before.bounds[:, 2:]
    boxes = np.hstack([np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)]) if len(first) else low
    return np.array_equal(after.end, before.end[last]) and (not len(first) or np.array_equal(after.bounds, boxes))


class Registry(Mapping[str, Method]):
    """The families by name; the package of each is imported when it is first asked for."""

    def __init__(self, packages: dict[str, str]) -> None:
        self.packages = packages

    def __getitem__(self, name: str) -> Method:
        return cast("Method", importlib.import_module(self.packages[name]).METHOD)

    def __iter__(self) -> Iterator[str]:
        return iter(self.packages)

    def __len__(self) -> int:
        return len(self.packages)


METHODS = Registry(
    {
        "tp-aware": "dbanon.methods.tp_aware",
        "sensitive-sites": "dbanon.methods.sensitive_sites",
        "kte": "dbanon.methods.kte",
        "mob": "dbanon.methods.mob",
        "semantic": "dbanon.methods.semantic",
    }
)
"""Every family, a line each."""

DEMO_METHOD = "tp-aware"
"""The family that the demo shows."""


def find_method(name: str) -> Method:
    """Look up a family by name.

    Raises `ParameterError` if there is none, naming those there are.
    """
    if name in METHODS:
        return METHODS[name]
    raise _make_unknown_error("method", name, METHODS)


def _make_unknown_error(what: str, name: str, known: Iterable[str]) -> ParameterError:
    return ParameterError(f"There is no {what} named {parsing.quote_text(name)}. {choose_one(known)}")


def _convert_value(method_name: str, item: "dataclasses.Field[Any]", value: Any) -> Any:
    if value is None and item.default is None:
        return None  # "derived from the data", as the stored parameters of a run say it in JSON
    converted = parsing.convert_value(item.metadata, value)
    if converted is None:
        must, got = describe_requirement(item.metadata), parsing.format_value(value)
        raise ParameterError(f"The '{item.name}' parameter of {method_name} must be {must}. Got {got} instead.")
    return converted


def describe_requirement(about: Mapping[str, Any]) -> str:
    """Say in words what a parameter must be, from its metadata."""
    if about["choices"]:
        return "one of " + ", ".join(about["choices"])
    if about["type"] == "instant":
        return "ISO 8601 with a zone, or unix seconds, in whole seconds"
    if about["type"] == "name":
        return "a name of 1 to 60 visible characters, without blanks at its ends"
    words = {"integer": "an integer", "number": "a number", "switch": "on or off"}[about["type"]]
    if about["minimum"] is not None:
        words += f" >= {about['minimum']:g}"
    if about["maximum"] is not None:
        words += (" and" if about["minimum"] is not None else "") + f" <= {about['maximum']:g}"
    if about["infinite"]:
        words += ", or inf"
    return words + (f" ({about['unit']})" if about["unit"] else "")


def _format_default(default: Any, otherwise: str) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return otherwise if default is None else f"{default}"


def describe(family: Method) -> list[dict[str, Any]]:
    """List a family's parameters for help texts, SQL and docs, from the one place they are written.

    Returns
    -------
    list of dict
        ``name, type, unit, default, default_text, minimum, maximum, choices, requirement, help, algorithms,
        multiple_of, infinite, promises`` of each, in order.
    """
    return [
        {
            "name": item.name,
            "type": item.metadata["type"],
            "unit": item.metadata["unit"],
            "default": item.default,
            "default_text": _format_default(item.default, default.removesuffix(".")),
            "minimum": item.metadata["minimum"],
            "maximum": item.metadata["maximum"],
            "choices": list(item.metadata["choices"]),
            "requirement": describe_requirement(item.metadata),
            "help": help,
            "algorithms": list(item.metadata["algorithms"]),
            "multiple_of": item.metadata["multiple_of"],
            "infinite": item.metadata["infinite"],
            "promises": item.metadata["promises"],
        }
        for item in dataclasses.fields(family.parameters)
        for help, _, default in [item.metadata["help"].partition(" Default: ")]
    ]

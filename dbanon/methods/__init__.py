"""The registry of method families and the contract they keep.

A family is one module: a frozen, keyword-only parameter class made with `parameter`, a function
``anonymise(data, params, rng, algorithm=name) -> Cloaks`` (with ``places`` as well where the family reads them), and
``prepare(params, algorithm=name)``, which compiles what that one needs. Validation, error sentences, help, the SQL
listing and the docs are all made from the class's fields. Same data, parameters and seed: same cloaks.
"""

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from dbanon.cloaks import Cloaks
from dbanon.errors import ParameterError
from dbanon.methods import _parsing
from dbanon.trajectory import Places, Requests, Trajectories


def parameter(
    default: Any,
    help: str,
    *,
    type: str,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    algorithms: tuple[str, ...] = (),
) -> Any:
    """Describe one parameter of a method, once.

    Parameters
    ----------
    default : object
        Its default; ``None`` means "derived from the data", and the help says how.
    help : str
        One sentence for someone who has not read the paper.
    type : {"integer", "number", "choice", "switch", "instant"}
        An instant is given as ISO 8601 with a zone or as unix seconds, and held as unix seconds.
    unit : str
        "s", "m", "" for counts.
    minimum, maximum : float, optional
        Inclusive limits.
    choices : tuple of str
        For ``type="choice"``.
    algorithms : tuple of str
        With which algorithms it may be given; empty: with all.
    """
    described = {"help": help, "type": type, "unit": unit, "minimum": minimum, "maximum": maximum}
    return dataclasses.field(default=default, metadata={**described, "choices": choices, "algorithms": algorithms})


@dataclass(frozen=True, kw_only=True)
class Column:
    """A method's own column of its published views, filled from ``extra -> name``."""

    name: str
    sql_type: str
    default: str
    comment: str


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One way to compute a family; `comparison_only` ones give no guarantee and are never published."""

    name: str
    summary: str
    comparison_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Method:
    """One family: where its code is, what it promises, and who attacks it.

    `row_meaning`, `adversary` and `left_out` are what its releases say to people who have not read the paper: what one
    row is, against whom the promise holds, and who is not in it.
    """

    name: str
    module: str
    summary: str
    guarantee: str
    adversary: str
    row_meaning: str
    left_out: str
    paper: str
    attack: str
    algorithms: tuple[Algorithm, ...]
    columns: tuple[Column, ...] = ()
    reads_requests: bool = False
    reads_places: bool = False

    @cached_property
    def parameters(self) -> type[Any]:
        """The parameter class of the family; its module is imported on first use, because Numba is slow to start."""
        return cast("type[Any]", importlib.import_module(self.module).Parameters)

    def algorithm(self, name: str | None) -> Algorithm:
        """Look up an algorithm by name; the first is the default."""
        if name is None:
            return self.algorithms[0]
        for algorithm in self.algorithms:
            if algorithm.name == name:
                return algorithm
        raise _unknown(f"algorithm of {self.name}", name, (a.name for a in self.algorithms))

    def parse(self, given: Mapping[str, Any], algorithm: str | None = None) -> Any:
        """Make parameters from names and values (text or JSON), checked: all checks that need no data.

        Of several faults it is told the same one in whatever order they are given, as
        `dbanon_internal.check_params` does.

        Raises
        ------
        ParameterError
            For an unknown name, a value outside its limits, or one the algorithm (by default the first) would not use.
        """
        chosen = self.algorithm(algorithm)
        items = dataclasses.fields(self.parameters)
        known = [item.name for item in items]
        unknown = set(given).difference(known)
        if unknown:
            raise _unknown(f"parameter of {self.name}", min(unknown), known)
        values = {item.name: _value(self.name, item, given[item.name]) for item in items if item.name in given}
        parsed = self.parameters(**values)
        self._demand_used(chosen.name, parsed)
        return parsed

    def _demand_used(self, algorithm: str, params: Any) -> None:
        """Raise `ParameterError` for what the algorithm would not do."""
        for item in dataclasses.fields(params):
            only = item.metadata["algorithms"]
            if only and algorithm not in only and getattr(params, item.name) != item.default:
                raise ParameterError(
                    f"The '{item.name}' parameter of {self.name} must go with {' or '.join(only)}. "
                    f"Got it for {algorithm}; leave it out."
                )

    def prepare(self, algorithm: str, params: Any) -> None:
        """Do what takes long before the first run of a machine and needs no data: compile. Safe in a thread."""
        get_ready = cast("Callable[..., None]", importlib.import_module(self.module).prepare)
        get_ready(params, algorithm=algorithm)

    def anonymise(
        self,
        data: Trajectories,
        algorithm: str,
        params: Any,
        rng: np.random.Generator,
        places: Places | None = None,
    ) -> Cloaks:
        """Compute the cloaks; pure. Families with ``reads_places`` are given the sites and shapes."""
        self._demand_used(algorithm, params)
        run = cast("Callable[..., Cloaks]", importlib.import_module(self.module).anonymise)
        return run(data, params, rng, algorithm=algorithm, **({"places": places} if self.reads_places else {}))

    def attach(self, cloaks: Cloaks, data: Trajectories, requests: Requests) -> Cloaks:
        """Join requests to finished cloaks (families with ``reads_requests``); cannot change who is with whom."""
        join = cast("Callable[..., Cloaks]", importlib.import_module(self.module).attach)
        return join(cloaks, data, requests)


METHODS: dict[str, Method] = {
    "tp-aware": Method(
        name="tp-aware",
        module="dbanon.methods.tp_aware",
        summary="LBS request logs as bundles: one cloak an instant, and the set of requests sent in it",
        guarantee=(
            "Whoever knows every subject's trajectory and the algorithm still finds at least k subjects "
            "who may have sent any published request."
        ),
        adversary=(
            "Someone who knows where everybody was at every instant, how the groups were made and even who is in "
            "which, and asks who sent a request."
        ),
        row_meaning=(
            "Each row is a group of people at one instant: all of them were in this region when last seen, and any of "
            "them may have sent the requests. Rows with one record_id are the same people at successive instants."
        ),
        left_out=(
            "Whoever has no position at some instant of a window of time is left out of that window, and a window with "
            "fewer than k people is left out whole, each with the requests sent then; people count once a window."
        ),
        paper=(
            "Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012"
        ),
        attack="tp-aware",
        algorithms=(
            Algorithm(
                name="traj-anon", summary="least total cloak area over the binary tree of uniform semi-quadrants"
            ),
        ),
        columns=(
            Column(
                name="requests",
                sql_type="jsonb",
                default="[]",
                comment="The set of requests sent by anyone in the bundle in this period, without count or sender.",
            ),
        ),
        reads_requests=True,
    ),
    "sensitive-sites": Method(
        name="sensitive-sites",
        module="dbanon.methods.sensitive_sites",
        summary="users near sensitive sites at one instant: one rectangle for each site and k users or more",
        guarantee=(
            "Whoever knows the sensitive sites, and who is behind every row, cannot tie a site to fewer than k people: "
            "each site's rectangle holds it and at least k, and nobody counts for two sites."
        ),
        adversary=(
            "Someone who knows the sensitive sites and even who is behind every row, and asks who was at one of them."
        ),
        row_meaning=(
            "Each row is one person at one moment: somewhere in this region, with at least k people in the same one, "
            "where cloaked is true; exactly there where it is false."
        ),
        left_out="Whoever has no position at that moment is left out.",
        paper=(
            "Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of "
            "Sensitive Sites, 2008"
        ),
        attack="sensitive-sites",
        algorithms=(
            Algorithm(name="bk", summary="least total area for users and sites along one curve"),
            Algorithm(name="mk", summary="users grouped along a curve, then groups given to sites; quicker, larger"),
            Algorithm(name="knn", summary="the k nearest users left for each site, in random order"),
            Algorithm(
                name="local",
                summary="Hu et al.'s boxes around users; sites share users, so it protects nobody",
                comparison_only=True,
            ),
        ),
        columns=(
            Column(
                name="cloaked",
                sql_type="boolean",
                default="false",
                comment="Whether the region hides several people; else it is where the one person is.",
            ),
        ),
        reads_places=True,
    ),
}


def method(name: str) -> Method:
    """Look up a family by name.

    Raises
    ------
    ParameterError
        If there is none, naming the nearest.
    """
    if name in METHODS:
        return METHODS[name]
    raise _unknown("method", name, METHODS)


def _unknown(what: str, name: str, known: Iterable[str]) -> ParameterError:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"Choose one of: {', '.join(known)}."
    return ParameterError(f"There is no {what} named {_parsing.quoted(name)}. {hint}")


def _value(method_name: str, item: "dataclasses.Field[Any]", given: Any) -> Any:
    value = _parsing.plain(given)
    if value is None and item.default is None:
        return None  # "derived from the data", as the stored parameters of a run say it in JSON
    converted = _parsing.converted(item.metadata, value)
    if converted is None:
        must, got = requirement(item.metadata), _parsing.shown(value)
        raise ParameterError(f"The '{item.name}' parameter of {method_name} must be {must}. Got {got} instead.")
    return converted


def requirement(about: Mapping[str, Any]) -> str:
    """Say in words what a parameter must be, from its metadata."""
    if about["choices"]:
        return "one of " + ", ".join(about["choices"])
    if about["type"] == "instant":
        return "ISO 8601 with a zone, or unix seconds, in whole seconds"
    words = {"integer": "an integer", "number": "a number", "switch": "on or off"}[about["type"]]
    if about["minimum"] is not None:
        words += f" >= {about['minimum']:g}"
    if about["maximum"] is not None:
        words += (" and" if about["minimum"] is not None else "") + f" <= {about['maximum']:g}"
    return words + (f" ({about['unit']})" if about["unit"] else "")


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return "from the data" if default is None else f"{default}"


def describe(family: Method) -> list[dict[str, Any]]:
    """List a family's parameters for help texts, SQL and docs, from the one place they are written.

    Returns
    -------
    list of dict
        ``name, type, unit, default, default_text, minimum, maximum, choices, requirement, help, algorithms`` of each,
        in order.
    """
    return [
        {
            "name": item.name,
            "type": item.metadata["type"],
            "unit": item.metadata["unit"],
            "default": item.default,
            "default_text": _default_text(item.default),
            "minimum": item.metadata["minimum"],
            "maximum": item.metadata["maximum"],
            "choices": list(item.metadata["choices"]),
            "requirement": requirement(item.metadata),
            "help": item.metadata["help"],
            "algorithms": list(item.metadata["algorithms"]),
        }
        for item in dataclasses.fields(family.parameters)
    ]

"""What verbs can be asked for. An option is written once, as a field of a record: name, type, default and words.

The verbs, which use the options, live in other packages.

A record is a frozen, keyword-only dataclass, and the words of a field stand in an `Option` among its annotations. From
records come the keywords of Python (`accept_options`), the options of the command line (``dbanon.cli._options``), and
for loads the composite type ``dbanon_internal.loading``. Invariant: nothing here reads a file or speaks to a server.
Where a record has several bases, the fields of the rightmost come first.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field
from numbers import Integral, Real
from types import UnionType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from dbanon.base.errors import ParameterError

P = ParamSpec("P")
Asked = TypeVar("Asked")
First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")
Fourth = TypeVar("Fourth")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Option:
    """The words of an option, and how it is typed on the command line."""

    help: str = ""  # true of the command line and of Python alike; how it is typed is for `metavar` to say
    _: KW_ONLY
    name: str | None = None  # on the command line, such as ``--set``, where it is not the field's
    metavar: str | None = None  # what stands for its value in the help
    typed: Any = None  # what the command line takes, where it is not the field's type
    # makes the field's value of what was typed; then the field's default is None, or it must be given
    parse: Callable[[Any], Any] | None = None
    # switches that stand for values of the field, with their words; one of them at most can be given
    flags: Mapping[str, str] = field(default_factory=dict)
    # minimum, maximum, choices: limits, both of which stand, and choices; `Field.demand_valid` holds values against
    # them.
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] | None = None


@dataclass(frozen=True)
class Field:
    """An option of a record; `default` is ``inspect.Parameter.empty`` where one must be given."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def parameter(self) -> inspect.Parameter:
        """The keyword of Python."""
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=self.default, annotation=self.type)

    def demand_valid(self, value: Any) -> None:
        """Raise `ParameterError` if a value is of another type, outside the limits, or none of the choices."""
        option, name = self.option, f"--{self.name.replace('_', '-')}"
        if not _is_of_type(value, self.type):
            must = re.sub(r"[\w.]*Mapping\[.*?\]", "a mapping or table", inspect.formatannotation(self.type))
            must = must.replace(" | ", " or ")
            raise ParameterError(f"The option {self.name} must be {must}. Got {type(value).__name__} instead.")
        if value is None:
            return
        if option.choices and value not in option.choices:
            raise ParameterError(f"{name} must be one of {', '.join(option.choices)}. Got {value!r} instead.")
        if option.minimum is not None and option.maximum is not None and not option.minimum <= value <= option.maximum:
            is_whole = int in (self.type, *get_args(self.type))
            most = f"{option.maximum:,}" if is_whole else f"{option.maximum:g}"
            kind = "a whole number" if is_whole else "a number"
            raise ParameterError(f"{name} must be {kind} from {option.minimum} to {most}. Got {value} instead.")

    @property
    def words(self) -> str:
        """Say what it is to who calls Python: options of the command line are called as keywords are."""
        text = self.option.help or " ".join(f"'{value}': {words}" for value, words in self.option.flags.items())
        return re.sub(r"--([a-z][a-z-]*)", lambda named: named[1].replace("-", "_"), text)


def _is_of_type(value: Any, kind: Any) -> bool:
    """Whether a value is of a field's type; which texts a field takes, its verb knows."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (UnionType, Union):
        return any(_is_of_type(value, one) for one in inner)
    if origin in (tuple, Sequence):  # a text is a sequence, too, but of letters
        is_listed = isinstance(value, Sequence) and not isinstance(value, str)
        return is_listed and all(_is_of_type(one, inner[0]) for one in value)
    if origin in (int, float):  # also those of NumPy; True is no number
        return isinstance(value, Integral if origin is int else Real) and not isinstance(value, bool)
    return isinstance(value, str if origin is Literal else origin)


def list_fields(record: type) -> list[Field]:
    """List the options of a record in the order of the help."""
    annotations = get_type_hints(record, include_extras=True)
    fields = []
    for one in dataclasses.fields(record):
        kind, option = get_args(annotations[one.name])
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        fields.append(Field(one.name, kind, default, option))
    return fields


def make_record(record: Callable[..., Asked], options: Mapping[str, Any]) -> Asked:
    """Make a record of what was asked; raises `ParameterError` for a value that it does not take."""
    for one in list_fields(cast("type", record)):
        if one.name in options:
            one.demand_valid(options[one.name])
    return record(**options)


class _Keywords(Generic[P, Asked]):
    """Makes keywords of a record's fields, for a verb whose last argument the record is."""

    def __init__(self, record: Callable[P, Asked]) -> None:
        self._record: Any = record

    @overload
    def __call__(self, verb: Callable[[First, Asked], Result]) -> Callable[Concatenate[First, P], Result]: ...
    @overload
    def __call__(
        self, verb: Callable[[First, Second, Asked], Result]
    ) -> Callable[Concatenate[First, Second, P], Result]: ...
    @overload
    def __call__(
        self, verb: Callable[[First, Second, Third, Asked], Result]
    ) -> Callable[Concatenate[First, Second, Third, P], Result]: ...
    @overload
    def __call__(
        self, verb: Callable[[First, Second, Third, Fourth, Asked], Result]
    ) -> Callable[Concatenate[First, Second, Third, Fourth, P], Result]: ...
    def __call__(self, verb: Callable[..., Result]) -> Callable[..., Result]:
        # The verb's annotations stay as they are: some are names that only type checkers know.
        signature, offered = inspect.signature(verb), list_fields(self._record)
        before = [
            one.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for one in list(signature.parameters.values())[:-1]
        ]
        signature = signature.replace(parameters=[*before, *(one.parameter for one in offered)])

        @functools.wraps(verb)
        def call(*given: Any, **options: Any) -> Result:
            try:
                signature.bind(*given, **options)  # says which keyword is missing or unknown
            except TypeError as error:
                raise TypeError(f"{verb.__qualname__}(): {error}") from None
            return verb(*given, make_record(self._record, options))

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.getdoc(verb)}\n\n{_describe_fields(offered)}"
        return call


def accept_options(record: Callable[P, Asked]) -> _Keywords[P, Asked]:
    """Let callers of a verb give the fields of a record as keywords, where the verb takes the record as last argument.

    Type checkers, ``help()`` and ``inspect.signature`` see every keyword with its type and default.
    """
    return _Keywords(record)


def _describe_fields(offered: Sequence[Field]) -> str:
    """Write the section of a docstring that says what each keyword is."""
    lines = ["Other Parameters", "----------------"]
    for one in offered:
        lines += [f"{one.name} : {inspect.formatannotation(one.type)}", f"    {one.words}"]
    return "\n".join(lines)

"""Options of commands, made from the records of `dbanon.options`."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from dbanon.base.errors import ParameterError
from dbanon.options import Field, list_fields

Command = Callable[..., None]


def add_options(record: type) -> Callable[[Command], Command]:
    """Give a command the options of a record after its own; it takes them as ``**options``, called as in Python."""
    offered = list_fields(record)

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]

        @functools.wraps(command)
        def call(**given: Any) -> None:
            options = {one.name: _make_value(one, given) for one in offered}
            command(**{one.name: given[one.name] for one in own}, **options)

        made = [*own, *(parameter for one in offered for parameter in _make_parameters(one))]
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[one.replace(kind=one.KEYWORD_ONLY) for one in made]
        )
        return call

    return decorate


def _make_parameters(offered: Field) -> Iterator[inspect.Parameter]:
    """Make what Typer reads: a switch for each flag, otherwise one option."""
    option, kind = offered.option, inspect.Parameter.KEYWORD_ONLY
    for flag, words in option.flags.items():
        switch = typer.Option(f"--{flag}", help=words)
        yield inspect.Parameter(flag, kind, default=False, annotation=Annotated[bool, switch])
    if not option.flags:
        name = option.name or f"--{offered.name.replace('_', '-')}"
        typed: Any = option.typed or offered.type
        made = typer.Option(name, help=option.help, metavar=option.metavar)
        yield inspect.Parameter(offered.name, kind, default=offered.default, annotation=Annotated[typed, made])


def _make_value(offered: Field, given: dict[str, Any]) -> Any:
    """Make the value of a field of what was typed."""
    option = offered.option
    if not option.flags:
        typed = given[offered.name]
        return offered.default if typed in (None, []) else option.parse(typed) if option.parse else typed
    chosen = [flag for flag in option.flags if given[flag]]
    if len(chosen) > 1:
        names = " and ".join(f"--{flag}" for flag in chosen)
        raise ParameterError(f"At most one of {names} may be given. Got {len(chosen)}. Choose one.")
    return chosen[0] if chosen else offered.default

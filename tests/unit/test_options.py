"""Records of options: what callers of Python and of the command line see of them."""

import dataclasses
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from dbanon.base.errors import ParameterError
from dbanon.cli._options import add_options
from dbanon.options import Option, accept_options, generating, list_fields, loading, publishing


@dataclass(frozen=True, kw_only=True)
class Where:
    place: Annotated[str, Option("Name of the place.")]


@dataclass(frozen=True, kw_only=True)
class Going(Where):
    speed: Annotated[float, Option("Metres in a second; see --mode.")] = 1.5
    by: Annotated[Sequence[str] | None, Option("Ways.", metavar="WAY", typed=list[str])] = None
    stops: Annotated[Sequence[str] | None, Option(typed=str, parse=lambda text: text.split(","), name="--halts")] = None
    shoes: Annotated[Literal["old", "new"] | None, Option("On which feet.", typed=str | None)] = None
    mode: Annotated[Literal["walk", "run", "ride"], Option(flags={"run": "Run there.", "ride": "Ride there."})] = "walk"


class Person:
    @accept_options(Going)
    def go(self, how_often: "Times", going: Going) -> "Came":  # type: ignore[name-defined]  # noqa: F821
        """Go there."""
        return how_often, going

    @accept_options(Where)
    def stay(self, where: Where) -> Where:
        """Stay there."""
        return where


def test_a_verb_gets_the_record_of_its_keywords() -> None:
    assert Person().stay(place="home") == Where(place="home")
    assert Person().go(3, place="home", mode="run") == (3, Going(place="home", mode="run"))


@pytest.mark.parametrize(
    ("given", "about"), [({}, "'place'"), ({"place": "home", "sped": 1}, "'sped'"), ({"going": 1}, "'place'")]
)
def test_a_missing_or_unknown_keyword_is_named(given: dict[str, Any], about: str) -> None:
    with pytest.raises(TypeError, match=rf"Person\.go\(\): .*{about}"):
        Person().go(1, **given)


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ({"place": 5}, "place must be str. Got int "),
        ({"place": None}, "place must be str. Got NoneType "),
        ({"speed": "2"}, "speed must be float. Got str "),
        ({"speed": True}, "speed must be float. Got bool "),
        ({"speed": None}, "speed must be float. Got NoneType "),
        ({"by": "ab"}, r"by must be collections.abc.Sequence\[str\] or None. Got str "),
        ({"by": [5]}, "Got list "),
        ({"mode": 1}, "Got int "),
        ({"shoes": 1}, r"shoes must be Optional\[.*\]. Got int "),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(given: dict[str, Any], about: str) -> None:
    with pytest.raises(ParameterError, match=about):
        Person().go(1, **({"place": "home"} | given))


def test_a_value_of_a_type_is_taken_whoever_made_it() -> None:
    narrow: Any = np.float32(2)
    _, taken = Person().go(1, place="home", speed=narrow, by=("a",), mode="run")
    assert (taken.speed, taken.by) == (2, ("a",))
    assert Person().go(1, place="home", speed=2, by=[], shoes="new")[1].speed == 2


def test_the_signature_shows_each_keyword_its_type_and_default() -> None:
    shown = inspect.signature(Person.go).parameters
    assert list(shown) == ["self", "how_often", "place", "speed", "by", "stops", "shoes", "mode"]
    assert (shown["speed"].annotation, shown["speed"].default) == (float, 1.5)
    assert shown["place"].default is inspect.Parameter.empty
    assert {one.kind for one in list(shown.values())[2:]} == {inspect.Parameter.KEYWORD_ONLY}


def test_the_docstring_has_the_words_of_each_keyword_as_python_calls_it() -> None:
    said = inspect.getdoc(Person.go) or ""
    assert said.startswith("Go there.\n\nOther Parameters\n----------------\nplace : str\n    Name of the place.\n")
    assert "speed : float\n    Metres in a second; see mode.\n" in said
    assert "    'run': Run there. 'ride': Ride there." in said


RECORDS = [
    record
    for module in (loading, publishing, generating)
    for record in vars(module).values()
    if dataclasses.is_dataclass(record) and record.__module__ == module.__name__
]


@pytest.mark.parametrize("record", RECORDS)
def test_words_are_true_where_python_takes_several_values_and_the_command_line_a_text(record: type) -> None:
    for one in list_fields(record):
        typed, option = one.option.typed, one.option
        assert not set(re.findall(r"[A-Z]+", option.metavar or "")) & set(re.findall(r"\w+", one.words))
        if option.parse or list[str] in (typed, *get_args(typed)):
            assert not re.search(r"repeat|\w=\w|\w,\w", one.words)


def test_the_fields_of_a_base_come_first() -> None:
    assert [one.name for one in list_fields(Going)] == ["place", "speed", "by", "stops", "shoes", "mode"]


def run(arguments: list[str]) -> Any:
    app, got = typer.Typer(), []

    @app.command()
    @add_options(Going)
    def go(how_often: int, **options: Any) -> None:
        got.append((how_often, Going(**options)))

    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return got[0] if got else result.output


def test_a_command_takes_the_options_of_a_record_after_its_own() -> None:
    assert run(["3", "--place", "home"]) == (3, Going(place="home"))
    typed = ["3", "--place", "home", "--by", "a", "--by", "b", "--halts", "c,d", "--ride", "--speed", "2"]
    assert run(typed) == (3, Going(place="home", by=["a", "b"], stops=["c", "d"], mode="ride", speed=2.0))


def test_only_one_flag_of_a_field_may_be_given() -> None:
    with pytest.raises(ParameterError, match="At most one of --run and --ride"):
        run(["3", "--place", "home", "--run", "--ride"])


def test_the_help_has_the_words_of_each_option() -> None:
    shown = run(["--help"])
    found = [shown.index(said) for said in ("--place", "--speed", "--by", "WAY", "--halts", "--run", "Ride there.")]
    assert found == sorted(found)

"""Compiling ahead: every method and attack once, and again only if something they are made from changed."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest

from dbanon.attacks import attacker
from dbanon.base import kernels
from dbanon.methods import METHODS, method
from dbanon.runs import compiling

Part = tuple[str, bool]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Part]:
    """List what is to be compiled, and compile nothing."""
    parts: list[Part] = []

    class Done:
        def result(self) -> None: ...

    class Pool:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...

        def submit(self, _: Callable[..., None], *part: object) -> Done:
            parts.append(part)  # type: ignore[arg-type]
            return Done()

    monkeypatch.setattr(compiling, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(kernels, "stamp", lambda _: tmp_path / "kept" / "stamp")
    return parts


def test_every_method_and_attack_is_compiled_once(asked: list[Part]) -> None:
    compiling.compile_ahead()
    assert sorted(asked) == sorted((name, is_attack) for name in METHODS for is_attack in (False, True))
    asked.clear()
    compiling.compile_ahead()
    assert asked == []


def test_methods_that_are_named_do_not_stand_for_all(asked: list[Part]) -> None:
    compiling.compile_ahead(["kte"])
    assert sorted(asked) == [("kte", False), ("kte", True)]
    compiling.compile_ahead()
    assert len(asked) == 2 + 2 * len(METHODS)


def test_other_sources_have_another_stamp(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a = 1")
    other.write_text("b = 1")
    before = kernels.stamp([one, other])
    assert kernels.stamp([other, one]) == before
    other.write_text("b = 2")
    assert kernels.stamp([one, other]) != before


@pytest.mark.parametrize("name", ["tp-aware", "kte", "mob", "semantic"])
def test_what_an_attack_compiles_beforehand_is_compiled_without_data(name: str) -> None:
    attacker(method(name).attack).prepare()

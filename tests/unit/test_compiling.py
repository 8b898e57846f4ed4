"""Who runs for the first time on a machine is told that kernels are compiled; what is compiled ahead."""

import importlib.util
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType

import pytest

from dbanon import worker
from dbanon.attacks import import_attacker
from dbanon.base import kernels
from dbanon.cli import db
from dbanon.methods import METHODS, find_method
from dbanon.runs import compiling

Part = tuple[str, bool]
KERNEL = "import numba\n\n@numba.njit(cache=True)\ndef kernel(x):\n    return x + 1\n"


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernels_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_compiled_is_heard_and_what_the_cache_holds_is_not(tmp_path: Path) -> None:
    path, said = tmp_path / "kernels_of_a_test.py", []
    path.write_text(KERNEL)
    for first in (True, False):
        module = load_module(path)
        with compiling.notify(lambda: said.append("heard")):
            assert module.kernel(1) == 2
        assert bool(said) == first
        said.clear()
    module = load_module(path)
    module.kernel(1.5)
    assert said == []  # nobody listens any more


def test_a_worker_notes_in_its_log_that_it_compiles_and_no_other_progress(capsys: pytest.CaptureFixture[str]) -> None:
    process = worker._Process(worker.Settings(dsn=None, grace_s=0, parent=0))
    process._tell("computing cloaks", 0, None)
    process._tell(compiling.STAGE, 0, None)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(compiling.STAGE)


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
    monkeypatch.setattr(kernels, "locate_stamp", lambda _: tmp_path / "kept" / "stamp")
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


def test_what_another_process_compiles_is_waited_for(asked: list[Part], tmp_path: Path) -> None:
    stamp = tmp_path / "kept" / "stamp"
    with compiling._lock_stamp(stamp):
        second = threading.Thread(target=compiling.compile_ahead)
        second.start()
        second.join(0.2)
        assert second.is_alive()
        stamp.touch()
    second.join()
    assert asked == []


@pytest.mark.stress
def test_what_compiles_ahead_is_not_what_lies_in_the_current_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spawned: list[list[str]] = []
    monkeypatch.setattr(os, "posix_spawn", lambda _, command, *__, **___: spawned.append(command))
    db._compile_beside()
    [command] = spawned
    assert command[-1] == "_compile"
    for name in ("dbanon", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("open('seen', 'w')")
    subprocess.run([*command, "sensitive-sites"], cwd=tmp_path, check=True)
    assert not (tmp_path / "seen").exists()


def test_other_sources_have_another_stamp(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a = 1")
    other.write_text("b = 1")
    before = kernels.locate_stamp([one, other])
    assert kernels.locate_stamp([other, one]) == before
    other.write_text("b = 2")
    assert kernels.locate_stamp([one, other]) != before


@pytest.mark.parametrize("name", ["tp-aware", "kte", "mob", "semantic"])
def test_what_an_attack_compiles_beforehand_is_compiled_without_data(name: str) -> None:
    import_attacker(find_method(name).attack).prepare()  # type: ignore[attr-defined]

"""Compiled code is used only for the types and sources it was compiled from, also beside code of other processes."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dbanon.base import kernels

KERNEL = """
from dbanon.base.kernels import compile_kernel
from {0}.layout import COLUMN

@compile_kernel
def second(x):
    return x[0, COLUMN]
"""
SCALING = f"""
from dbanon.base.kernels import compile_kernel

def make(factor):
    @compile_kernel
    def scale(x):
        total = 0
        for value in x:
            {"; ".join(f"total += factor * (value % {n} == 1)" for n in range(2, 24))}
        return total
    return scale
"""
"""A function of many instructions, of which no copy is put into those that call it."""
SCALED = """
from dbanon.base.kernels import compile_kernel
from scaling import make

scale = make({1})

@compile_kernel
def {0}(x):
    return scale(x) + scale(x[50:])
"""
CONSTANTS = """
from dbanon.base.kernels import compile_kernel

@compile_kernel
def add(x, y):
    return x + y

@compile_kernel
def both(x):
    return add(x, 0) + add(x, 1)
"""
ASKING = """
import sys
import numpy as np
for name in sys.argv[1:]:
    print(getattr(__import__(name), name)(np.arange(100)))
"""
FORKING = """
import os, sys
import numpy as np
import dbanon.base.kernels
for name in sys.argv[1:]:
    if (child := os.fork()) == 0:
        getattr(__import__(name), name)(np.arange(100))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
ROWS = np.arange(4.0).reshape(2, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a kernel that was compiled for rows and for columns, which lie otherwise in memory."""
    folder = tmp_path / f"package_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "layout.py").write_text("COLUMN = 1\n")
    (folder / "loops.py").write_text(KERNEL.format(folder.name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which Python takes for fresh within a second
    assert ask_module(folder) == (1.0, 2.0)
    return folder


def load_module(folder: Path) -> ModuleType:
    """The module as another process would have it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]
    importlib.invalidate_caches()
    kernels._digest_sources.cache_clear()
    kernels._read_source.cache_clear()
    return importlib.import_module(f"{folder.name}.loops")


def ask_module(folder: Path) -> tuple[float, float]:
    second = load_module(folder).second
    return second(ROWS), second(ROWS.T)


def list_files(folder: Path) -> list[Path]:
    return sorted((folder / "__pycache__").glob("*.nbc"))


def test_what_was_compiled_is_loaded_and_not_compiled_again(folder: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in list_files(folder)}
    assert len(before) == 2
    assert ask_module(folder) == (1.0, 2.0)
    assert before == {file: file.stat().st_mtime_ns for file in list_files(folder)}


def test_code_for_other_types_is_not_used_where_a_file_holds_it(folder: Path) -> None:
    one, other = list_files(folder)
    one_code, other_code = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_code)
    other.write_bytes(one_code)
    assert ask_module(folder) == (1.0, 2.0)
    assert list_files(folder) == [one, other]  # each written again in its place


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:100], lambda code: code[:-1] + b"x"])
def test_a_damaged_file_is_written_again(folder: Path, damage) -> None:
    whole = [file.stat().st_size for file in list_files(folder)]
    for file in list_files(folder):
        file.write_bytes(damage(file.read_bytes()))
    assert ask_module(folder) == (1.0, 2.0)
    assert [file.stat().st_size for file in list_files(folder)] == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize(
    ("file", "old", "new"), [("loops.py", "x[0, COLUMN]", "x[COLUMN, 0]"), ("layout.py", "COLUMN = 1", "COLUMN = 0")]
)
def test_code_of_another_source_is_not_used(folder: Path, file: str, old: str, new: str) -> None:
    # The second is a constant of a module that the kernel's own imports.
    source = (folder / file).read_text()
    assert old in source
    (folder / file).write_text(source.replace(old, new))
    assert ask_module(folder) == ((2.0, 1.0) if file == "loops.py" else (0.0, 0.0))
    (folder / file).write_text(source)
    assert ask_module(folder) == (1.0, 2.0)


@pytest.mark.stress
@pytest.mark.parametrize("programs", [[(ASKING, "one"), (ASKING, "seven")], [(FORKING, "one", "seven")]])
def test_code_that_several_processes_compiled_runs_in_one(tmp_path: Path, programs: list[tuple[str, ...]]) -> None:
    # `scale` names two functions, and each process compiles its own after as many others.
    def ask(program: str, *names: str) -> list[int]:
        command = [sys.executable, "-c", program, *names]
        return [int(line) for line in subprocess.check_output(command, cwd=tmp_path, timeout=60).split()]

    (tmp_path / "scaling.py").write_text(SCALING)
    for name, factor in (("one", 1), ("seven", 7)):
        (tmp_path / f"{name}.py").write_text(SCALED.format(name, factor))
    for program in programs:
        ask(*program)
    one, seven = ask(ASKING, "one", "seven")
    assert seven == 7 * one > 0


def test_a_disk_that_is_full_loses_no_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in list_files(folder):
        file.unlink()
    second = load_module(folder).second

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(second._cache._cache_file, "_open_for_write", full)
    assert second(ROWS) == 1.0
    assert list_files(folder) == []


def test_a_kernel_called_with_a_constant_is_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "counts.py").write_text(CONSTANTS)
    program = "import counts; print(counts.both(3), len(counts.add.signatures))"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, text=True) == "7 1\n"


def test_kernels_are_plain_functions_where_numba_is_told_not_to_compile(tmp_path: Path) -> None:
    (tmp_path / "counts.py").write_text(CONSTANTS)
    command = [sys.executable, "-c", "import counts; print(counts.both(3), type(counts.add).__name__)"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    assert subprocess.check_output(command, cwd=tmp_path, text=True, env=environment) == "7 function\n"

"""What compiled code is kept under: never for other types than it was compiled for."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

KERNEL = "from dbanon.base.kernels import kernel\n\n@kernel\ndef second(x):\n    return x[0, 1]\n"
ROWS = np.arange(4.0).reshape(2, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A module with a kernel that was compiled for rows and for columns, which lie otherwise in memory."""
    path = tmp_path / "kernels_of_a_test.py"
    path.write_text(KERNEL)
    assert asked(path) == (1.0, 2.0)
    return path


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(path: Path) -> tuple[float, float]:
    second = loaded(path).second
    return second(ROWS), second(ROWS.T)


def files(path: Path) -> list[Path]:
    return sorted((path.parent / "__pycache__").glob("*.nbc"))


def test_code_for_other_types_is_not_used_where_a_file_holds_it(path: Path) -> None:
    one, other = files(path)
    one_code, other_code = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_code)
    other.write_bytes(one_code)
    assert asked(path) == (1.0, 2.0)
    assert files(path) == [one, other]  # each written anew in its place


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_file_is_written_anew(path: Path, left: int) -> None:
    for file in files(path):
        file.write_bytes(file.read_bytes()[:left])
    assert asked(path) == (1.0, 2.0)
    assert all(file.stat().st_size > left for file in files(path))


def test_code_of_an_older_source_is_not_used(path: Path) -> None:
    path.write_text(KERNEL.replace("[0, 1]", "[1, 0]"))
    assert asked(path) == (2.0, 1.0)


def test_a_disk_that_is_full_loses_no_result(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in files(path):
        file.unlink()
    fresh = loaded(path).second

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fresh._cache._cache_file, "_save_data", full)
    assert fresh(ROWS) == 1.0
    assert files(path) == []

"""What `./dev measure` counts, on a package of two modules."""

from pathlib import Path

import pytest

from benchmarks import _size

KERNEL = '''"""Counts."""

from numba import njit


# One line at a time.
def public(a, b, *, c):
    """Say what it does."""

    return a  # the first


def _private():
    def inner(x): ...
    return inner


class Shown:
    def verb(self, options): ...


TEXT = """
# no comment
"""
'''


@pytest.fixture
def kernel() -> _size.Module:
    return _size.Module(Path("dbanon/methods/family.py"), KERNEL)


def test_every_line_is_of_one_kind(kernel: _size.Module) -> None:
    assert kernel.comments == {6}
    assert kernel.docstrings == {1, 8}
    assert kernel.code == {3, 7, 10, 13, 14, 15, 18, 19, *range(22, 25)}


def test_a_function_within_another_is_no_function_of_its_own(kernel: _size.Module) -> None:
    assert {f.name: public for f, public in kernel.iter_functions()} == {
        "public": True,
        "_private": False,
        "verb": True,
    }


def test_the_instance_is_no_parameter(kernel: _size.Module) -> None:
    assert [_size._count_parameters(f) for f, _ in kernel.iter_functions() if f.name in ("public", "verb")] == [3, 1]


def test_figures_are_of_this_repository() -> None:
    found = _size.measure_tree(_size.ROOT)
    lines = sum(len(file.read_text().splitlines()) for file in (_size.ROOT / "dbanon").rglob("*.py"))
    assert found["dbanon/: lines"] == f"{lines:,}"
    by_package = [int(number.replace(",", "")) for name, number in found.items() if name.startswith("lines of ")]
    assert sum(by_package) == lines

"""What `./dev measure` counts, on a package of two modules, and what its limits refuse."""

from pathlib import Path

import pytest

from benchmarks import _size

KERNEL = '''"""Counts."""

from dbanon.base.kernels import compile_kernel


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


@pytest.fixture(scope="module")
def modules() -> list[_size.Module]:
    return _size.read_modules(_size.ROOT)


@pytest.fixture(scope="module")
def sizes(modules: list[_size.Module]) -> dict[str, int]:
    return _size.measure_limits(_size.ROOT, modules)


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


def test_figures_are_of_this_repository(monkeypatch: pytest.MonkeyPatch, modules: list[_size.Module]) -> None:
    monkeypatch.setattr(_size, "read_modules", lambda root: modules)
    found = _size.measure_tree(_size.ROOT)
    lines = sum(len(file.read_text().splitlines()) for file in (_size.ROOT / "dbanon").rglob("*.py"))
    assert found["python lines"] == f"{lines:,}"
    by_package = [int(number.replace(",", "")) for name, number in found.items() if name.startswith("lines of ")]
    assert sum(by_package) == lines


def test_every_line_is_of_one_feature(sizes: dict[str, int]) -> None:
    rows = [row.replace(",", "").split(" + ") for row in _size.measure_features(_size.ROOT).values()]
    python, sql, tests, _ = (sum(map(int, column)) for column in zip(*rows, strict=True))
    assert {"python_lines": python, "sql_lines": sql, "test_lines": tests}.items() <= sizes.items()


def test_a_tree_at_its_limits_is_accepted(sizes: dict[str, int]) -> None:
    _size.demand_limits(sizes, sizes)


@pytest.mark.parametrize("name", _size.read_sizes()["limits"])
def test_one_line_or_word_more_is_refused(sizes: dict[str, int], name: str) -> None:
    with pytest.raises(SystemExit, match=f"{name}: {sizes[name]:,} of {sizes[name] - 1:,};"):
        _size.demand_limits(sizes, sizes | {name: sizes[name] - 1})


def test_the_file_has_a_limit_for_each_size(sizes: dict[str, int]) -> None:
    assert _size.read_sizes()["limits"].keys() == sizes.keys()

"""`./dev measure --limit` refuses a tree that is larger than benchmarks/sizes.toml allows."""

import pytest

from benchmarks import _size

SIZES = _size.measure_limits(_size.ROOT, _size.read_modules(_size.ROOT))


def test_a_tree_at_its_limits_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_size, "read_sizes", lambda: {"limits": SIZES})
    _size.demand_limits()


@pytest.mark.parametrize("name", SIZES)
def test_one_line_or_word_more_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_size, "read_sizes", lambda: {"limits": SIZES | {name: SIZES[name] - 1}})
    with pytest.raises(SystemExit, match=f"{name}: {SIZES[name]:,} of {SIZES[name] - 1:,};"):
        _size.demand_limits()


def test_the_file_has_a_limit_for_each_size() -> None:
    assert _size.read_sizes()["limits"].keys() == SIZES.keys()

"""Sessions choose among the tests: together they run them all."""

from pathlib import Path

import pytest

from tests import conftest

FILES = [Path(f"test_{letter}.py") for letter in "abcdefg"]


@pytest.mark.parametrize("parts", [3, 6])
def test_each_module_is_in_one_part(parts: int) -> None:
    chosen = [conftest._choose_modules(FILES, turn, parts) for turn in range(parts)]
    assert sorted(file for part in chosen for file in part) == FILES
    assert max(map(len, chosen)) - min(map(len, chosen)) <= 1


class Item:
    def __init__(self, name: str) -> None:
        self.nodeid = f"tests/db/test_x.py::test_y[{name}]"

    def get_closest_marker(self, name: str) -> bool:
        return name == "many"


def test_every_case_of_a_quarter_an_eighth_and_a_sixth_of_modules_is_run_by_some_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [Item(f"{number}") for number in range(30)]
    run = set()
    for seed in range(192):
        monkeypatch.setattr(conftest, "SEED", seed)
        others = conftest._list_skipped_cases(items)  # type: ignore[arg-type]
        [module] = conftest._choose_modules(FILES[:6], seed // 32, 6)
        eighth = {item for item in items if conftest._number_eighth(item) == 0}  # type: ignore[arg-type]
        run |= {(item.nodeid, module) for item in eighth - others}
    assert len(run) == 6 * len(items)

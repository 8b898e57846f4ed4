"""What is asked of every method here holds for any atoms."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _any_atoms(short_search: None) -> None:
    del short_search

"""Each mistake that benchmarks/_mutants.py tries has its one place in the code as it is today."""

import pytest

from benchmarks._mutants import MUTANTS, REPOSITORY, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{mutant.file}-{mutant.after}" for mutant in MUTANTS])
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    assert (REPOSITORY / mutant.file).read_text().count(mutant.before) == 1
    assert all((REPOSITORY / tests).exists() for tests in mutant.tests.split())

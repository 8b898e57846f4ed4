"""The adversary at sensitive sites finds nothing in KNN, and in Local the subjects that sites share."""

import random

import pytest

import benchmarks.papers.sensitive_sites  # noqa: F401 - adds knn and local
from tests.contract import test_methods_meet_their_attacks as meeting


@pytest.mark.parametrize("at", [False, True], ids=["one fix each", "at an instant"])
def test_the_adversary_finds_nothing_to_object_to_in_knn(cases, at):
    meeting.find_nothing_around_sites(cases, "knn", at, known="mk")


@pytest.mark.parametrize("algorithm", ["local", "local-2-by-2"])
def test_the_adversary_objects_to_local_wherever_a_subject_has_two_sites(algorithm):
    rng, shared = random.Random(algorithm), 0
    for _ in range(40):
        found = meeting.attack_around_sites(rng, algorithm, at=False, known="bk")
        if found is not None and found[0].metrics["shared_subjects"]:
            broken = {clause.name for clause in found[1].clauses if not clause.passed}
            assert "members" in broken
            shared += 1
    assert shared >= 10

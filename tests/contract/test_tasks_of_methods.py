"""Methods that share tasks compute the same cloaks whoever does these, in whatever number."""

import pickle

import numpy as np
import pytest

from dbanon.methods import METHODS
from dbanon.methods.kte import _blocks, _k_merge
from dbanon.methods.mob import _gen_ag
from dbanon.methods.semantic import _groups
from tests.contract.evidence import make_inputs, make_people
from tests.contract.test_methods import is_same

SHARED = [(family, one.name) for family in METHODS.values() if family.distributes for one in family.algorithms]


class Elsewhere:
    """`Tasks` of another machine: nothing but bytes come and go, and the last task is done first."""

    def __init__(self) -> None:
        self.done = 0

    def map(self, function, arguments, *, threads=1):
        # The protocol that keeps read-only arrays such, as runs send them: kernels for others would be compiled.
        sent = [pickle.dumps((function, each), pickle.HIGHEST_PROTOCOL) for each in arguments]
        self.done += len(sent)
        found = []
        for one in reversed(sent):
            task, each = pickle.loads(one)
            found.append(pickle.dumps(task(*each)))
        return [pickle.loads(one) for one in reversed(found)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("family", "algorithm"), SHARED, ids=[f"{f.name} {a}" for f, a in SHARED])
def test_cloaks_are_the_same_whoever_does_the_tasks(family, algorithm, seed, monkeypatch):
    # Tasks as small as can be, and candidates instead of all pairs.
    monkeypatch.setattr(_groups, "MAX_ALL_PAIRS_GROUPS", 3)
    monkeypatch.setattr(_groups, "_MIN_UNITS_PER_TASK", 7)
    monkeypatch.setattr(_groups, "_MIN_PAIRS_PER_TASK", 11)
    monkeypatch.setattr(_blocks, "MAX_BLOCK_SUBJECTS", 20)
    monkeypatch.setattr(_k_merge, "_SAMPLE_INPUTS_PER_TASK", 100)
    monkeypatch.setattr(_gen_ag, "_ADDITIONS_PER_TASK", 500)
    data, params = make_people(60, seed=seed, instants=16), family.parse(family.example, algorithm)
    given = make_inputs(family.reads, data)
    here = family.anonymise(data, algorithm, params, np.random.default_rng(seed), **given)
    elsewhere = Elsewhere()
    there = family.anonymise(data, algorithm, params, np.random.default_rng(seed), tasks=elsewhere, **given)
    assert elsewhere.done > 2
    assert is_same(here, there)

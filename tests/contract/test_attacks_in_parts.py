"""An attack finds the same whether one process has all fixes or several have those of some people each."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from dbanon.attacks import Evidence, import_attacker
from dbanon.attacks.shared.apart import WithoutFixes, find_ends
from dbanon.attacks.shared.replay import select_slots
from dbanon.base.trajectory import Trajectories
from dbanon.methods import METHODS
from dbanon.runs import parts
from tests.contract.evidence import Stored, make_inputs, make_people, run, store_cloaks

ALGORITHMS = [
    (family, algorithm.name)
    for family in METHODS.values()
    if getattr(import_attacker(family.attack), "APART", False)
    for algorithm in family.algorithms
]


def select_people(data: Trajectories, at: np.ndarray) -> Trajectories:
    number = np.diff(data.offset)
    fix = np.isin(np.repeat(np.arange(len(number)), number), at)
    return replace(
        data, trajectory_id=data.trajectory_id[at], subject=data.subject[at],
        offset=np.append(0, np.cumsum(number[at])), t=data.t[fix], x=data.x[fix], y=data.y[fix],
    )  # fmt: skip


class InParts:
    """`dbanon.attacks.shared.apart.Ask` that does all parts here, of which nothing but pickled bytes come and go."""

    def __init__(self, evidence: Evidence, number: int):
        self.evidence, self.number, self.asked = evidence, number, 0

    def __call__(self, look, arguments, bounds, prepare, given):
        self.asked += 1
        data, found = self.evidence.trajectories, []
        for at in reversed(parts._cut_people(data.subject, np.diff(data.offset), self.number)):
            question = pickle.loads(pickle.dumps((look, arguments, bounds, prepare)))
            found += self.look(select_people(data, at), *question, *self.values(at, given))
        return pickle.loads(pickle.dumps(found))

    def values(self, at, given):
        if given is None:
            return ()
        values, data = getattr(self.evidence.cells, given), self.evidence.trajectories
        owner = np.repeat(np.arange(len(data.subject)), np.diff(data.offset))[: len(values)]
        return (values[np.isin(owner, at)],)

    def look(self, data, look, arguments, bounds, prepare, *given):
        rows = {item.name: getattr(self.evidence, item.name) for item in fields(Evidence)}
        rows |= {
            "trajectories": parts._make_empty_people(),
            "params": {},
            "suppressed": {},
            "method": "",
            "algorithm": "",
        }
        members = np.isin(rows["member_trajectory"], data.trajectory_id)
        own = {name: rows[name][members] for name in parts._MEMBER_COLUMNS}
        rows |= parts._NO_ROWS if prepare is None else {name: parts._NO_ROWS[name] for name in parts._MEMBER_COLUMNS}
        made = () if prepare is None else (prepare(Evidence(**rows), *arguments),)
        data = select_slots(data, *bounds)
        if not len(data.trajectory_id):
            return []
        return [look(Evidence(**rows | (own if made else {}) | {"trajectories": data}), *arguments, *made, *given)]


def split_fixes(evidence: Evidence, number: int) -> Evidence:
    """Have the fixes of some evidence in so many parts."""
    data = evidence.trajectories
    names = ("trajectory_id", "subject", "srid", "grid_m", "grid_s", "day")
    cells = getattr(evidence, "cells", None)
    return replace(
        evidence,
        **({} if cells is None else {"cells": replace(cells, fix_cell=np.empty(0, np.int64))}),
        trajectories=WithoutFixes(
            **{name: getattr(data, name) for name in names},
            ends=find_ends(data),
            ask=InParts(evidence, number),
            read=lambda at: select_people(data, at),
        ),
    )


def move_row(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    bounds = evidence.region_bounds.copy()
    bounds[rng.integers(len(bounds))] += rng.choice([-1, 1]) * evidence.trajectories.grid_m
    return replace(evidence, region_bounds=bounds)


def lose_member(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    kept = np.arange(len(evidence.member_record)) != rng.integers(len(evidence.member_record))
    return replace(evidence, **{name: getattr(evidence, name)[kept] for name in parts._MEMBER_COLUMNS})


def add_stranger(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    member = evidence.member_trajectory.copy()
    member[rng.integers(len(member))] = 10**9
    return replace(evidence, member_trajectory=member)


def move_member(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    record = evidence.member_record.copy()
    record[rng.integers(len(record))] = rng.choice(evidence.record_id)
    return replace(evidence, member_record=record)


def move_fix(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    data = evidence.trajectories
    x = data.x.copy()
    x[rng.integers(len(x))] += 500
    return replace(evidence, trajectories=replace(data, x=x))


def move_fix_far(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    data = evidence.trajectories
    x = data.x.copy()
    x[rng.integers(len(x))] = 1e17
    return replace(evidence, trajectories=replace(data, x=x))


def add_somebody(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    data = evidence.trajectories
    number = int(np.diff(data.offset)[-1])
    return replace(
        evidence,
        trajectories=replace(
            data, trajectory_id=np.append(data.trajectory_id, data.trajectory_id[-1] + 1),
            subject=np.append(data.subject, data.subject.max() + 1), offset=np.append(data.offset, data.fixes + number),
            t=np.append(data.t, data.t[-number:]), x=np.append(data.x, data.x[-number:]),
            y=np.append(data.y, data.y[-number:]),
        ),
    )  # fmt: skip


def shorten_time(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    first, last = find_ends(evidence.trajectories)
    cut = int(first + rng.choice([0.3, 0.6]) * (last - first)) // 60 * 60
    return replace(evidence, params={**evidence.params, str(rng.choice(["since", "until"])): cut})


def leave_no_time(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    return replace(evidence, params={**evidence.params, "until": -(10**6)})


CHANGES = [
    move_row, lose_member, add_stranger, move_member, move_fix, move_fix_far, add_somebody,
    shorten_time, leave_no_time,
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("family", "algorithm"), ALGORITHMS, ids=[f"{f.name} {a}" for f, a in ALGORITHMS])
def test_the_verdict_is_the_same_in_parts(family, algorithm, seed):
    rng, data = np.random.default_rng(seed), make_people(60, seed=seed)
    if family.name == "sensitive-sites":
        data = select_people(data, np.flatnonzero(np.diff(data.subject, prepend=-1)))
    params = family.parse(family.example, algorithm)
    cloaks = run(family, algorithm, data, seed)
    package, rows = import_attacker(family.attack), store_cloaks(family, algorithm, params, data, cloaks)
    honest = package.read(rows, Stored(rows, cloaks, make_inputs((*family.reads, *family.joins), data)))
    assert package.attack(honest).passed
    for change in [None, *CHANGES]:
        evidence = honest if change is None else change(honest, rng)
        divided = split_fixes(evidence, int(rng.integers(2, 9)))
        assert package.attack(divided) == package.attack(evidence), change
        assert divided.trajectories.ask.asked or change is not None

"""A run over one evening says the same whether or not its dataset holds others: every figure of every family."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from dbanon.base.trajectory import QuasiIdentifiers, Requests, Trajectories
from dbanon.methods import METHODS
from tests.contract import evidence

EVENING_S = 1_212_609_600  # 2008-06-04 20:00 UTC
DAY_S = 86_400
SINCE_S, UNTIL_S = EVENING_S - 60, EVENING_S + 660

EVERY = [
    pytest.param(family, algorithm.name, id=f"{family.name}-{algorithm.name}")
    for family in METHODS.values()
    for algorithm in family.algorithms
]
every_algorithm = pytest.mark.parametrize(("family", "algorithm"), EVERY)


def make_evening(seed, names, at):
    """Let people of these names walk about for eight minutes; twice as far out on other evenings."""
    data = evidence.make_people(len(names), seed=seed, side=400.0 if at == EVENING_S else 800.0)
    return data, names, at


def join_evenings(evenings):
    """Put evenings into one dataset, and give all inputs that families take: those of each evening, at its time."""
    every = sorted({name for _, names, _ in evenings for name in names})
    code = {name: number for number, name in enumerate(every)}
    parts = [(data, np.array([code[name] for name in names]), at) for data, names, at in evenings]
    t, x, y = (np.concatenate([getattr(data, axis) for data, *_ in parts]) for axis in "txy")
    shift = np.repeat([at for *_, at in parts], [data.fixes for data, *_ in parts])
    length = np.concatenate([np.diff(data.offset) for data, *_ in parts])
    whole = Trajectories(
        trajectory_id=np.arange(len(length)),
        subject=np.concatenate([codes[data.subject] for data, codes, _ in parts]),
        offset=np.append(0, np.cumsum(length)), t=t + shift, x=x, y=y, srid=32610, grid_m=evidence.GRID_M, grid_s=1,
        subject_names=pa.array(every),
    )  # fmt: skip
    asked = [(evidence.make_requests(data), codes, at) for data, codes, at in parts]
    requests = Requests(
        subject=np.concatenate([np.append(codes, -1)[q.subject] for q, codes, _ in asked]),
        t=np.concatenate([q.t + at for q, _, at in asked]),
        content=np.concatenate([q.content for q, *_ in asked]), contents=evidence.CONTENTS,
    )  # fmt: skip
    known = [(evidence.make_quasi_identifiers(data), codes, at) for data, codes, at in parts]
    # Somebody whom the dataset does not know, and times before and after all fixes of the evening.
    subject = np.concatenate([np.concatenate([codes[q.subject], codes[:2], [-1]]) for q, codes, _ in known])
    times = np.concatenate([np.concatenate([q.t, [-30.0, 600.0, 60.0]]) + at for q, _, at in known])
    order = np.lexsort((times, subject))
    return whole, {
        "requests": requests,
        "quasi_identifiers": QuasiIdentifiers(subject=subject[order], t=times[order]),
        "sites": evidence.make_sites(make_evening(5, range(60), EVENING_S)[0]),
        "cells": make_cells(whole),
    }


def make_cells(data):
    """The same cells whichever evenings there are."""
    cells = evidence.make_cells(evidence.make_people(400, side=1600.0))
    wide = int(cells.neighbours[cells.neighbours[:, 1] - cells.neighbours[:, 0] > 1][0, 1])
    column, row = (np.floor((along + 200) / 100).astype(np.int64) for along in (data.x, data.y))
    return dataclasses.replace(cells, fix_cell=row * wide + column)


OWN = make_evening(5, [f"p{number:02}" for number in range(60)], EVENING_S)
BEFORE = make_evening(6, [f"p{number:02}" for number in range(40, 90)], EVENING_S - DAY_S)
AFTER = make_evening(
    7, [f"a{number:02}" for number in range(30)] + [f"p{number:02}" for number in range(9)], EVENING_S + DAY_S
)


def collect_figures(family, algorithm, data, given, **period):
    """All that a run says: of itself, of what it left out, and what its attack counts."""
    shifted = {family.instant: EVENING_S + 120} if family.instant else {}
    params = family.parse({**family.example, **shifted, **period}, algorithm)
    reads, joins = ({name: given[name] for name in names} for names in (family.reads, family.joins))
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(3), **reads)
    if joins:
        cloaks = family.attach(cloaks, data, params, **joins)
    verdict = evidence.attack_cloaks(family, algorithm, params, data, cloaks, given=given)
    broken = {clause.name: clause.violations for clause in verdict.clauses}
    assert verdict.figures
    return {**cloaks.metrics, "left out": cloaks.suppressed, **verdict.figures, "broken": broken}


@every_algorithm
def test_a_run_from_since_to_until_says_nothing_of_other_evenings(family, algorithm):
    period = {"since": SINCE_S, "until": UNTIL_S}
    alone = collect_figures(family, algorithm, *join_evenings([OWN]), **period)
    assert collect_figures(family, algorithm, *join_evenings([BEFORE, OWN, AFTER]), **period) == alone


@every_algorithm
def test_a_run_that_begins_within_the_data_says_nothing_of_what_was_before(family, algorithm):
    period = {next(name for name in (family.instant, *family.begins) if name): EVENING_S + 120}
    alone = collect_figures(family, algorithm, *join_evenings([OWN]), **period)
    assert collect_figures(family, algorithm, *join_evenings([BEFORE, OWN]), **period) == alone

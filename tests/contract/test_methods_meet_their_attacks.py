"""What every algorithm computes, as its adversary reads it: written from one text by two hands, they must agree."""

import dataclasses
import json
import random

import numpy as np
import pytest

from dbanon.attacks import ATTACKS, RequestEvidence
from dbanon.errors import InfeasibleError
from dbanon.methods import METHODS
from dbanon.trajectory import Requests, Trajectories

CONTENTS = ('{"poi": "bank"}', '{"poi": "rest"}', '{"q": "x"}')


def town(rng):
    """A few people in a few trajectories each, with fixes between slots, gaps, strays and twin times."""
    grid_s, subjects = rng.choice([1, 5, 60]), rng.randint(3, 25)
    paths = []
    for _ in range(rng.randint(subjects, 2 * subjects)):
        times = sorted(rng.sample(range(-500, 3000), rng.randint(1, 60)))
        x, y = rng.uniform(-300, 300), rng.uniform(-300, 300)
        walk = [(t / 2, x + rng.gauss(0, 40), y + rng.gauss(0, 40)) for t in times]
        paths.append((rng.randrange(subjects), walk))
    flat = np.array([fix for _, walk in paths for fix in walk])
    return Trajectories(
        trajectory_id=np.sort(np.array(rng.sample(range(1000), len(paths)))),
        subject=np.array([s for s, _ in paths]), offset=np.cumsum([0, *(len(w) for _, w in paths)]),
        t=flat[:, 0], x=flat[:, 1], y=flat[:, 2], srid=32610, grid_m=rng.choice([0.1, 1.0, 7.5]), grid_s=grid_s,
    )  # fmt: skip


def questions(rng, data):
    count = rng.randint(0, 60)
    return Requests(
        subject=np.array([rng.randint(-1, int(data.subject.max())) for _ in range(count)], np.int64),
        t=np.array([rng.uniform(-600, 2000) for _ in range(count)]),
        content=np.array([rng.randrange(3) for _ in range(count)], np.int64),
        contents=CONTENTS,
    )


def seen_from_outside(family, params, data, requests, cloaks):
    rows = [(r, json.loads(cloaks.extras[e])["requests"]) for r, e in enumerate(cloaks.extra.tolist()) if e >= 0]
    published = [(r, [json.loads(c) for c in CONTENTS].index(q)) for r, sent in rows for q in sent]
    row = np.array([r for r, _ in published], np.int64)
    return RequestEvidence(
        method=family.name, algorithm="traj-anon", params=json.loads(json.dumps(dataclasses.asdict(params))),
        suppressed=json.loads(json.dumps(cloaks.suppressed)), trajectories=data,
        cloak_record=cloaks.record_id, cloak_seq=cloaks.seq,
        cloak_start_s=cloaks.start.astype(float), cloak_end_s=cloaks.end.astype(float),
        cloak_bounds=cloaks.bounds, cloak_rectangle=np.ones(len(cloaks.seq), bool),
        cloak_srid=np.full(len(cloaks.seq), data.srid), cloak_crowd=cloaks.crowd, cloak_subjects=cloaks.subjects,
        cloak_other_keys=np.zeros(len(cloaks.seq), np.int64),
        member_record=cloaks.member_record, member_trajectory=cloaks.member_trajectory,
        member_whole=np.ones(len(cloaks.member_record), bool),
        published_request_record=cloaks.record_id[row], published_request_seq=cloaks.seq[row],
        published_request_content=np.array([c for _, c in published], np.int64),
        request_subject=requests.subject, request_t=requests.t, request_content=requests.content,
    )  # fmt: skip


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("cloak", ["mbr", "quadrant"])
def test_the_tp_aware_adversary_finds_nothing_to_object_to(align, cloak):
    family, rng, runs = METHODS["tp-aware"], random.Random(f"{align} {cloak}"), 0
    for _ in range(60):
        data = town(rng)
        step = rng.choice([60, 120, 300])
        params = family.parse({
            "k": rng.randint(2, 4), "step_s": step, "instants": rng.randint(1, 4), "align": align, "cloak": cloak,
            "max_gap_s": rng.choice([0, 60, 300]), "start": rng.choice([None, "0", "-120"]),
            "min_cloak_m": rng.choice([None, 3, 1.1, 50]),
        })  # fmt: skip
        try:
            cloaks = family.anonymise(data, "traj-anon", params, np.random.default_rng(0))
        except InfeasibleError:
            continue
        requests = questions(rng, data)
        joined = family.attach(cloaks, data, requests)
        verdict = ATTACKS[family.attack](seen_from_outside(family, params, data, requests, joined))
        assert verdict.passed, [c.sentence for c in verdict.clauses if not c.passed]
        runs += 1
    assert runs >= 10

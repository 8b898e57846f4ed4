"""What the attack on tp-aware finds where guests are stored wrongly: a mutant breaks its clause and no other."""

import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.base.cloaks import Cloaks
from dbanon.base.trajectory import Requests
from dbanon.methods import METHODS
from dbanon.methods.tp_aware import judge_presence
from tests.contract.evidence import verify_cloaks
from tests.unit.attack_evidence import make_trajectories

FAMILY = METHODS["tp-aware"]
GIVEN = {"k": 3, "instants": 3, "start": 0, "max_gap_s": 0}
NEAR, INSIDE, FAR = 7, 8, 9  # guests of A and of B, and who is too far away
CONTENTS = ('{"poi": "bank"}', '{"poi": "rest"}')


def make_scene():
    """A of three people, B of four; NEAR widens A at two instants, INSIDE is in B at one."""
    corners = [(0, 0), (10, 0), (0, 10)]
    at = [*corners, *((1000 + x, y) for x, y in corners), (1010, 10), (12, 5), (1004, 4), (500, 0)]
    when = {NEAR: (0, 1), INSIDE: (1,), FAR: (0, 2)}
    trips = {
        100 - s: (s, [(60.0 * i, x + i + 0.5, y + i + 0.5) for i in when.get(s, (0, 1, 2))])
        for s, (x, y) in enumerate(at)
    }
    return make_trajectories(trips, grid_m=1.0, grid_s=1)


DATA = make_scene()
SENT = Requests(
    subject=np.array([0, NEAR, NEAR, FAR]), t=np.array([125.0, 5.0, 130.0, 5.0]), content=np.array([1, 0, 0, 1]),
    contents=CONTENTS,
)  # fmt: skip


def run(data=DATA, sent=SENT, **given):
    params = FAMILY.parse({**GIVEN, **given})
    cloaks = FAMILY.anonymise(data, "traj-anon", params, np.random.default_rng(0))
    return FAMILY.attach(cloaks, data, params, requests=sent)


def find_broken(cloaks, data=DATA, sent=SENT, **given):
    params = FAMILY.parse({**GIVEN, **given})
    verdict = verify_cloaks(FAMILY, "traj-anon", params, data, cloaks, given={"requests": sent})
    return {clause.name for clause in verdict.clauses if not clause.passed}


def change(cloaks, suppressed=None, **columns):
    rows = {
        name: getattr(cloaks, name) for name in ("record_id", "start", "end", "bounds", "crowd", "subjects", "extra")
    }
    members = {f"member_{name}": getattr(cloaks, f"member_{name}") for name in ("record", "trajectory", "start", "end")}
    own = {"extras": cloaks.extras, "suppressed": suppressed or cloaks.suppressed, "metrics": cloaks.metrics}
    return Cloaks.from_rows(**{**rows, **members, **own, **columns})


def find_record(cloaks, subject):
    return int(cloaks.member_record[cloaks.member_trajectory == 100 - subject][0])


def shift(cloaks, subject, column, by, seqs=(1, 2, 3)):
    """Add to a column of some rows of a person's record."""
    values = getattr(cloaks, column).copy()
    values[(cloaks.record_id == find_record(cloaks, subject)) & np.isin(cloaks.seq, seqs)] += by
    return {column: values}


def keep(cloaks, kept):
    return {f"member_{n}": getattr(cloaks, f"member_{n}")[kept] for n in ("record", "trajectory", "start", "end")}


def state(cloaks, *, guests=0, published=0):
    """State other numbers of guests, and of people published, in the one window."""
    suppressed = copy.deepcopy(dict(cloaks.suppressed))
    suppressed["windows"][0]["published"] += published
    suppressed["by_hour"][0]["published"] += published
    for reasons in (suppressed["subjects"], suppressed["by_hour"][0]["left_out"]):
        reasons["absent_at_some_instant"] -= guests
    return suppressed


def is_trip(cloaks, subject):
    return cloaks.member_trajectory == 100 - subject


def join_twice(cloaks):
    """Make INSIDE, which B has at one instant, a guest of A as well, where A grows to hold it."""
    other = find_record(cloaks, NEAR)
    own = np.flatnonzero(is_trip(cloaks, INSIDE))
    members = {f"member_{n}": np.append(getattr(cloaks, f"member_{n}"), getattr(cloaks, f"member_{n}")[own])
               for n in ("trajectory", "start", "end")}  # fmt: skip
    bounds = cloaks.bounds.copy()
    bounds[(cloaks.record_id == other) & (cloaks.seq == 2), 2] = 1006.0
    return change(cloaks, member_record=np.append(cloaks.member_record, other), **members, bounds=bounds,
                  **shift(cloaks, NEAR, "subjects", 1))  # fmt: skip


def leave_out(cloaks):
    kept = ~is_trip(cloaks, INSIDE)
    return change(cloaks, state(cloaks, guests=-1, published=-1), **keep(cloaks, kept),
                  **shift(cloaks, INSIDE, "subjects", -1))  # fmt: skip


def mark(cloaks, subject, start, end, crowd):
    """Store another stretch of a person, none where both are 0."""
    starts, ends = cloaks.member_start.copy(), cloaks.member_end.copy()
    starts[is_trip(cloaks, subject)], ends[is_trip(cloaks, subject)] = start, end
    return change(cloaks, state(cloaks, guests=-crowd), member_start=starts, member_end=ends,
                  **shift(cloaks, subject, "crowd", crowd))  # fmt: skip


def publish_absent(cloaks):
    """Publish NEAR's request of the instant at which it is absent, beside that of a member."""
    extra = cloaks.extra.copy()
    extra[(cloaks.record_id == find_record(cloaks, NEAR)) & (cloaks.seq == 3)] = len(cloaks.extras)
    both = f'{{"requests": [{", ".join(CONTENTS)}]}}'
    return change(cloaks, extra=extra, extras=(*cloaks.extras, both))


def move_east(cloaks, by, seq):
    bounds = cloaks.bounds.copy()
    bounds[(cloaks.record_id == find_record(cloaks, NEAR)) & (cloaks.seq == seq), 2] += by
    return change(cloaks, bounds=bounds)


ALONE = {
    "a guest counted in crowd": ("crowd", lambda c: change(c, **shift(c, NEAR, "crowd", 1))),
    "subjects that follow a guest": ("crowd", lambda c: change(c, **shift(c, NEAR, "subjects", -1, seqs=(3,)))),
    "a guest of two bundles": ("once", join_twice),
    "a guest outside its box at one instant": ("covers", lambda c: move_east(c, -1, 1)),
    "a box that grew in a guest's absence": ("tight", lambda c: move_east(c, 1, 3)),
    "a guest left out": ("complete", leave_out),
    "a guest marked as a full member": ("presence", lambda c: mark(c, INSIDE, 0, 0, 1)),
    "a full member marked as a guest": ("presence", lambda c: mark(c, 6, 0, 180, -1)),
    "a stretch that is too long": ("presence", lambda c: mark(c, INSIDE, 60, 180, 0)),
    "a request of an instant of absence": ("requests-sent", publish_absent),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_mutant_of_guests_breaks_its_clause_and_no_other(name):
    clause, mutate = ALONE[name]
    cloaks = run()
    assert find_broken(cloaks) == set()
    assert find_broken(mutate(cloaks)) == {clause} | ({"one-group", "guests"} if clause == "once" else set())


def test_a_guest_that_widens_a_record_by_more_than_the_cap_is_found():
    sent = Requests(subject=SENT.subject[:3], t=SENT.t[:3], content=SENT.content[:3], contents=CONTENTS)
    cloaks = run(sent=sent)
    record, bounds = find_record(cloaks, NEAR), cloaks.bounds.copy()
    bounds[(cloaks.record_id == record) & np.isin(cloaks.seq, (1, 3)), 2] = 500 + np.array([1.0, 3.0])
    members = {"record": [record] * 2, "trajectory": [100 - FAR] * 2, "start": [0, 120], "end": [60, 180]}
    joined = {f"member_{n}": np.append(getattr(cloaks, f"member_{n}"), more) for n, more in members.items()}
    far = change(cloaks, state(cloaks, guests=1, published=1), **joined, bounds=bounds,
                 **shift(cloaks, NEAR, "subjects", 1))  # fmt: skip
    assert find_broken(far, sent=sent) == {"guests"}


def make_asking(rng, people, following, times, share):
    """Make a day of people, a sixth of whom are always there; `following` others are there only when they ask."""
    trips, sent = {}, []
    for s in range(people):
        asked = np.sort(rng.choice(np.arange(0, 120, 4), times, replace=False))
        there = np.arange(120) if s < people / 6 else np.flatnonzero(rng.random(120) < share)
        if s >= people - following:
            there = np.unique(np.concatenate([asked, asked + 1]))
        place = rng.uniform(0, 900, 2)
        trips[s] = (s, [(60.0 * i + 1, *place) for i in there] or [(1.0, *place)])
        sent += [(s, 60.0 * i + 1) for i in asked]
    subject, t = (np.array(column) for column in zip(*sent, strict=True))
    contents = np.zeros(len(t), np.int64)
    return make_trajectories(trips, grid_m=1.0, grid_s=1), Requests(
        subject=subject, t=t, content=contents, contents=CONTENTS
    )


@pytest.mark.parametrize("step_s", [60, 120])
@pytest.mark.parametrize("times", [1, 2, 6])
@pytest.mark.parametrize(("following", "wanted"), [(0, set()), (10, {"guests"}), (200, {"guests"})])
def test_guests_whose_presence_follows_what_they_ask_are_found(following, wanted, times, step_s):
    data, sent = make_asking(np.random.default_rng(5), 240, following, times, 0.5)
    given = {"instants": 30, "step_s": step_s, "max_gap_s": 60}
    cloaks = run(data, sent, **given)
    assert cloaks.metrics["guests"] > 50
    assert judge_presence(data, FAMILY.parse({**GIVEN, **given}), requests=sent) == ("asked" if wanted else "on")
    assert find_broken(cloaks, data, sent, **given) == wanted
    without = {**given, "guests": False}  # what the page says to do with a job whose night is refused
    assert find_broken(run(data, sent, **without), data, sent, **without) == set()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32), people=st.integers(8, 60), following=st.integers(0, 8), times=st.integers(1, 9),
    share=st.floats(0, 1),
)  # fmt: skip
def test_the_attack_refuses_no_guests_that_the_method_lets_join(seed, people, following, times, share):
    data, sent = make_asking(np.random.default_rng(seed), people, min(following, people - 4), times, share)
    given = {"instants": 2 + seed % 39, "max_gap_s": 60, "k": 2}
    found = judge_presence(data, FAMILY.parse({**GIVEN, **given}), requests=sent)
    broken = find_broken(run(data, sent, **given), data, sent, **given)
    assert broken <= {"guests"}
    assert not broken or found != "on"


def test_a_stretch_that_is_no_instants_is_a_fault():
    for start, end in ((60, 121), (120, 240), (61, 120)):
        assert find_broken(mark(run(), INSIDE, start, end, 0)) == {"members", "presence"}


def test_a_guest_does_not_make_a_group_of_k():
    cloaks = run()
    assert (int(cloaks.crowd.min()), int(cloaks.subjects.min())) == (3, 4)
    assert find_broken(cloaks, k=4) == {"size"}


def test_a_guest_that_sends_a_phrase_again_and_again_is_in_front():
    """At a guest's instant, it and two full members may have sent the phrase; at the other, another guest may not."""
    rng, trips = np.random.default_rng(7), {}
    for s in range(30):
        there = [i for i in range(48) if s < 24 or i % 4 == s % 2]  # guests at every fourth instant
        trips[s] = (s, [(60.0 * i, *rng.uniform(0, 900, 2)) for i in there])
    data = make_trajectories(trips, grid_m=1.0, grid_s=1)
    times = np.arange(0.0, 48, 8) * 60
    sent = Requests(subject=np.full(6, 24), t=times, content=np.zeros(6, np.int64), contents=CONTENTS)
    given = {"k": 2, "instants": 4}
    cloaks = run(data, sent, **given)
    verdict = verify_cloaks(
        FAMILY, "traj-anon", FAMILY.parse({**GIVEN, **given}), data, cloaks, given={"requests": sent}
    )
    names = ("requests_of_few_over_windows", "few_over_windows_greatest", "few_over_windows_people")
    assert verdict.passed
    assert [verdict.figures[name] for name in names] == [1, verdict.figures["few_over_windows_windows"], 1]


def test_guests_are_faults_where_the_run_let_none_join():
    cloaks = run()
    for why in ("off", "asked", "unknown"):
        told = dataclasses.replace(cloaks, suppressed=cloaks.suppressed | {"guests": why})
        assert "members" in find_broken(told)
    assert find_broken(dataclasses.replace(cloaks, suppressed=cloaks.suppressed | {"guests": "?"})) == {"decidable"}
    assert find_broken(run(guests=False), guests=False) == set()


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(["last", "exact", "linear"]), st.sampled_from([1, 2]), st.integers(1, 4))
def test_random_guests_withstand_the_attack_and_one_left_out_does_not(seed, align, contents, instants):
    rng = np.random.default_rng(seed)
    trips = {}
    for s in range(14):
        there = np.flatnonzero(rng.random(8) < (1 if s < 6 else 0.7))
        fixes = [(60.0 * i + 2.0, *rng.uniform(0, 60, 2)) for i in there] or [(0.0, 0.0, 0.0)]
        parts = 2 if s % 3 == 0 and len(fixes) > 1 else 1
        trips |= {10 * s + part: (s, fixes[part::parts]) for part in range(parts)}
    data = make_trajectories(trips, grid_m=1.0, grid_s=5)
    sent = Requests(
        subject=rng.integers(0, 14, 20), t=rng.uniform(-60, 600, 20), content=rng.integers(0, 2, 20), contents=CONTENTS
    )
    given = {"k": 2, "align": align, "min_contents": contents, "instants": instants, "max_gap_s": 120}
    cloaks = run(data, sent, **given)
    assert find_broken(cloaks, data, sent, **given) == set()
    assert cloaks.metrics["guests"] == (cloaks.subjects - cloaks.crowd)[cloaks.offset[:-1]].sum()
    without = run(data, sent, **given, guests=False)
    if contents == 1:  # otherwise rows are joined by what is sent
        assert without.crowd.tolist() == cloaks.crowd.tolist()

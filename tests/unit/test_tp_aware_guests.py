"""tp-aware's guests: who joins which bundle, when boxes grow, and that nothing depends on requests."""

import random
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import METHODS
from dbanon.methods.tp_aware import _guests, judge_presence
from tests.unit.small_worlds import compute_posteriors

SEED = 20120905
FAMILY = METHODS["tp-aware"]


def join_plainly(boxes, guests, cap):
    """Most instants first, then by number; each joins the box that grows least, by `cap` an instant at most."""
    boxes, home = [[list(one) for one in own] for own in boxes], [-1] * len(guests)

    def hold(box, place):
        return [min(box[0], place[0]), min(box[1], place[1]), max(box[2], place[0] + 1), max(box[3], place[1] + 1)]

    def measure(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    def find_growth(own, guest):
        return sum(measure(hold(own[j], at)) - measure(own[j]) for j, at in guest.items())

    joined = True
    while joined:
        joined = False
        for g in sorted(range(len(guests)), key=lambda g: (-len(guests[g]), g)):
            if home[g] < 0 and guests[g]:
                growth, best = min((find_growth(own, guests[g]), b) for b, own in enumerate(boxes))
                if growth <= cap * len(guests[g]):
                    home[g], joined = best, True
                    for j, at in guests[g].items():
                        boxes[best][j] = hold(boxes[best][j], at)
    return home, boxes


@pytest.mark.many
@pytest.mark.parametrize("side", [3, 30, 3000])
def test_guests_join_as_by_the_plain_rule(side):
    rng, joined = random.Random(SEED + side), 0
    for _ in range(60):
        instants, bundles = rng.choice([1, 2, 7]), rng.choice([1, 2, 9, 70, 200])
        boxes = []
        for _ in range(bundles):
            x, y, wide, high = (rng.randrange(1, side) for _ in range(4))
            boxes.append([[x + j, y, x + j + wide // 3 + 1, y + high // 3 + 1] for j in range(instants)])
        guests = [
            {j: (rng.randrange(-side, 2 * side), rng.randrange(side)) for j in range(instants) if rng.random() < 0.5}
            for _ in range(40)
        ]
        cap = rng.choice([0, 1, 2.5, side, side * side / 4])
        x, y = np.full((2, len(guests), instants), _guests.ABSENT, np.int32)
        for g, guest in enumerate(guests):
            for j, at in guest.items():
                x[g, j], y[g, j] = at
        box = np.array(boxes, np.int32)
        home = _guests.join(box, x, y, cap)
        assert (home.tolist(), box.tolist()) == join_plainly(boxes, guests, cap)
        joined += int((home >= 0).sum())
    assert joined > 300


def test_stretches_are_the_instants_without_a_break():
    present = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]], bool)
    assert [part.tolist() for part in _guests.list_stretches(present)] == [[0, 0, 2], [0, 3, 1], [2, 4, 3]]


def make_day(rng, times, asked):
    """People with fixes at these times each, and requests at some of them."""
    offset, t = np.cumsum([0, *map(len, times)]), np.concatenate(times)
    x, y = rng.uniform(0, 5000, (2, len(t)))
    data = Trajectories(
        trajectory_id=np.arange(len(times)), subject=np.arange(len(times)), offset=offset, t=t, x=x, y=y, srid=32610,
        grid_m=1.0, grid_s=1,
    )  # fmt: skip
    sent = np.concatenate(asked) if len(asked) else np.empty(0)
    sender = np.repeat(np.arange(len(asked)), [len(own) for own in asked])
    return data, Requests(subject=sender, t=sent, content=np.zeros(len(sent), np.int64), contents=('{"poi": "a"}',))


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("per_hour", [1, 6, 20])
def test_call_records_have_no_guests_and_devices_that_report_by_themselves_have(align, per_hour):
    rng = np.random.default_rng(SEED)
    calls = [np.unique(np.floor(rng.uniform(0, 86400, max(1, rng.poisson(24 * per_hour))))) for _ in range(60)]
    params = FAMILY.parse({"align": align})
    data, sent = make_day(rng, calls, calls)
    assert judge_presence(data, params, requests=sent) != "on"  # of a call an hour nobody may be seen
    # A fix a minute, of which a third are missing, whether somebody asks or not.
    beats = [np.arange(0.0, 86400, 60)[rng.random(1440) < 0.67] for _ in range(60)]
    data, sent = make_day(rng, beats, calls)
    assert judge_presence(data, params, requests=sent) == "on"
    assert FAMILY.settle_guests(data, params, None, requests=sent) == (params, {"guests": "on"})


@pytest.mark.parametrize(("whole", "calling", "beating"), [(12, 6, 0), (20, 5, 0), (0, 3, 60), (10, 5, 30)])
def test_a_few_who_are_there_only_to_ask_are_noticed_among_many_who_are_not(whole, calling, beating):
    rng = np.random.default_rng(SEED)
    minutes, times = np.arange(0.0, 86400, 60), []
    asked = [np.unique(np.floor(rng.uniform(0, 86400, 48))) for _ in range(whole + calling + beating)]
    for person, own in enumerate(asked):
        kept = rng.random(1440) < (1 if person < whole else 0.1)
        times.append(own if whole <= person < whole + calling else minutes[kept])
    data, sent = make_day(rng, times, asked)
    assert judge_presence(data, FAMILY.parse({}), requests=sent) == "asked"
    others = [own for n, own in enumerate(times) if not whole <= n < whole + calling]
    data, sent = make_day(rng, others, [own for n, own in enumerate(asked) if not whole <= n < whole + calling])
    assert judge_presence(data, FAMILY.parse({}), requests=sent) == ("on" if beating else "unknown")


def test_without_evidence_there_are_no_guests_and_a_decision_is_kept():
    rng = np.random.default_rng(SEED)
    beats = [np.arange(0.0, 7200, 60) for _ in range(9)]
    params = FAMILY.parse({})
    for asked in ([], [beats[0][60:65]]):
        data, sent = make_day(rng, beats, asked)
        off = FAMILY.settle_guests(data, params, None, requests=sent)
        assert (off[0].guests, off[1]) == (False, {"guests": "unknown"})
        assert FAMILY.settle_guests(data, params, "on", requests=sent)[0].guests
    assert FAMILY.settle_guests(data, FAMILY.parse({"guests": False}), "on", requests=sent)[1] == {}


def publish(places, order, sent=(), **given):
    """Publish people on a line, each `{instant: place}`, in an order of the run; requests are (person, instant)."""
    times = [np.array(sorted(places[person])) * 60.0 for person in order]
    x = np.concatenate([[places[person][i] for i in sorted(places[person])] for person in order]).astype(float)
    number, offset = np.arange(len(order)), np.cumsum([0, *map(len, times)])
    data = Trajectories(
        trajectory_id=number, subject=number, offset=offset, t=np.concatenate(times), x=x, y=np.zeros(len(x)),
        srid=32610, grid_m=1.0, grid_s=60,
    )  # fmt: skip
    params = FAMILY.parse({"k": 2, "instants": 2, "start": 0, "max_gap_s": 0, **given})
    cloaks = FAMILY.anonymise(data, "traj-anon", params, np.random.default_rng(0))
    requests = Requests(
        subject=np.array([order.index(person) for person, _ in sent], np.int64),
        t=np.array([60.0 * i for _, i in sent]), content=np.zeros(len(sent), np.int64), contents=('{"poi": "a"}',),
    )  # fmt: skip
    cloaks = FAMILY.attach(cloaks, data, params, requests=requests)
    columns = cloaks.bounds[:, 0], cloaks.bounds[:, 2], cloaks.crowd, cloaks.subjects, cloaks.extra
    rows = [*zip(cloaks.record_id.tolist(), cloaks.start.tolist(), *(c.tolist() for c in columns), strict=True)]
    whose = {order[t]: r for r, t in zip(cloaks.member_record.tolist(), cloaks.member_trajectory.tolist(), strict=True)}
    records = {r: tuple(row[1:] for row in rows if row[0] == r) for r in set(whose.values())}
    return {person: records[record] for person, record in whose.items()}, frozenset(records.values())


def test_a_guest_whose_place_is_not_known_is_in_each_record_with_guests_by_chance():
    """Every second place of two guests between two bundles, who are there at one instant, and all orders of the run."""
    worlds = []
    for first, second in product(range(0, 11, 2), repeat=2):
        places = [{0: 0, 1: 0}, {0: 1, 1: 1}, {0: 9, 1: 9}, {0: 10, 1: 10}, {1: first}, {1: second}]
        for units in permutations([[0, 1], [2, 3], [4], [5]]):
            whose, seen = publish(places, [person for unit in units for person in unit])
            found = Counter(whose[guest] for guest in (4, 5) if guest in whose)
            worlds.append(((seen, frozenset(found.items())), {(whose.get(g), g): Fraction(1) for g in (4, 5)}))
    posteriors, _ = compute_posteriors(worlds)
    for (_, found), conclusions in posteriors.items():
        for (record, _), likely in conclusions.items():
            assert likely == Fraction(dict(found).get(record, 2 - sum(dict(found).values())), 2)
    assert any(len(found) == 2 for _, found in posteriors)


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_of_all_trajectories_finds_no_sender_with_more_than_one_in_k(seed):
    """Every request that one person may send at an instant, in a small world, weighed exactly."""
    rng = random.Random(seed)
    present = [(0, 1)] * 5 + [rng.choice([(0,), (1,)]) for _ in range(3)]
    places = [{i: rng.randrange(12) for i in there} for there in present]
    worlds, guests = [], 0
    for person, there in enumerate(present):
        for instant in range(2):
            whose, seen = publish(places, [*range(8)], [(person, instant)])
            guests += len(there) == 1 and person in whose
            asked = any(row[-1] >= 0 for record in seen for row in record)
            assert asked == (person in whose and instant in there)
            if asked:
                worlds.append((seen, {person: Fraction(1)}))
    posteriors, _ = compute_posteriors(worlds)
    assert guests
    assert max(max(likely.values()) for likely in posteriors.values()) <= Fraction(1, 2)

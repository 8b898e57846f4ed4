"""What is held once, or given back: times that all trajectories have, and positions that nobody looks at any more."""

from dataclasses import replace

import numpy as np
import pytest

from dbanon.base.errors import DataError
from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import METHODS
from dbanon.postgres import arrow
from tests.contract.evidence import attack_cloaks

PEOPLE, TIMES = 12, np.array([0.0, 45.0, 60.0, 130.0])
FAMILY = METHODS["tp-aware"]
NONE = Requests(subject=np.empty(0, np.int64), t=np.empty(0), content=np.empty(0, np.int64), contents=())


def make_data(t, **others):
    x, y = np.random.default_rng(1).uniform(0, 900, (2, PEOPLE * len(TIMES)))
    number = np.arange(PEOPLE)
    return Trajectories(
        trajectory_id=number + 5, subject=number[::-1].copy(), offset=np.arange(PEOPLE + 1) * len(TIMES), t=t, x=x, y=y,
        srid=32610, grid_m=10.0, grid_s=30, **others,
    )  # fmt: skip


def bundle(data, **params):
    params = FAMILY.parse({"k": 3, "instants": 2, "step_s": 60, "start": 0, "max_gap_s": 120, **params})
    return params, FAMILY.anonymise(data, "traj-anon", params, np.random.default_rng(0))


@pytest.mark.parametrize("align", ["last", "exact", "linear"])
@pytest.mark.parametrize("until", [None, 120])
def test_times_that_all_have_give_the_same_cloaks_and_the_same_verdict_once_or_many_times(align, until):
    found = []
    for data in (make_data(TIMES), make_data(np.tile(TIMES, PEOPLE))):
        params, cloaks = bundle(data, align=align, until=until)
        verdict = attack_cloaks(
            FAMILY, "traj-anon", params, data, FAMILY.attach(cloaks, data, params, requests=NONE),
            given={"requests": NONE},
        )  # fmt: skip
        assert [c.name for c in verdict.clauses if not c.passed] == []
        found.append((cloaks.bounds.tolist(), cloaks.start.tolist(), cloaks.member_record.tolist(), verdict))
    assert found[0] == found[1]
    assert len(found[0][0]) > 0


def test_times_that_all_have_are_held_once_and_spelled_out_when_they_are_asked_for():
    data = make_data(TIMES)
    assert (len(data.times), data.fixes, data.t.tolist()) == (4, 48, TIMES.tolist() * PEOPLE)
    assert not data.t.flags.writeable
    assert replace(data, srid=4326).t.tolist() == data.t.tolist()
    with pytest.raises(AttributeError):
        _ = data.z


@pytest.mark.parametrize("t", [TIMES[::-1].copy(), TIMES[:3], np.array([0.0, np.nan, 60.0, 130.0])])
def test_times_that_cannot_be_those_of_all_are_refused(t):
    with pytest.raises(DataError):
        make_data(t)


def test_spare_positions_are_given_back_once_the_cells_of_the_last_window_are_known():
    _, kept = bundle(make_data(TIMES))
    spare = make_data(TIMES, is_spare=True)
    _, cloaks = bundle(spare)
    assert (len(spare.x), len(spare.y), spare.fixes) == (0, 0, 48)
    assert (cloaks.bounds.tolist(), cloaks.metrics) == (kept.bounds.tolist(), kept.metrics)


def test_positions_stay_where_guests_may_join():
    t = np.tile(np.array([0.0, 30.0, 60.0, 90.0]), PEOPLE)
    t[-4:] = 60.0, 70.0, 80.0, 90.0  # the last person is late
    spare = make_data(t, is_spare=True)
    _, cloaks = bundle(spare)
    assert cloaks.metrics["guests"] == 1
    assert len(spare.x) == 48


@pytest.mark.parametrize("odd", [None, 0, 3, 5])
def test_times_are_read_once_until_a_path_has_others(odd):
    times, read = [TIMES + (i == odd) for i in range(6)], arrow._Times(1)
    for part in (times[:1], times[1:3], times[3:]):
        read.append_paths(np.concatenate(part)[:, None], np.full(len(part), 4))
    expected = TIMES if odd is None else np.concatenate(times)
    assert read.finish()[0].tolist() == expected.tolist()

"""The shape of data, from a sample: what is the middle, what is far, and which axis is which."""

import numpy as np
import pytest

from dbanon.loading import _survey

RNG = np.random.default_rng(3)
BERLIN, CAIRO, LAGOS, FRISCO = (13.4, 52.5), (31.2, 30.0), (3.4, 6.5), (-122.4, 37.7)


def town(middle, n=1000, width=0.15):
    """Fixes evenly spread over a town, at minutes of half a day: float64[n, 3]."""
    return np.column_stack([RNG.uniform(-width, width, (n, 2)) + middle, RNG.uniform(0, 43_200, n)])


def swapped(sample):
    return sample[:, [1, 0, 2]]


def far(sample):
    found = _survey.shape(sample, geographic=True)
    x = sample[:, 0] - 360 * np.round((sample[:, 0] - sum(found.x) / 2) / 360)
    return (x < found.x[0]) | (x > found.x[1]) | (sample[:, 1] < found.y[0]) | (sample[:, 1] > found.y[1])


@pytest.mark.parametrize("place", [BERLIN, CAIRO, FRISCO])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.45])
def test_the_right_way_round_is_that_of_most(place, share):
    sample = town(place)
    wrong = int(share * len(sample))
    mixed = np.vstack([swapped(sample[:wrong]), sample[wrong:]])
    found = _survey.shape(mixed, geographic=True)
    assert found.home.x_is_greater == (place[0] > place[1])
    assert found.middle == pytest.approx(place, abs=0.02)
    assert (far(mixed) == (np.arange(len(sample)) < wrong)).all()


@pytest.mark.parametrize("place", [(7.0, 7.05), (0.0, 0.0)])
def test_where_the_diagonal_runs_through_the_data_no_axis_can_be_told(place):
    sample = town(place)
    assert _survey.shape(sample, geographic=True).home is None
    assert not far(sample).any()


@pytest.mark.parametrize("share", [0.001, 0.02, 0.2])
def test_a_receiver_that_says_zero_is_wild_however_often(share):
    sample = town(BERLIN)
    sample[: int(share * len(sample)), :2] = 0.0
    assert (far(sample) == (sample[:, 0] == 0)).all()


def test_one_parked_subject_makes_no_journey_wild():
    parked = np.column_stack([np.full((9000, 2), BERLIN), np.arange(9000.0)])
    assert not far(np.vstack([parked, town(BERLIN, 300)])).any()


@pytest.mark.parametrize("n", range(4, 40))
@pytest.mark.parametrize("where", [(0.0, 0.0), (170.0, 80.0), (13.4, -52.5)])
def test_one_wild_fix_among_few_is_found_on_either_side(n, where):
    sample = np.column_stack([np.linspace(13.39, 13.41, n), np.linspace(52.49, 52.51, n), np.arange(n) * 60.0])
    sample[n // 2, :2] = where
    assert far(sample).tolist() == [i == n // 2 for i in range(n)]


@pytest.mark.parametrize("other", [(18.4, -33.9), (-58.4, -34.6), (36.8, -1.3), (139.7, 35.7)])
def test_towns_on_either_side_of_the_diagonal_are_both_right(other):
    sample = np.vstack([town(BERLIN, 600), town(other, 400)])
    found = _survey.shape(sample, geographic=True)
    assert found.home is None or not found.home.swapped(sample[:, 0], sample[:, 1]).any()
    assert not far(sample).any()


def test_two_towns_of_which_one_is_small_are_both_kept():
    assert not far(np.vstack([town(BERLIN, 950), town((8.2, 53.1), 50)])).any()


def test_a_town_on_the_antimeridian_is_one_town():
    sample = town((179.95, -17.0))
    sample[:, 0] = (sample[:, 0] + 180) % 360 - 180
    found = _survey.shape(sample, geographic=True)
    assert not far(sample).any()
    assert abs((found.middle[0] + 180) % 360 - 180 - 179.95) < 0.05


def test_metres_are_judged_in_metres():
    sample = town(BERLIN)
    sample[:, :2] = sample[:, :2] * [65_000, 111_000]
    sample[0, 0] -= 600_000
    found = _survey.shape(sample, geographic=False)
    assert ((sample[:, 0] < found.x[0]) == (np.arange(1000) == 0)).all()


def test_times_long_before_the_rest_are_far():
    sample = town(BERLIN)
    sample[:, 2] += 1_212_562_800
    sample[:30, 2] = 0
    found = _survey.shape(sample, geographic=True)
    assert ((sample[:, 2] < found.t[0]) == (np.arange(1000) < 30)).all()


@pytest.mark.parametrize(("extents", "wild"), [(2.5, False), (4.5, True)])
def test_far_is_three_times_the_extent_of_the_middle(extents, wild):
    sample = town(BERLIN, 2000)
    sample[0, 0] = BERLIN[0] + 0.15 + extents * 0.3
    assert far(sample)[0] == wild

"""The shape of data, from a sample: what is the middle, what is far, and which axis is which."""

import numpy as np
import psycopg
import pytest

from dbanon.testing import cloned_database

RNG = np.random.default_rng(3)
BERLIN, CAIRO, LAGOS, FRISCO = (13.4, 52.5), (31.2, 30.0), (3.4, 6.5), (-122.4, 37.7)


@pytest.fixture(scope="module")
def server(dbanon_server, dbanon_template):
    """Connect to a database that nobody changes: the functions compute, and read no table."""
    with cloned_database(dbanon_server, dbanon_template) as url, psycopg.connect(url, autocommit=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def shape(server):
    def find(sample, *, geographic=True):
        query = "SELECT dbanon_internal.survey_shape(%s, %s, %s, %s)"
        return server.execute(query, [*(column.tolist() for column in sample.T), geographic]).fetchone()[0]

    return find


@pytest.fixture(scope="module")
def judged(server, shape):
    """``judged(sample)["far"]`` says of each fix whether it is; so do ``swap_axes`` and ``late``."""

    def judge(sample, **options):
        found = psycopg.types.json.Jsonb(shape(sample, **options))
        query = """SELECT dbanon_internal.is_swapped(x, y, shape), dbanon_internal.is_far(x, y, shape),
                dbanon_internal.is_late(t, shape)
            FROM unnest(%s::float8[], %s::float8[], %s::float8[]) AS fix (x, y, t), CAST(%s AS jsonb) shape"""
        rows = server.execute(query, [*(column.tolist() for column in sample.T), found]).fetchall()
        return dict(zip(("swapped", "far", "late"), np.array(rows, bool).T, strict=True))

    return judge


def make_town(middle, n=1000, width=0.15):
    """Fixes evenly spread over a town, at minutes of half a day: float64[n, 3]."""
    return np.column_stack([RNG.uniform(-width, width, (n, 2)) + middle, RNG.uniform(0, 43_200, n)])


def swap_axes(sample):
    return sample[:, [1, 0, 2]]


@pytest.mark.many
@pytest.mark.parametrize("place", [BERLIN, CAIRO, FRISCO])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.45])
def test_the_right_way_round_is_that_of_most(shape, judged, place, share):
    sample = make_town(place)
    wrong = int(share * len(sample))
    mixed = np.vstack([swap_axes(sample[:wrong]), sample[wrong:]])
    found, told = shape(mixed), judged(mixed)
    assert found["home"]["x_is_greater"] == (place[0] > place[1])
    assert found["middle"] == pytest.approx(place, abs=0.02)
    assert (told["far"] == (np.arange(len(sample)) < wrong)).all()
    assert (told["swapped"] == told["far"]).all()


@pytest.mark.parametrize("place", [(7.0, 7.05), (0.0, 0.0)])
def test_where_the_diagonal_runs_through_the_data_no_axis_can_be_told(shape, judged, place):
    sample = make_town(place)
    assert shape(sample)["home"] is None
    assert not judged(sample)["far"].any()


def test_only_middles_that_do_not_touch_tell_the_axes_apart(shape):
    apart = np.array([[0.0, 100.0, 0.0], [1000.0, 1100.0, 0.0], [0.0, 1100.0, 0.0]])
    for gap, told in ((0.0, False), (100.0, True)):
        sample = apart.copy()
        sample[:, 1] += 900 + gap  # the lesser end at 1,000, the greater begin there, or at 1,100
        assert (shape(sample, geographic=False)["home"] is not None) == told


@pytest.mark.parametrize("share", [0.001, 0.02, 0.2])
def test_a_receiver_that_says_zero_is_wild_however_often(judged, share):
    sample = make_town(BERLIN)
    sample[: int(share * len(sample)), :2] = 0.0
    assert (judged(sample)["far"] == (sample[:, 0] == 0)).all()


def test_one_parked_subject_makes_no_journey_wild(judged):
    parked = np.column_stack([np.full((9000, 2), BERLIN), np.arange(9000.0)])
    assert not judged(np.vstack([parked, make_town(BERLIN, 300)]))["far"].any()


@pytest.mark.parametrize("where", [(0.0, 0.0), (170.0, 80.0), (13.4, -52.5)])
def test_one_wild_fix_among_few_is_found_on_either_side(judged, where):
    for n in range(4, 40):
        sample = np.column_stack([np.linspace(13.39, 13.41, n), np.linspace(52.49, 52.51, n), np.arange(n) * 60.0])
        sample[n // 2, :2] = where
        assert judged(sample)["far"].tolist() == [i == n // 2 for i in range(n)]


@pytest.mark.many
@pytest.mark.parametrize("other", [(18.4, -33.9), (-58.4, -34.6), (36.8, -1.3), (139.7, 35.7)])
def test_towns_on_either_side_of_the_diagonal_are_both_right(judged, other):
    told = judged(np.vstack([make_town(BERLIN, 600), make_town(other, 400)]))
    assert not told["swapped"].any()
    assert not told["far"].any()


def test_two_towns_of_which_one_is_small_are_both_kept(judged):
    assert not judged(np.vstack([make_town(BERLIN, 950), make_town((8.2, 53.1), 50)]))["far"].any()


def test_a_town_on_the_antimeridian_is_one_town(shape, judged):
    sample = make_town((179.95, -17.0))
    sample[:, 0] = (sample[:, 0] + 180) % 360 - 180
    assert not judged(sample)["far"].any()
    assert abs((shape(sample)["middle"][0] + 180) % 360 - 180 - 179.95) < 0.05


def test_metres_are_judged_in_metres(judged):
    sample = make_town(BERLIN)
    sample[:, :2] = sample[:, :2] * [65_000, 111_000]
    sample[0, 0] -= 600_000
    assert (judged(sample, geographic=False)["far"] == (np.arange(1000) == 0)).all()


def test_times_long_before_the_rest_are_far(judged):
    sample = make_town(BERLIN)
    sample[:, 2] += 1_212_562_800
    sample[:30, 2] = 0
    assert (judged(sample)["late"] == (np.arange(1000) < 30)).all()


@pytest.mark.parametrize(("extents", "wild"), [(2.5, False), (4.5, True)])
def test_far_is_three_times_the_extent_of_the_middle(judged, extents, wild):
    sample = make_town(BERLIN, 2000)
    sample[0, 0] = BERLIN[0] + 0.15 + extents * 0.3
    assert judged(sample)["far"][0] == wild


@pytest.mark.many
@pytest.mark.parametrize(
    ("lon", "lat", "srid"), [(-180, 1, 32601), (180, -1, 32760), (6, 0, 32632), (5.99, -0.1, 32731)]
)
def test_zones_are_those_of_utm(server, lon, lat, srid):
    assert server.execute("SELECT dbanon_internal.find_utm_zone(%s, %s)", [float(lon), float(lat)]).fetchone() == (
        srid,
    )

"""People drawn like those of a release: where, when and how many, from rows in memory."""

import geopandas
import numpy as np
import pytest
import shapely
from pyproj import Transformer

from dbanon.base.errors import ParameterError
from dbanon.synth._like import Drawing
from tests.facts import expect_refusal

START_S, SRID = 1_767_600_000, 32632
CORNER = np.array([446_000.0, 5_888_000.0])
L_SHAPE = shapely.union_all(shapely.box([0, 0, 900], [0, 0, 900], [400, 40, 910], [40, 400, 910]))  # and a part afar


def make_frame(rows: list[tuple], holds: str = "instant", step_s: int | None = 60, presence: float = 0.0):
    """Rows of (record, minutes from, to, region in metres from `CORNER`, crowd, subjects)."""
    record, begin, end, region, crowd, subjects = zip(*rows, strict=True) if rows else ((),) * 6
    times = {name: np.array(at, "datetime64[m]") for name, at in (("valid_from", begin), ("valid_to", end))}
    columns = {"record_id": record, "seq": range(len(rows)), "crowd": crowd, "subjects": subjects}
    regions = shapely.transform(np.array(region, object), lambda at: at + CORNER)
    times = {name: at + np.timedelta64(START_S // 60, "m") for name, at in times.items()}
    frame = geopandas.GeoDataFrame({**columns, **times}, geometry=regions, crs=SRID)
    frame.attrs = {"release": "r", "holds": holds, "step_s": step_s, "guest_presence": presence, "srid": SRID}
    return frame


def draw(frame: geopandas.GeoDataFrame, seed: int = 1, size: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of people, seconds from the start, metres from `CORNER`."""
    parts = zip(*Drawing(frame).draw_fixes(seed, size), strict=True)
    person, t, degrees = (np.concatenate(columns) for columns in parts)
    at = Transformer.from_crs(4326, SRID, always_xy=True).transform(*degrees.T)
    return person, t - START_S, np.column_stack(at) - CORNER


def make_boxes(rng: np.random.Generator, records: int, rows: int) -> list[shapely.Polygon]:
    low, side = rng.integers(0, 5000, (records * rows, 2)), rng.integers(1, 2000, (records * rows, 2))
    return shapely.box(*low.T, *(low + side).T).tolist()


def test_each_person_keeps_a_place_in_the_regions_of_one_record(rng: np.random.Generator) -> None:
    boxes = make_boxes(rng, 20, 4)
    rows = [(7 + n // 4, n % 4, n % 4 + 1, box, 5, 5) for n, box in enumerate(boxes)]
    person, t, at = draw(make_frame(rows), size=40)
    assert np.array_equal(np.unique(person, return_counts=True), [np.arange(100), np.full(100, 4)])
    bounds = shapely.bounds(boxes).reshape(20, 4, 4)[person // 5, t // 60]
    place = (at - bounds[:, :2]) / (bounds[:, 2:] - bounds[:, :2])
    assert ((place > -1e-6) & (place < 1 + 1e-6)).all()
    assert np.ptp(place.reshape(100, 4, 2), axis=1).max() < 1e-3
    assert np.array_equal(t.reshape(100, 4), np.tile([0, 60, 120, 180], (100, 1)))


def test_a_row_of_several_instants_gives_a_fix_at_each() -> None:
    box = shapely.box(0, 0, 10, 10)
    person, t, _ = draw(make_frame([(1, 0, 3, box, 2, 2), (1, 3, 4, box, 2, 2)]))
    assert person.tolist() == [0] * 4 + [1] * 4
    assert t.tolist() == [0, 60, 120, 180] * 2
    assert draw(make_frame([(1, 5, 6, box, 3, 1)], step_s=None))[1].tolist() == [300]


def test_guests_are_there_for_their_share_of_the_rows() -> None:
    rows = [(record, n, n + 1, shapely.box(0, 0, 10, 10), 2, 4) for record in range(300) for n in range(10)]
    person, t, _ = draw(make_frame(rows, presence=0.63))
    count = np.bincount(person).reshape(300, 4)
    assert (count[:, :2] == 10).all()
    assert set(count[:, 2:].ravel().tolist()) == {6, 7}
    assert count[:, 2:].mean() == pytest.approx(6.3, abs=0.1)
    breaks = (np.diff(t) != 60) & (np.diff(person) == 0)
    assert np.bincount(person[1:][breaks]).max() == 1


def test_rows_that_hold_at_some_time_give_a_fix_each_in_their_period() -> None:
    rows = [(n // 2, n % 2 * 20, n % 2 * 20 + 30, L_SHAPE, 3, 1 + n // 2 % 3) for n in range(400)]
    person, t, at = draw(make_frame(rows, holds="some time", step_s=None))
    assert len(np.unique(person)) == sum(row[5] for row in rows[::2])
    assert len(np.unique(np.column_stack([person, t]), axis=0)) == len(person)
    assert (t >= 0).all()
    assert (t < 50 * 60).all()
    assert np.ptp(t) > 45 * 60
    # Places are in degrees on the way, which is a centimetre.
    assert shapely.dwithin(L_SHAPE, shapely.points(at), 0.01).all()
    parts = [np.mean(shapely.dwithin(part, shapely.points(at), 0.01)) for part in L_SHAPE.geoms]
    assert min(parts) == pytest.approx(min(part.area for part in L_SHAPE.geoms) / L_SHAPE.area, abs=0.02)


def test_a_thin_region_has_its_people_inside() -> None:
    thin = shapely.Polygon([(0, 0), (4000, 4000), (4000, 4000.5), (0, 0.5)])
    _, _, at = draw(make_frame([(1, 0, 1, thin, 50, 50)]))
    assert shapely.dwithin(thin, shapely.points(at), 0.01).all()


def test_a_seed_says_it_all() -> None:
    frame = make_frame([(1, n, n + 1, L_SHAPE, 5, 6) for n in range(5)], presence=0.5)
    one, same, other = draw(frame), draw(frame.sample(frac=1, random_state=3)), draw(frame, seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[2][:10], other[2][:10])


def test_a_release_without_rows_is_refused() -> None:
    with expect_refusal(ParameterError, "r", "rows"):
        Drawing(make_frame([]))

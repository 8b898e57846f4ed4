"""Files of other programs: what is read of them, and what is refused."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest

from dbanon.base.errors import DataError, ParameterError
from dbanon.base.figures import Movements
from dbanon.load import foreign
from dbanon.load.foreign import Rectangles

EXTENT = (0.0, 0.0, 100.0, 50.0)
POINTS = "ID,Time,X,Y\nb,20,3,4\na,10,1,2\nb,10,5,6\n"
BOXES = "id,since,until,xmin,ymin,xmax,ymax,subjects\n7,10,20,0,0,5,5,3\n7,0,10,1,1,6,6,3\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "other.csv"


def read(file: Path, text: str, **asked: object) -> Movements | Rectangles:
    file.write_text(text)
    return foreign.read(file, **({"srid": 32610, "extent": EXTENT} | asked))


def test_points_are_read_by_track_and_time_whatever_the_case_of_their_columns(file: Path) -> None:
    found = read(file, POINTS)
    assert isinstance(found, Movements)
    assert found.track.tolist() == found.person.tolist() == [0, 0, 1]
    assert found.t.tolist() == [10, 20, 10]
    assert found.x.tolist() == [5, 3, 1]
    assert found.weight.tolist() == [1, 1, 1]


def test_rectangles_are_read_with_the_people_they_stand_for(file: Path) -> None:
    found = read(file, BOXES)
    assert isinstance(found, Rectangles)
    assert found.since.tolist() == [0, 10]
    assert found.bounds.tolist() == [[1, 1, 6, 6], [0, 0, 5, 5]]
    assert found.subjects.tolist() == [3, 3]
    without = read(file, "record,from,to,min_x,min_y,max_x,max_y\n7,0,0,1,1,1,1\n")
    assert isinstance(without, Rectangles)
    assert without.subjects.tolist() == [1]


def test_columns_of_other_names_are_named(file: Path) -> None:
    columns = {"id": "who knows", "time": "z", "x": "east", "y": "north"}
    found = read(file, "who knows;z;east;north\n1;2008-06-04T00:00:00Z;1;2\n", columns=columns)
    assert isinstance(found, Movements)
    assert found.t.tolist() == [1212537600]
    local = read(file, "id,t,x,y\n1,2008-06-04 02:00,1,2\n", tz="Europe/Berlin")
    assert isinstance(local, Movements)
    assert local.t.tolist() == [1212537600]


def test_longitudes_and_latitudes_are_projected(file: Path) -> None:
    x, y = pyproj.Transformer.from_crs(4326, 32610, always_xy=True).transform(-122.4, 37.77)
    found = read(file, "uid,t,lat,lng\n1,5,37.77,-122.4\n", extent=(x - 1, y - 1, x + 1, y + 1))
    assert isinstance(found, Movements)
    assert (found.x[0], found.y[0]) == pytest.approx((x, y))


def test_parquet_and_gzip_are_read_alike(tmp_path: Path, file: Path) -> None:
    table = pa.table({"id": [2, 1], "time": pa.array([20, 10], pa.timestamp("s", "UTC")), "x": [1.5, 2], "y": [3, 4]})
    pq.write_table(table, tmp_path / "other.parquet")
    found = foreign.read(tmp_path / "other.parquet", srid=32610, extent=EXTENT)
    assert isinstance(found, Movements)
    assert found.t.tolist() == [20, 10]
    file.write_bytes(gzip.compress(POINTS.encode()))
    assert isinstance(foreign.read(file, srid=32610, extent=EXTENT), Movements)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("id,x,y\n1,2,3\n", ["'time'", "id, x, y", "--column time=NAME"]),
        ("id,since,xmin,ymin,xmax,ymax\n1,2,3,3,4,4\n", ["'until'", "--column until=NAME"]),
        ("time,x,y\n1,2,3\n", ["'id'"]),
        ("id,time,lon\n1,2,3\n", ["'lat'"]),
        ("id,time,x,y\n", ["rows"]),
        ("", ["empty"]),
        ("id,time,x,y\n1,2,nan,3\n1,3,4,inf\n1,3,4,5\n", ["1 row", "x"]),
        ("id,time,x,y\n1,later,2,3\n", ["1 row", "time"]),
        ("id,time,x,y\n,1,2,3\n", ["1 row", "id"]),
        ("id,time,x,y\n1,1,two,3\n1,1,,3\n", ["2 rows", "x"]),
        ("id,time,lon,lat\n1,2,37.7,-122.4\n", ["1 row", "swapped"]),
        ("id,time,x,y\n1,1,20,90\n", ["swapped"]),
        ("id,time,x,y\n1,1,2000,9000\n", ["reference system"]),
        ("id,since,until,xmin,ymin,xmax,ymax\n1,5,4,0,0,1,1\n", ["1 row", "until"]),
        ("id,since,until,xmin,ymin,xmax,ymax\n1,4,5,2,0,1,1\n", ["1 row", "xmin <= xmax"]),
        (BOXES.replace("5,5,3", "5,5,0"), ["1 row", "subjects"]),
        (BOXES.replace("5,5,3", "5,5,1.5"), ["1 row", "subjects"]),
        ("1,2,3,4\n1,2,3,4\n", ["header"]),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(file: Path, text: str, facts: list[str]) -> None:
    with pytest.raises(DataError) as refused:
        read(file, text)
    assert [fact for fact in facts if fact not in str(refused.value)] == []
    assert "122" not in str(refused.value)


def test_a_column_that_is_not_there_or_means_nothing_is_refused(file: Path) -> None:
    with pytest.raises(DataError, match="'when'"):
        read(file, POINTS, columns={"time": "when"})
    with pytest.raises(DataError, match="'height'"):
        read(file, POINTS, columns={"height": "X"})


def test_a_time_without_a_zone_needs_one(file: Path) -> None:
    with pytest.raises(ParameterError, match="zone"):
        read(file, "id,t,x,y\n1,2008-06-04 02:00,1,2\n")
    with pytest.raises(ParameterError, match="--tz"):
        read(file, POINTS, tz="Mars")


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exist"):
        foreign.read(tmp_path / "none.csv", srid=32610, extent=EXTENT)


def test_many_rows_come_out_in_order(file: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 50, 2000), rng.integers(0, 9999, 2000), 50 * rng.random((2000, 2))])
    found = read(file, "id,t,x,y\n" + "\n".join(",".join(map(repr, row)) for row in rows.tolist()))
    assert isinstance(found, Movements)
    assert (np.diff(found.track) >= 0).all()
    assert (np.diff(found.t)[np.diff(found.track) == 0] >= 0).all()
    assert len(np.unique(found.track)) == 50

import gzip
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from dbanon.base.errors import DataError, ParameterError
from dbanon.base.times import FIRST_S, LAST_S
from dbanon.load import _geometry, _parse, _tables, _trajectories
from dbanon.load.formats import tabular
from dbanon.options.loading import LoadingSites
from tests.facts import demand_named, expect_refusal


def _is_out_of_range(seconds):
    return np.isfinite(seconds) & ((seconds < FIRST_S) | (seconds >= LAST_S))


def _read(path, *names):
    parts = list(tabular.read_batches(path, names, option_names="--x"))
    return {name: [cell for part in parts for cell in part.columns[name].to_pylist()] for name in names}, [
        line for part in parts for line in part.line.to_pylist()
    ]


def _catch_refusal(path, *names):
    with pytest.raises(DataError) as refused:
        list(tabular.read_batches(path, names, option_names="--x"))
    return str(refused.value)


def test_numbers_are_read_with_signs_exponents_and_blanks():
    cells = pa.array(["1", " -2.5 ", "+3", "1e2", ".5", "5."])
    assert _parse.parse_numbers(cells).to_pylist() == [1.0, -2.5, 3.0, 100.0, 0.5, 5.0]


def test_cells_that_are_no_numbers_are_null_and_the_others_stay():
    cells = pa.array(["1", "", None, "x", "0x10", "1_0", "1,5", "--1", "2"])
    assert _parse.parse_numbers(cells).to_pylist() == [1.0, *[None] * 7, 2.0]


def test_nan_and_infinity_are_numbers_that_are_not_finite():
    cells = _parse.parse_numbers(pa.array(["nan", "NaN", "-inf", "Infinity", "1e999", "bad"])).to_pylist()
    assert [cell is not None and not math.isfinite(cell) for cell in cells] == [True] * 5 + [False]


def test_unix_seconds_and_iso_times_may_stand_in_one_column():
    cells = pa.array(["1212562884", "1212562884.25", "2008-06-04T07:01:24Z", "2008-06-04 09:01:24.5+02:00"])
    assert _parse.Times(None).convert_to_unix_s(cells).to_pylist() == [
        1212562884,
        1212562884.25,
        1212562884,
        1212562884.5,
    ]


@pytest.mark.parametrize(
    "cell", ["2008-06-04t07:01:64", "yesterday", "2008-02-30T00:00:00Z", "2008-13-01T00:00:00Z", ""]
)
def test_a_time_that_does_not_exist_is_null(cell):
    assert _parse.Times(None).convert_to_unix_s(pa.array([cell, "1212562884"])).to_pylist() == [None, 1212562884]


def test_nanoseconds_and_a_small_z_are_understood():
    cells = pa.array(["1970-01-01T00:00:01.123456789z", "1970-01-01T00:01Z"])
    assert _parse.Times(None).convert_to_unix_s(cells).to_pylist() == [1.123456, 60.0]


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_seconds_and_finer_units_since_1970_are_told_by_their_size(unit):
    cells = pa.array([1212562884 * unit, 1212562885 * unit])
    assert _parse.Times(None).convert_to_unix_s(cells).to_pylist() == pytest.approx([1212562884, 1212562885], abs=1e-5)
    assert _parse.Times(None).convert_to_unix_s(cells.cast(pa.string())).to_pylist() == pytest.approx(
        [1212562884, 1212562885]
    )


def test_the_unit_is_told_once_a_file_so_a_stray_number_is_a_wrong_time():
    times = _parse.Times(None)
    first = times.convert_to_unix_s(pa.array(["1212562884", "1212562884000", "1212562885"]))
    assert first.to_pylist() == [1212562884, LAST_S, 1212562885]
    assert times.convert_to_unix_s(pa.array(["1212562884000"])).to_pylist() == [LAST_S]
    assert _is_out_of_range(first.to_numpy()).tolist() == [False, True, False]


def test_a_number_of_another_unit_is_no_time():
    times = _parse.Times(None)
    first = times.convert_to_unix_s(pa.array([1212562884000] * 3 + [1212562884])).to_numpy()
    assert _is_out_of_range(first).tolist() == [False, False, False, True]


def test_dates_written_as_one_number_are_refused():
    with pytest.raises(DataError, match="YYYYMMDDhhmmss"):
        _parse.Times(None).convert_to_unix_s(pa.array([20080604120000, 20080604120100]))


def test_a_time_that_clocks_left_out_is_none():
    cells = pa.array(["2023-03-12 01:59:59", "2023-03-12 02:30:00", "2023-03-12 03:00:00"])
    assert _parse.Times("America/New_York").convert_to_unix_s(cells).to_pylist() == [1678604399, None, 1678604400]


def test_timestamps_beyond_all_years_do_not_wrap_round():
    cells = pa.array([2**60, 1212562884], pa.timestamp("s"))
    seconds = _parse.Times("UTC").convert_to_unix_s(cells).to_numpy()
    assert _is_out_of_range(seconds).tolist() == [True, False]
    assert seconds[1] == 1212562884


def test_a_column_of_dates_is_midnight_in_the_zone_given():
    cells = pa.array([14034], pa.int32()).cast(pa.date32())
    assert _parse.Times("UTC").convert_to_unix_s(cells).to_pylist() == [14034 * 86400]
    with pytest.raises(ParameterError, match="--tz"):
        _parse.Times(None).convert_to_unix_s(cells)


def test_cells_as_json_are_what_they_were():
    awkward = ["plain", 'a "quoted" one', "back\\slash", "späti", None, ""]
    rows = _parse.format_json(
        {'na"me': pa.array(awkward), "n": pa.array([1.5, 2.0, None, -0.25, 3.0, 4.0])}
    ).to_pylist()
    assert [json.loads(row)['na"me'] for row in rows] == awkward
    assert [json.loads(row)["n"] for row in rows] == ["1.5", "2", None, "-0.25", "3", "4"]
    assert json.loads(_parse.format_json({"c": pa.array(["tab\there\0"])})[0].as_py()) == {"c": "tab here "}


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_cells_may_be_separated_by_other_signs(tmp_path, separator):
    path = tmp_path / "other.csv"
    path.write_text(separator.join("abc") + "\n" + separator.join("123") + "\n")
    assert _read(path, "c", "a") == ({"c": ["3"], "a": ["1"]}, [2])


def test_a_column_of_lists_is_refused(tmp_path):
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"x": [[1.0, 2.0]]}), path)
    demand_named(_catch_refusal(path, "x"), "'x'", "lists.parquet", "one value", "lists")


def test_utf_16_is_told_from_a_binary_file(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("x,y\n1,2\n", encoding="utf-16")
    assert "not UTF-8. Convert it" in _catch_refusal(path, "x")


def test_naive_times_need_a_zone():
    cells = pa.array(["2008-06-04T00:01:24"])
    with pytest.raises(ParameterError, match="--tz"):
        _parse.Times(None).convert_to_unix_s(cells)
    assert _parse.Times("America/Los_Angeles").convert_to_unix_s(cells).to_pylist() == [1212562884]


def test_an_hour_that_happens_twice_is_the_first_of_the_two():
    cells = pa.array(["2008-11-02T01:30:00"])
    assert _parse.Times("America/Los_Angeles").convert_to_unix_s(cells).to_pylist() == [1225614600]


def test_a_zone_that_does_not_exist_is_refused():
    with pytest.raises(ParameterError, match="Mars/Olympus"):
        _parse.demand_zone("Mars/Olympus")
    _parse.demand_zone(None)
    _parse.demand_zone("Europe/Berlin")


def test_parquet_timestamps_are_read_with_and_without_a_zone():
    aware = pa.array([1_500_000], pa.timestamp("ms", "Europe/Berlin"))
    naive = pa.array([1_500_000, None], pa.timestamp("ns"))
    assert _parse.Times(None).convert_to_unix_s(aware).to_pylist() == [1500.0]
    assert _parse.Times("UTC").convert_to_unix_s(naive).to_pylist() == [0.0015, None]
    with pytest.raises(ParameterError):
        _parse.Times(None).convert_to_unix_s(naive)


def test_subjects_lose_blanks_and_empty_ones_are_null():
    assert _parse.parse_texts(pa.array([" a ", "", "  ", None])).to_pylist() == ["a", None, None, None]
    assert _parse.parse_texts(pa.array([7, None], pa.int16())).to_pylist() == ["7", None]


def test_lines_count_from_the_header_over_several_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "BLOCK_BYTES", 64)
    path = tmp_path / "fixes.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(100)))
    columns, lines = _read(path, "b")
    assert columns["b"] == [str(i * i) for i in range(100)]
    assert lines == list(range(2, 102))


def test_a_byte_order_mark_quotes_and_line_breaks_in_quotes_are_read(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_bytes(b'\xef\xbb\xbfa,b\r\n"x, y","1\n2"\r\n')
    (batch,) = tabular.read_batches(path, ["a", "b"], option_names="--a", may_break=["b"])
    assert {name: column.to_pylist() for name, column in batch.columns.items()} == {"a": ["x, y"], "b": ["1\n2"]}


def test_an_open_quote_that_swallows_rows_is_named_by_its_line(tmp_path):
    path = tmp_path / "open.csv"
    path.write_text("a,b\nx,1\n" + '"y,1\nz,2\n"w,3\n' + "v,4\n")
    demand_named(_catch_refusal(path, "a"), "'a'", path.name, "line 3", "quote")


@pytest.mark.parametrize(
    "header", ["alice 37.75134 -122.39488 0 1213084687", "alice,Jun 4 2008 12:00,N37.7749,W122.4194", "bob;N37.7;W122"]
)
def test_a_header_that_may_be_somebodys_data_is_not_told(tmp_path, header):
    path = tmp_path / "headless.csv"
    path.write_text(header + "\n" + header + "\n")
    told = _catch_refusal(path, "subject")
    assert not [word for word in ("37.7", "122", "2008", "1213") if word in told], told


def test_gzip_is_known_by_its_content_not_by_its_name(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert _read(path, "a") == ({"a": ["1", "2"]}, [2, 3])


def test_parquet_columns_keep_their_types_and_dictionaries_are_undone(tmp_path):
    path = tmp_path / "fixes.parquet"
    names = pa.array(["x", "y", "x"]).dictionary_encode()
    pq.write_table(pa.table({"n": pa.array([1, 2, 3], pa.int8()), "s": names}), path)
    assert _read(path, "s", "n") == ({"s": ["x", "y", "x"], "n": [1, 2, 3]}, [2, 3, 4])


def test_a_missing_column_names_those_found(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_text("cab,when\n1,2\n")
    demand_named(_catch_refusal(path, "cab", "x"), "fixes.csv", "'x'", "cab, when")


def test_a_file_without_a_header_is_refused_without_quoting_it(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_text("17,37.75,-122.39\n")
    assert "header" in _catch_refusal(path, "x")
    assert "37.75" not in _catch_refusal(path, "x")


def test_a_ragged_row_is_named_by_its_line_and_not_quoted(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_text("a,b\n1,2\n3\n")
    demand_named(_catch_refusal(path, "a"), "fixes.csv", "line 3", "1 cell", 2)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty file"),
        (b"\n\n", "empty file"),
        (b"a,b\n", "Got none"),
        (b"\x7fELF\0\0\0\0", "binary"),
        (b"PAR1 and nothing else", "breaks off"),
        (b"a\n\xff\xfe1\n", "UTF-8"),
        (gzip.compress(b"a\n" + b"1\n" * 99_999)[:-40], "gzip"),
        (b"\x1f\x8b nothing of the kind", "gzip"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(tmp_path, content, word):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert word in _catch_refusal(path, "a")


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "fixes.csv"
    path.write_text("a,a\n1,2\n")
    assert "several" in _catch_refusal(path, "a")


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    assert "exist" in _catch_refusal(tmp_path / "nothing.csv", "a")
    assert "directory" in _catch_refusal(tmp_path, "a")


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        ({"geom": "area", "x": "lon"}, ("both", "--geom", "--x and --y")),
        ({"geom": "area", "y": "y"}, ("both", "--geom")),
        ({"x": "lon", "y": "lon"}, ("position", "'lon'")),
        ({"x": "y"}, ("position", "'y'")),
        ({"name": "x"}, ("position and name", "'x'")),
        ({"geom": "area", "name": "area"}, ("position and name", "'area'")),
        ({"x": "Lat", "y": "lng"}, ("longitude", "latitude", "'Lat'", "'lng'", "--x lng --y Lat")),
    ],
)
def test_columns_of_sites_that_cannot_be_meant_are_refused(columns, facts):
    with expect_refusal(ParameterError, *facts):
        _tables._choose_columns(LoadingSites(dataset="d", **columns))


def test_columns_of_sites_are_x_and_y_where_nothing_is_said():
    for columns, named in (
        ({}, ["x", "y"]),
        ({"name": "n"}, ["x", "y", "n"]),
        ({"geom": "area"}, ["area"]),
        ({"x": "lon"}, ["lon", "y"]),
        ({"geom": "area", "name": "n"}, ["area", "n"]),
    ):
        assert _tables._choose_columns(LoadingSites(dataset="d", **columns)) == named


def test_shapes_that_cannot_be_read_are_null_and_endless_ones_infinite():
    cells = [
        "POINT (1 2)",
        "POINT (nan nan)",
        "POINT EMPTY",
        "POLYGON ((0 0, 1 1))",
        "CIRCULARSTRING (0 0, 1 1, 2 0)",
        "?",
        "",
    ]
    shapes = shapely.from_wkb(_geometry.read_shapes(pa.array(cells))[0].to_pylist())
    assert [None if shape is None else shape.wkt for shape in shapes[:3]] == [
        "POINT (1 2)",
        "POINT (Infinity Infinity)",
        "POINT EMPTY",
    ]
    assert list(shapes[3:]) == [None] * 4


def test_points_are_null_where_a_coordinate_is_missing_and_never_empty():
    made = _tables._encode_points(pa.array([1.0, None, float("nan")]), pa.array([2.0, 2.0, float("nan")]))
    shapes = shapely.from_wkb(made.to_pylist())
    assert [shape and shape.wkt for shape in shapes] == ["POINT (1 2)", None, "POINT (Infinity Infinity)"]


def test_times_that_are_not_finite_are_infinite_and_wild_ones_stay_out_of_range():
    made = _tables._encode_timestamps(pa.array([0.0, None, float("inf"), float("nan"), 1e30, -1e30]))
    micros = [None if cell is None else int.from_bytes(cell, "big", signed=True) for cell in made.to_pylist()]
    assert micros[0] == -946_684_800_000_000
    assert micros[1] is None
    assert micros[2] == micros[3] == 2**63 - 1
    assert micros[4] / 1e6 > 1e11 > -6.3e10 > micros[5] / 1e6


def test_a_box_whose_least_x_is_the_greater_crosses_the_antimeridian():
    x, y = np.array([179.5, -179.5, 0.0]), np.zeros(3)
    assert _trajectories._is_inside(x, y, (179, -1, -179, 1)).tolist() == [True, True, False]
    assert _trajectories._is_inside(x, y, (-179.6, -1, 1, 1)).tolist() == [False, True, True]

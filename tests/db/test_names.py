"""Who is nobody, which numbers are one person, and which names have lost digits: in files and tables alike."""

import csv
import itertools

import psycopg
import pytest

from dbanon import load
from dbanon.options.loading import LoadingQuasiIdentifiers, LoadingRequests, LoadingTrajectories
from dbanon.postgres import sqlstate
from tests.reading import collect_notices

WORDS = ["NA", "N/A", "NULL", "nan", "None", "\\N", ""]
OTHERS = ["na", "null", "NaN", "none", "N", "-", "0"]
_numbers = itertools.count(1)


class Source:
    """Loads rows of some names from a file, or from a table of the same rows."""

    def __init__(self, connection: psycopg.Connection, folder, kind: str) -> None:
        self.connection, self.folder, self.kind = connection, folder, kind

    def load(self, names, verb="trajectories", **options):
        number = next(_numbers)
        rows = [(name, 1212562800 + 60 * i + 3600 * number, -122.4 + i * 1e-3, 37.7) for i, name in enumerate(names)]
        options = {"dataset": "d", **options}
        if self.kind == "table":
            return self._import(rows, verb, f"public.gps{number}", options)
        path = self.folder / f"{number}.csv"
        with path.open("w") as file:
            csv.writer(file).writerows([["subject", "time", "x", "y"], *rows])
        if verb == "trajectories":
            return load.load_trajectories(self.connection, [path], LoadingTrajectories(**options))
        if verb == "requests":
            return load.load_requests(self.connection, path, LoadingRequests(columns=["x"], **options))
        return load.load_quasi_identifiers(self.connection, path, LoadingQuasiIdentifiers(**options))

    def _import(self, rows, verb, table, options):
        self.connection.execute(f"CREATE TABLE {table} (subject text, time bigint, x float8, y float8)")
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s, %s)", rows)
        more = {"trajectories": {"x": "x", "y": "y"}, "requests": {"columns": ["x"]}}.get(verb, {})
        options = options | more
        words = ", ".join(f"{name} => %({name})s" for name in options)
        heard = collect_notices(self.connection)
        function = "import_quasi_identifiers" if verb == "quasi-identifiers" else f"import_{verb}"
        with self.connection.cursor(row_factory=psycopg.rows.namedtuple_row) as cursor:
            made = cursor.execute(f"SELECT * FROM dbanon.{function}('{table}', {words})", options).fetchone()
        notices = tuple(f"Notice: {sqlstate.adapt_to_command_line(text)}" for text in heard)
        return load.LoadReport(
            dataset="d", kind=verb, load_id=made.load_id, source=[table], read=made.rows_read, kept=made.rows_kept,
            quarantined=made.quarantined, trajectories=0, subjects=made.subjects, srid=0, far={}, notices=notices,
            left_out={"forgotten": made.forgotten} if made.forgotten else {},
        )  # fmt: skip

    def read_names(self, table="trajectory"):
        query = (
            f'SELECT DISTINCT subject COLLATE "C" FROM dbanon.{table} JOIN dbanon.dataset USING (dataset_id) ORDER BY 1'
        )
        return [name for (name,) in self.connection.execute(query)]


@pytest.fixture(params=["file", "table"])
def source(connection, tmp_path, request):
    return Source(connection, tmp_path, request.param)


VERBS = pytest.mark.parametrize(
    ("verb", "table"),
    [("trajectories", "trajectory"), ("requests", "request"), ("quasi-identifiers", "quasi_identifier")],
)


def _prepare(source, verb):
    """Have a dataset to load other kinds into; returns how the load is called."""
    if verb != "trajectories":
        source.load(["p", "q"])
        return {}
    return {}


def _say_nobody(report):
    return [text for text in report.notices if "name no person" in text]


@VERBS
def test_words_for_nobody_are_no_people_and_a_notice_counts_them(source, verb, table):
    _prepare(source, verb)
    report = source.load([*WORDS, *OTHERS, " NA "], verb)
    assert report.quarantined == {"missing-subject": len(WORDS) + 1}
    assert set(OTHERS) <= set(source.read_names(table)) <= {*OTHERS, "p", "q"}
    (said,) = _say_nobody(report)
    assert said.startswith(f"Notice: {len(WORDS)} rows ")
    kept = source.connection.execute("SELECT content ->> 'subject' FROM dbanon.quarantine ORDER BY line")
    assert [name for (name,) in kept] == [*WORDS, " NA "]


@VERBS
def test_another_list_of_words_for_nobody(source, verb, table):
    _prepare(source, verb)
    report = source.load(["NA", "unknown", ""], verb, nulls=[" unknown "])
    assert report.quarantined == {"missing-subject": 2}
    assert "NA" in source.read_names(table)
    assert "1 row has" in _say_nobody(report)[0]


@VERBS
@pytest.mark.parametrize("nulls", [[], [""]])
def test_the_empty_text_alone_may_be_nobody(source, verb, table, nulls):
    _prepare(source, verb)
    report = source.load([*WORDS], verb, nulls=nulls)
    assert report.quarantined == {"missing-subject": 1}
    assert not _say_nobody(report)
    assert set(WORDS) - {""} <= set(source.read_names(table))


def test_the_notice_on_nobody_says_how_to_have_them_back(source):
    (said,) = _say_nobody(source.load(["NA", "a"]))
    assert said.endswith("such as --null NULL,nan.")
    assert source.load(["NA", "a"], nulls=["NULL", "nan"], mode="append").quarantined == {}


@VERBS
def test_floats_that_are_whole_are_whole_where_all_names_are(source, verb, table):
    _prepare(source, verb)
    source.load(["219000101.0", "219000102.0", "", "219000101.0", "NA"], verb)
    assert {"219000101", "219000102"} <= set(source.read_names(table)) <= {"219000101", "219000102", "p", "q"}


@pytest.mark.parametrize(
    "names", [["1", "1.0"], ["1.0", "1"], ["1.0", "2.5"], ["2.0", "a"], ["1.0", "1.00"], ["01.0", "2.0"], ["1.0.0"]]
)
def test_floats_beside_other_names_stay(source, names):
    source.load(names)
    assert source.read_names() == sorted(names)


def test_a_whole_column_decides_also_where_it_comes_in_batches(connection, tmp_path, monkeypatch):
    monkeypatch.setattr("dbanon.load.formats.arrow.ROWS_PER_SLICE", 100)
    names = [f"{i % 50}.0" for i in range(1000)]
    source = Source(connection, tmp_path, "file")
    source.load(names)
    assert source.read_names() == sorted(str(i) for i in range(50))
    source.load([*(f"{name}"[:-2] + "7.0" for name in names), "77"], dataset="e", population="other")
    assert "77.0" in source.read_names()


@VERBS
def test_a_population_that_knows_the_float_keeps_it(source, verb, table):
    source.load(["7.0", "a"])
    source.load(["7.0", "8.0"], verb, **({"mode": "append"} if verb == "trajectories" else {}))
    assert {"7.0", "8"} <= set(source.read_names(table)) <= {"7.0", "8", "a"}
    source.load(["7.0"], dataset="beside")
    assert "7" not in source.read_names()
    source.load(["7.0"], dataset="elsewhere", population="others")
    assert "7" in source.read_names()


@pytest.mark.parametrize("verb", ["requests", "quasi-identifiers"])
def test_a_float_known_from_other_rows_than_trajectories_keeps_its_form(source, verb):
    source.load(["a", "b"])
    source.load(["7.0", "a"], verb)
    source.load(["7.0", "8.0"], mode="append")
    assert source.read_names() == ["7.0", "8", "a", "b"]


def test_a_float_beside_other_names_is_the_person_whom_the_population_knows_by_the_whole_number(source):
    source.load(["7.0", "8.0"])
    source.load(["7.0", "guest", "9.0"], mode="append")
    assert source.read_names() == ["7", "8", "9.0", "guest"]
    source.load(["8.0", "8"], mode="append")
    assert source.read_names() == ["7", "8", "8.0", "9.0", "guest"]


@pytest.mark.parametrize(("stored", "called"), [("7", "7.0"), ("7.0", "7"), ("7.0", "7.0")])
@VERBS
def test_the_forgotten_stay_forgotten_in_either_form(source, stored, called, verb, table):
    source.load([stored, "a"])
    source.load([stored, "a"], "requests")
    source.connection.execute("SELECT dbanon.forget_subject('d', %s)", [called])
    mode = {"mode": "append"} if verb == "trajectories" else {}
    for names in (["7.0", "9.0"], ["7", "c"], ["7.0", "c"]):
        assert source.load(names, verb, **mode).left_out == {"forgotten": 1}
    assert not {"7", "7.0"} & set(source.read_names(table))
    assert source.connection.execute("SELECT dbanon.remember_subject('default', '7')").fetchone() == (True,)
    assert source.load(["7", "e"], verb, **mode).left_out == {}


def test_to_forget_takes_the_name_as_given_where_both_stand(source):
    source.load(["7", "7.0", "a"])
    source.connection.execute("SELECT dbanon.forget_subject('d', '7.0')")
    assert source.read_names() == ["7", "a"]


def test_rejected_rows_of_a_forgotten_float_go(source):
    source.load(["7.0", "8.0", "7.0"])
    source.connection.execute("UPDATE dbanon.quarantine SET reason = reason")
    source.connection.execute(
        "INSERT INTO dbanon.quarantine (load_id, line, reason, content) "
        "SELECT load_id, 9, 'unparsable-time', '{\"subject\": \"7.0\"}' FROM dbanon.load"
    )
    source.connection.execute("SELECT dbanon.forget_subject('d', '7')")
    assert source.connection.execute("SELECT count(*) FROM dbanon.quarantine").fetchone() == (0,)


@VERBS
@pytest.mark.parametrize("name", ["8.65E+14", "8,65E+14", "9E+5", "1.2e+08", "1.5E+2"])
def test_names_that_lost_digits_are_said(source, verb, table, name):
    _prepare(source, verb)
    report = source.load([name, name, "a"], verb)
    (said,) = [text for text in report.notices if "lost digits" in text]
    assert "ames such as 9.99E+99 have lost digits: several " in said
    assert name not in " ".join(report.notices)


@pytest.mark.parametrize("name", ["1.5E+1", "E+5", "12E+5", "a8.65E+14", "8.65E-14", "865000000000001", "1E5"])
def test_names_with_all_digits_are_not(source, name):
    assert not [text for text in source.load([name, "a"]).notices if "digits" in text]


def test_a_job_takes_the_words_for_nobody(connection, tmp_path):
    connection.execute(
        "CREATE TABLE public.gps AS SELECT unnest(ARRAY['NA', 'none', '5.0']) AS subject, "
        "now() - interval '1 day' AS time, ST_SetSRID(ST_MakePoint(8, 53), 4326) AS geom"
    )
    asked = "jsonb_populate_record(NULL::dbanon_internal.loading, %s)"
    connection.execute(
        f"SELECT dbanon_internal.import_fixes('public.gps', {asked})",
        [psycopg.types.json.Jsonb({"dataset": "d", "subject": "subject", "time_column": "time", "geom": "geom",
                                   "nulls": ["none"], "mode": "new", "grid_m": 1, "grid_s": 1})],
    )  # fmt: skip
    assert Source(connection, tmp_path, "table").read_names() == ["5.0", "NA"]

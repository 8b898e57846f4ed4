"""Releases that only named roles read, and what readers are shown of the releases they may read: with real logins."""

import itertools
import random
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.types.json import Jsonb

from dbanon import releases
from dbanon.database import Database
from dbanon.options.publishing import Publishing
from dbanon.postgres.server import parse
from dbanon.results.figures import round_percent
from dbanon.runs import stored
from dbanon.testing import database_url
from tests.acceptance.commands import call, read_json
from tests.db.conftest import VERIFY
from tests.db.test_dump_restore import dump_database, restore_dump
from tests.db.test_withdrawal import IMPATIENT, is_ended
from tests.db.written import CONTRACTS, write
from tests.facts import demand_refused, expect_refusal
from tests.reading import collect_notices, read_column, read_value

Login = Callable[[str], str]
Roles = Callable[[], str]
SEEN = "SELECT name FROM published.releases ORDER BY 1"
PUBLISH = "SELECT dbanon.publish(1, %s, readers => %s)"
REPLACE = "SELECT dbanon.publish(1, %s, replace => true, readers => %s)"
RIGHTS = """SELECT count(*) FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = %s::regrole"""


@pytest.fixture
def role(connection: psycopg.Connection) -> Iterator[Callable[..., str]]:
    """Makes a role of the server that cannot log in."""
    made = []

    def make(name: str = "readers") -> str:
        made.append(f"{name}_{secrets.token_hex(4)}")
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(made[-1])))
        return made[-1]

    yield make
    for name in made:
        if read_value(connection, "SELECT count(*) FROM pg_roles WHERE rolname = %s", name):
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.fixture
def auditors(role: Roles) -> str:
    return role()


@pytest.fixture
def auditor(auditors: str, operator: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    """A login of the role that alone reads ``ten``, beside ``all_ten`` of all analysts."""
    operator.execute(PUBLISH, ["ten", [auditors]])
    operator.execute(PUBLISH, ["all_ten", None])
    with psycopg.connect(login(auditors), autocommit=True) as opened:
        yield opened


@pytest.fixture
def analyst(operator: psycopg.Connection, login: Login) -> Iterator[psycopg.Connection]:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as opened:
        yield opened


def can_read(connection: psycopg.Connection, name: str) -> bool:
    """Whether a login reads a release; the list of releases must say the same."""
    try:
        shown = read_column(connection, SEEN)
    except errors.InsufficientPrivilege:
        shown = []
    try:
        found = read_value(connection, f"SELECT count(*) FROM published.{name}") == 4
    except errors.InsufficientPrivilege:
        found = False
    assert (name in shown) is found
    return found


# --- who reads what ---------------------------------------------------------------------------------------------------


def test_a_named_role_reads_its_release_alone_and_analysts_do_not(
    auditor: psycopg.Connection, analyst: psycopg.Connection, operator: psycopg.Connection
) -> None:
    assert {name: [can_read(who, name) for who in (auditor, analyst, operator)] for name in ("ten", "all_ten")} == {
        "ten": [True, False, True],
        "all_ten": [False, True, True],
    }


def test_a_reader_may_do_nothing_else(connection: psycopg.Connection, auditor: psycopg.Connection) -> None:
    relations = "SELECT relname FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace AND relkind IN ('r', 'v')"
    statements = [f'SELECT * FROM dbanon."{name}"' for name in read_column(connection, relations)]
    for statement in (
        *statements,
        "SELECT dbanon.publish(1, 'more')",
        "SELECT dbanon_internal.join_hours('[]', 2)",
        "CREATE VIEW published.mine AS SELECT 1",
        "UPDATE published.releases SET k = 1",
        "INSERT INTO published.left_out VALUES ('ten')",
        "SELECT * FROM published.releases FOR UPDATE",
        "BEGIN; LOCK TABLE published.releases IN SHARE MODE",
    ):
        with pytest.raises((errors.InsufficientPrivilege, errors.ObjectNotInPrerequisiteState)):
            auditor.execute(statement)  # type: ignore[arg-type]
        auditor.rollback()


@pytest.mark.filterwarnings("ignore")
def test_a_reader_passes_nothing_on(auditor: psycopg.Connection, analyst: psycopg.Connection) -> None:
    auditor.execute("GRANT SELECT ON published.ten TO dbanon_analyst")  # the server only warns
    assert not can_read(analyst, "ten")


def test_a_login_of_two_roles_reads_the_releases_of_both(
    operator: psycopg.Connection, connection: psycopg.Connection, role: Roles, login: Login
) -> None:
    first, second, third = role(), role(), role()
    for name, readers in (("one", [first]), ("two", [second, first, second]), ("three", [third])):
        operator.execute(PUBLISH, [name, readers])
    assert read_value(connection, "SELECT readers FROM dbanon.releases WHERE name = 'two'") == sorted([first, second])
    with psycopg.connect(login(first), autocommit=True) as both:
        assert read_column(both, SEEN) == ["one", "two"]
        connection.execute(f"GRANT {third} TO {both.info.user}")
        assert [can_read(both, name) for name in ("one", "two", "three")] == [True] * 3


def test_a_login_that_does_not_inherit_sees_its_releases_after_set_role(
    auditor: psycopg.Connection, auditors: str, connection: psycopg.Connection
) -> None:
    user = auditor.info.user
    connection.execute(f"ALTER ROLE {user} NOINHERIT")
    connection.execute(f"REVOKE {auditors} FROM {user}; GRANT {auditors} TO {user}")  # from 16 on it is the grant's
    with pytest.raises(errors.InsufficientPrivilege):
        auditor.execute(SEEN)
    auditor.execute(f"SET ROLE {auditors}")
    assert can_read(auditor, "ten")


def test_an_operator_sees_as_analyst_what_analysts_see(
    auditor: psycopg.Connection, operator: psycopg.Connection
) -> None:
    assert read_column(operator, SEEN) == ["all_ten", "ten"]
    operator.execute("SET ROLE dbanon_analyst")
    assert not can_read(operator, "ten")


@pytest.mark.many
@pytest.mark.parametrize("name", ["Aud\"it'or; DROP SCHEMA dbanon", "PUBLIC", "CURRENT_USER", "ü %s %I $$"])
def test_a_role_of_any_name_reads_its_release(
    operator: psycopg.Connection, role: Callable[..., str], login: Login, name: str
) -> None:
    made = role(name)
    operator.execute(PUBLISH, ["ten", [made]])
    with psycopg.connect(login(made), autocommit=True) as reader:
        assert can_read(reader, "ten")
    operator.execute("SELECT dbanon.unpublish('ten')")
    assert read_value(operator, RIGHTS, sql.Identifier(made).as_string(operator)) == 0


@pytest.mark.many
@pytest.mark.parametrize(
    ("readers", "fact"),
    [
        (["public"], "'public'"),
        (["nobody_of_this_name"], "'nobody_of_this_name'"),
        (['x"; DROP SCHEMA dbanon; --'], "DROP SCHEMA"),
        (["PUBLIC"], "'PUBLIC'"),
        (["current_user"], "'current_user'"),
        ([], "empty"),
        ([None], "NULL"),
        (["pg_monitor", None], "NULL"),
        (["dbanon_operator"], "'dbanon_operator'"),
        (["dbanon_worker"], "'dbanon_worker'"),
        (["dbanon_admin"], "'dbanon_admin'"),
        (["dbanon_analyst", "pg_monitor"], "'dbanon_analyst'"),
    ],
)
def test_what_cannot_be_a_reader_is_refused_before_anything_is_done(
    operator: psycopg.Connection, readers: list[str], fact: str
) -> None:
    with expect_refusal("DA011", fact):
        operator.execute(PUBLISH, ["ten", readers])
    with expect_refusal("DA011", fact):
        releases.demand_publishable(operator, "ten", Publishing(replace=False, readers=readers))
    assert read_column(operator, SEEN) == []


def test_a_superuser_cannot_be_a_reader(operator: psycopg.Connection, connection: psycopg.Connection) -> None:
    with expect_refusal("DA011", connection.info.user):
        operator.execute(PUBLISH, ["ten", [connection.info.user]])


# --- replacing and withdrawing ----------------------------------------------------------------------------------------


def test_replacing_keeps_the_readers_unless_others_are_given(
    auditor: psycopg.Connection,
    analyst: psycopg.Connection,
    operator: psycopg.Connection,
    role: Roles,
    login: Login,
) -> None:
    other = role()
    with psycopg.connect(login(other), autocommit=True) as board:
        for given, expected in ((None, auditor), ([other], board), (None, board), (["dbanon_analyst"], analyst)):
            operator.execute(REPLACE, ["ten", given])
            assert [who for who in (auditor, board, analyst) if can_read(who, "ten")] == [expected]
            assert can_read(operator, "ten")


def test_readers_stay_where_the_columns_change(
    connection: psycopg.Connection, auditor: psycopg.Connection, operator: psycopg.Connection
) -> None:
    sites = write(connection, CONTRACTS["sites"])
    operator.execute(
        "SELECT dbanon.publish(%s, 'ten', replace => true, allow_overlap => true, reason => 'only for this test')",
        [sites],
    )
    assert read_value(auditor, "SELECT count(*) FROM published.ten WHERE cloaked") == 5


def test_a_right_given_by_hand_ends_with_the_next_publication_for_named_readers(
    connection: psycopg.Connection,
    auditor: psycopg.Connection,
    analyst: psycopg.Connection,
    operator: psycopg.Connection,
) -> None:
    connection.execute("GRANT SELECT ON published.ten TO dbanon_analyst")
    assert can_read(analyst, "ten")
    operator.execute(REPLACE, ["ten", None])
    assert not can_read(analyst, "ten")
    assert can_read(auditor, "ten")


def test_the_rights_of_a_role_go_with_its_last_release(
    connection: psycopg.Connection, auditor: psycopg.Connection, auditors: str, operator: psycopg.Connection
) -> None:
    operator.execute(PUBLISH, ["more", [auditors]])
    operator.execute("SELECT dbanon.unpublish('ten')")
    assert read_column(auditor, SEEN) == ["more"]
    with pytest.raises(errors.DependentObjectsStillExist):
        connection.execute(f"DROP ROLE {auditors}")
    operator.execute("SELECT dbanon.unpublish('more')")
    with pytest.raises(errors.InsufficientPrivilege):
        auditor.execute(SEEN)
    assert read_value(connection, RIGHTS, auditors) == 0
    connection.execute(f"DROP ROLE {auditors}")


def test_a_reader_that_was_dropped_must_be_replaced_by_another(
    connection: psycopg.Connection,
    auditor: psycopg.Connection,
    auditors: str,
    operator: psycopg.Connection,
    role: Roles,
) -> None:
    connection.execute(f"DROP OWNED BY {auditors}; DROP ROLE {auditors}")
    assert can_read(operator, "ten")
    with expect_refusal("DA011", auditors):
        operator.execute(REPLACE, ["ten", None])
    operator.execute(REPLACE, ["ten", [role()]])
    operator.execute("SELECT dbanon.unpublish('ten')")


@pytest.mark.filterwarnings("ignore")
def test_a_reader_whose_savepoint_hides_an_open_grant_keeps_no_release(
    auditor: psycopg.Connection, auditors: str, operator: psycopg.Connection
) -> None:
    """The grant grants nothing, but changes the view's row in the catalog; its savepoint has no holder."""
    for part in ("BEGIN", "SAVEPOINT a", "GRANT SELECT ON published.ten TO PUBLIC", "RELEASE a"):
        auditor.execute(part)  # type: ignore[arg-type]
    operator.execute("SELECT dbanon.unpublish('ten', end_readers => true)")
    operator.execute(PUBLISH, ["ten", [auditors]])  # the name is free
    assert is_ended(auditor)


@pytest.mark.filterwarnings("ignore")
def test_an_open_grant_on_the_list_of_releases_delays_only_what_the_list_is_for(
    connection: psycopg.Connection, auditor: psycopg.Connection, auditors: str, operator: psycopg.Connection
) -> None:
    auditor.execute("BEGIN; GRANT SELECT ON published.releases TO PUBLIC")
    operator.execute("SELECT dbanon.unpublish('ten')")
    assert read_value(connection, RIGHTS, auditors) > 0
    auditor.rollback()
    operator.execute("SELECT dbanon.clear_withdrawn()")
    assert read_value(connection, RIGHTS, auditors) == 0


def test_the_hint_of_a_refused_replacement_names_the_new_readers(
    connection: psycopg.Connection, auditor: psycopg.Connection, operator: psycopg.Connection, role: Roles
) -> None:
    connection.execute(IMPATIENT)
    other = role()
    auditor.execute("BEGIN; SELECT FROM published.ten")
    with expect_refusal("DA013", f"readers => ARRAY['{other}']"):
        operator.execute(REPLACE, ["ten", [other]])
    with pytest.raises(psycopg.Error) as caught:
        operator.execute(REPLACE, ["ten", None])
    assert "ARRAY" not in str(caught.value.diag.message_hint)


def test_the_audit_the_list_and_the_card_name_the_readers(
    auditor: psycopg.Connection, auditors: str, operator: psycopg.Connection
) -> None:
    lines = "SELECT detail -> 'readers' FROM dbanon.audit WHERE action = 'publish' ORDER BY audit_id"
    assert read_column(operator, lines) == [[auditors], None]
    assert read_column(operator, "SELECT readers FROM dbanon.releases ORDER BY name") == [None, [auditors]]
    assert releases.read_card(operator, "ten")["readers"] == [auditors]
    with pytest.raises(errors.InsufficientPrivilege):
        operator.execute("UPDATE dbanon.release SET readers = NULL")


def test_readers_and_what_they_see_are_restored_from_a_dump(
    database: str, auditor: psycopg.Connection, analyst: psycopg.Connection, auditors: str, login: Login
) -> None:
    with restore_dump(dump_database(database), database) as url:
        dbname = parse(url)["dbname"]
        for role, shown in ((auditors, ["ten"]), ("dbanon_analyst", ["all_ten"])):
            with psycopg.connect(database_url(login(role), dbname=dbname), autocommit=True) as reader:
                assert read_column(reader, SEEN) == shown
                assert can_read(reader, shown[0])


# --- the command line and Python --------------------------------------------------------------------------------------


def test_commands_name_readers_and_show_their_releases(
    database: str, connection: psycopg.Connection, run: int, role: Roles
) -> None:
    first, second = sorted((role(), role()))
    told = read_json(call(database, "publish", "1", "ten", "--readers", first, "--readers", second, "--json"))
    assert told["rows_published"] == 4
    assert read_json(call(database, "releases", "--json"))["releases"][0]["readers"] == [first, second]  # type: ignore[index]
    assert first in call(database, "card", "ten").stdout
    assert len(releases.read_first_rows(connection, "ten", 10)[1]) == 4
    demand_refused(call(database, "publish", "1", "other", "--readers", "public"), 2, "'public'", "--readers auditors")
    demand_refused(call(database, "run", "tp-aware", "--dataset", "ten", "--readers", first), 2, "--publish")


def test_a_run_is_published_for_its_readers(
    database: str, connection: psycopg.Connection, run: int, role: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "_run_here", lambda self, ask, asked: stored.read_result(self.connection, run))
    given = ("run", "tp-aware", "--dataset", "ten", "-p", "k=5", "--publish", "ran", "--readers")
    demand_refused(call(database, *given, "nobody_of_this_name"), 2, "'nobody_of_this_name'")
    made = role()
    assert call(database, *given, made).code == 0
    assert read_value(connection, "SELECT readers FROM dbanon.releases") == [made]


# --- what they are shown ----------------------------------------------------------------------------------------------


def test_the_list_says_what_a_release_is_and_nothing_of_its_origin(
    analyst: psycopg.Connection, auditor: object
) -> None:
    cursor = analyst.execute("SELECT * FROM published.releases")
    assert [c.name for c in cursor.description or ()] == [
        *("name", "method", "k", "promise", "since", "until", "srid", "rows", "holds", "step_s", "window_s"),
        *("day_zone", "extent", "parts", "starts", "ends", "longest_s", "guest_presence", "people", "interval_factor"),
    ]
    [(name, method, k, promise, since, until, srid, rows, *says)] = cursor.fetchall()
    assert (name, method, k, srid, rows) == ("all_ten", "tp-aware", 5, 32610, 4)
    assert says == ["instant", 60, 120, None, [0, 0, 110, 90], 1, [since], [until], 60, 0, 10, 2]
    assert promise in read_value(analyst, "SELECT obj_description('published.all_ten'::regclass)")
    assert (since, until) == analyst.execute("SELECT min(valid_from), max(valid_to) FROM published.all_ten").fetchone()


@pytest.mark.parametrize("view", ["releases", "parts", "left_out", "columns"])
def test_no_function_of_a_reader_is_called_for_what_it_may_not_see(
    connection: psycopg.Connection, operator: psycopg.Connection, role: Roles, analyst: psycopg.Connection, view: str
) -> None:
    state_hours(connection, [make_hour(0, 50, 10)])
    operator.execute(PUBLISH, ["hidden", [role()]])
    operator.execute(PUBLISH, ["shown", None])
    analyst.execute(
        "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS"
        " $$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"
    )
    heard = collect_notices(analyst)
    analyst.execute(f"SELECT FROM published.{view} WHERE pg_temp.leak(name)")
    assert set(heard) == {"shown"}


def test_columns_say_what_they_mean_in_their_order_and_only_of_releases_for_the_reader(
    operator: psycopg.Connection, role: Roles, login: Login, analyst: psycopg.Connection
) -> None:
    auditors = role()
    operator.execute(PUBLISH, ["hidden", [auditors]])
    operator.execute(PUBLISH, ["shown", None])
    listed = "SELECT * FROM published.columns"
    found = analyst.execute(listed).fetchall()
    described = analyst.execute(
        "SELECT 'shown', attnum, attname::text, format_type(atttypid, atttypmod), col_description(attrelid, attnum)"
        " FROM pg_attribute WHERE attrelid = 'published.shown'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert found == described.fetchall()
    assert [row[2] for row in found][:2] == ["cloak_id", "record_id"]
    assert all(row[4] for row in found)
    assert read_column(operator, "SELECT DISTINCT name FROM published.columns ORDER BY 1") == ["hidden", "shown"]
    with psycopg.connect(login(auditors), autocommit=True) as auditor:
        assert read_column(auditor, "SELECT DISTINCT name FROM published.columns") == ["hidden"]
    operator.execute("SELECT dbanon.unpublish('shown')")
    assert analyst.execute(listed).fetchall() == []


def make_hour(at: int, published: int, left_out: int) -> dict[str, Any]:
    return {
        "hour": f"2008-06-04T{at:02}:00Z",
        "seen": published + left_out,
        "published": published,
        "left_out": {"one": left_out // 2, "other": left_out - left_out // 2},
    }


def state_hours(connection: psycopg.Connection, hours: list[dict[str, Any]]) -> None:
    """Make run 1 say what it left out by hour."""
    connection.execute("UPDATE dbanon.run SET suppressed = %s", [Jsonb({"by_hour": hours})])
    connection.execute(VERIFY, [True])


def test_shares_by_hour_are_shown_with_the_release_they_are_of(
    connection: psycopg.Connection, operator: psycopg.Connection, analyst: psycopg.Connection, role: Roles
) -> None:
    state_hours(
        connection,
        [make_hour(7, 20, 4), make_hour(8, 30, 5), make_hour(10, 90, 10), make_hour(11, 3, 9), make_hour(12, 80, 0)],
    )
    operator.execute(PUBLISH, ["ten", None])
    operator.execute(PUBLISH, ["hidden", [role()]])
    analyst.execute("SET timezone = 'UTC'; SET datestyle = 'German'")
    shown = analyst.execute(
        "SELECT name, extract(hour FROM since)::int, extract(hour FROM until)::int, percent FROM published.left_out"
    )
    assert shown.fetchall() == [("ten", 7, 9, 15), ("ten", 10, 11, 10), ("ten", 11, 13, 10)]
    assert len(operator.execute("SELECT FROM published.left_out").fetchall()) == 6
    assert "left_out" not in str(read_column(analyst, "SELECT obj_description('published.ten'::regclass)"))


def test_a_release_that_left_out_fewer_than_k_has_no_line(
    connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    for hours in ([], [make_hour(7, 20, 2), make_hour(8, 30, 2)], [make_hour(7, 2, 20), make_hour(8, 2, 20)]):
        state_hours(connection, hours)
        operator.execute("SELECT dbanon.publish(1, 'ten', replace => true)")
        assert read_column(operator, "SELECT name FROM published.left_out") == []


Line = tuple[int, int, int, int]


def join_hours(published: tuple[int, ...], left_out: tuple[int, ...], k: int) -> list[Line]:
    """Lines of first and last hour, published and left out: joined until at least k of both, the rest with the last."""
    lines: list[Line] = []
    for at, (shown, missing) in enumerate(zip(published, left_out, strict=True)):
        if lines and min(lines[-1][2:]) < k:
            first, _, before, without = lines.pop()
            lines.append((first, at, before + shown, without + missing))
        else:
            lines.append((at, at, shown, missing))
    if lines and min(lines[-1][2:]) < k:
        _, last, shown, missing = lines.pop()
        if lines:
            first, _, before, without = lines.pop()
            lines.append((first, last, before + shown, without + missing))
    return lines


def test_hours_are_joined_as_plain_python_joins_them(connection: psycopg.Connection, seed: int) -> None:
    draw = random.Random(seed)
    query = """
        SELECT extract(hour FROM h.since AT TIME ZONE 'UTC')::int, extract(hour FROM h.until AT TIME ZONE 'UTC')::int,
            h.percent
        FROM jsonb_to_recordset(dbanon_internal.join_hours(%s, %s))
            h (since timestamptz, until timestamptz, percent int)
    """
    several = 0
    for _ in range(300):
        k, size = draw.randint(1, 6), draw.randint(0, 8)
        published = tuple(draw.choice((0, draw.randint(0, 9), draw.randint(5, 90))) for _ in range(size))
        left_out = tuple(draw.choice((0, draw.randint(0, 9), draw.randint(5, 30))) for _ in range(size))
        hours = [make_hour(at, *counts) for at, counts in enumerate(zip(published, left_out, strict=True))]
        draw.shuffle(hours)
        lines = join_hours(published, left_out, k)
        assert connection.execute(query, [Jsonb(hours), k]).fetchall() == [
            (first, last + 1, round_percent(missing / (shown + missing))) for first, last, shown, missing in lines
        ]
        # Every line has enough of both, and the lines speak of all hours or of none.
        assert all(min(shown, missing) >= k for *_, shown, missing in lines)
        assert not lines or (sum(x[2] for x in lines), sum(x[3] for x in lines)) == (sum(published), sum(left_out))
        several += len(lines) > 1
    assert several > 50


def is_reckoned(k: int, size: int, enough: int) -> bool:
    """Whether an adversary reckons 1 to k-1 people, left out in some hours, from lines of at least `enough`.

    It knows how hours are joined, how many were published in each, and the exact number behind each share. All counts
    that give the same lines are its candidates: for some set of hours all have 1 to k-1 people left out together.
    """
    most = 2 * k + 1
    sets = [hours for number in range(1, size + 1) for hours in itertools.combinations(range(size), number)]
    for published in itertools.product((0, 1, k, k + 3), repeat=size):
        candidates: dict[tuple[Line, ...], list[tuple[int, ...]]] = {}
        for left_out in itertools.product(range(most + 1), repeat=size):
            candidates.setdefault(tuple(join_hours(published, left_out, enough)), []).append(left_out)
        for lines, possible in candidates.items():
            if lines and max(line[3] for line in lines) <= most:  # else candidates beyond `most` are missing
                for hours in sets:
                    if {sum(counts[at] for at in hours) for counts in possible} <= set(range(1, k)):
                        return True
    return False


@pytest.mark.parametrize(("k", "size"), [(2, 3), (3, 3), (4, 2)])
def test_no_adversary_reckons_a_number_below_k_from_the_lines(k: int, size: int) -> None:
    assert not is_reckoned(k, size, k)
    assert is_reckoned(k, size, k - 1)

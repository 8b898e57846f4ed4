"""Whatever a login has been given for its own queries, the program's statements and our functions mean the same."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from dbanon import load
from dbanon.base.errors import DataError
from dbanon.options.loading import ImportingTrajectories
from dbanon.postgres.connection import connect
from dbanon.postgres.server import parse
from dbanon.runs import reading, stored
from dbanon.testing import database_url
from tests.acceptance.pooler import Pooler, run_pooler
from tests.db.test_forget import EVERYTHING, NAME, write_everywhere

# What a login may have set for itself, and what the program needs.
STRANGE = {
    "search_path": ("public, pg_catalog", "pg_catalog, pg_temp"),
    "statement_timeout": ("1h", "0"),
    "lock_timeout": ("1h", "0"),
    "idle_in_transaction_session_timeout": ("1h", "0"),
    "idle_session_timeout": ("1h", "0"),
    "default_transaction_isolation": ("serializable", "read committed"),
    "default_transaction_read_only": ("on", "off"),
    "standard_conforming_strings": ("off", "on"),
    "array_nulls": ("off", "on"),
    "extra_float_digits": ("-15", "1"),
    "DateStyle": ("German, DMY", "ISO, MDY"),
    "IntervalStyle": ("sql_standard", "postgres"),
    "quote_all_identifiers": ("on", "off"),
    "client_min_messages": ("error", "notice"),
    "client_connection_check_interval": ("0", "2s"),
    "transaction_timeout": ("1h", "0"),
}
_NAMED = ImportingTrajectories(dataset="d", subject="subject", time="t", geom="place")


@pytest.fixture
def strange(database: str, login: Callable[[str], str]) -> str:
    """URL of an operator with settings of its own, all of which change what statements mean or whether they end."""
    url = login("dbanon_operator")
    user = sql.Identifier(parse(url)["user"])
    with psycopg.connect(database, autocommit=True) as owner:
        known = {row[0] for row in owner.execute("SELECT name FROM pg_settings")}
        for name, (value, _) in STRANGE.items():
            if name in known:
                setting = sql.SQL(value) if name in ("search_path", "DateStyle") else sql.Literal(value)
                owner.execute(sql.SQL("ALTER ROLE {} SET {} = {}").format(user, sql.Identifier(name), setting))
    return url


@pytest.fixture
def pool(strange: str) -> Iterator[Pooler]:
    """A pooler before the operator of strange settings."""
    with run_pooler(strange) as pool:
        yield pool


def _read_settings(connection: psycopg.Connection) -> dict[str, str]:
    known = {row[0] for row in connection.execute("SELECT name FROM pg_catalog.pg_settings")}
    with connection.transaction():
        return {
            name: connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone()[0]
            for name in STRANGE
            if name in known
        }


def test_a_connection_has_the_settings_that_the_program_needs(strange: str) -> None:
    with connect(strange) as connection:
        found = _read_settings(connection)
        assert found == {name: STRANGE[name][1] for name in found}
        assert connection.info.encoding == "utf-8"
    given = database_url(strange, options="-c search_path=public -c standard_conforming_strings=off")
    with connect(given) as connection:
        found = _read_settings(connection)
        assert found == {name: STRANGE[name][1] for name in found}


def test_through_a_pooler_each_transaction_has_them_and_leaves_none_behind(pool: Pooler) -> None:
    with connect(pool.own_url) as connection:
        for _ in range(5):
            found = _read_settings(connection)
            assert found == {name: STRANGE[name][1] for name in found}
            assert connection.execute("SHOW search_path").fetchone() == ("pg_catalog, pg_temp",)
    with psycopg.connect(pool.own_url, autocommit=True, prepare_threshold=None) as other:
        for _ in range(5):
            assert other.execute("SHOW search_path").fetchone() == ("public, pg_catalog",)
            assert other.execute("SHOW IntervalStyle").fetchone() == ("sql_standard",)


def test_a_pooler_that_refuses_options_is_asked_for_none(pool: Pooler, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
        psycopg.connect(database_url(pool.own_url, options="-c search_path=public"))
    with connect(pool.own_url) as connection, reading.open_reader(pool.own_url):
        assert stored.list_runs(connection) == []


def test_lists_are_read_with_the_styles_of_any_login(strange: str, connection: psycopg.Connection, run: int) -> None:
    connection.execute("UPDATE dbanon.run SET started_at = now(), finished_at = now() + interval '1 day 2 hours'")
    with connect(strange) as operator:
        assert stored.list_runs(operator)[0]["duration"].total_seconds() == 26 * 3600


def test_every_routine_pins_its_path_or_was_bound_when_it_was_made(connection: psycopg.Connection) -> None:
    """But the procedures: with settings of their own they could not commit."""
    found = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace::regnamespace::text ~ '^dbanon' AND prosqlbody IS NULL"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    ).fetchall()
    assert sorted(found) == [("anonymize",), ("run_jobs",)]


def test_every_function_with_a_backslash_pins_what_it_means(connection: psycopg.Connection) -> None:
    found = connection.execute(
        "SELECT proname, 'standard_conforming_strings=on' = ANY (proconfig) FROM pg_proc"
        r" WHERE pronamespace::regnamespace::text ~ '^dbanon' AND strpos(prosrc, E'\\') > 0"
    ).fetchall()
    assert len(found) > 10
    assert [name for name, pinned in found if not pinned] == []


def test_forgetting_reaches_as_far_where_backslashes_mean_something_else(
    connection: psycopg.Connection, run: int
) -> None:
    write_everywhere(connection)
    connection.execute("SET standard_conforming_strings = off")
    erased = connection.execute("SELECT what, rows FROM dbanon.forget_subject('ten', %s)", [NAME]).fetchall()
    assert dict(erased) == EVERYTHING


@pytest.fixture
def tables(database: str, strange: str) -> str:
    """URL of an operator whose path leads to its own schema first; tables of one row, each of another subject."""
    user = parse(strange)["user"]
    with psycopg.connect(database, autocommit=True) as owner:
        for schema in (user, "other"):
            owner.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            owner.execute(sql.SQL("GRANT ALL ON SCHEMA {} TO PUBLIC").format(sql.Identifier(schema)))
        for schema, name in (
            ("public", "gps"), (user, "gps"), ("other", "gps"), (user, "Mixed Case"), ("public", "only"),
            ("other", "hidden"), ("public", "pg_class"), ("other", "odd. Name"),
        ):  # fmt: skip
            made = "CREATE TABLE {} AS SELECT {} AS subject, 1212562800 AS t, ST_Point(8, 53, 4326) AS place"
            owner.execute(sql.SQL(made).format(sql.Identifier(schema, name), sql.Literal(f"{schema}/{name}")))
            owner.execute(sql.SQL("GRANT SELECT ON {} TO PUBLIC").format(sql.Identifier(schema, name)))
        owner.execute("CREATE VIEW public.seen AS SELECT 'the view' AS subject, t, place FROM other.gps")
        owner.execute("GRANT SELECT ON public.seen TO PUBLIC")
        path = sql.SQL("ALTER ROLE {} IN DATABASE {} SET search_path = {}, public")
        names = sql.Identifier(user), sql.Identifier(owner.info.dbname), sql.Identifier("$user")
        owner.execute(path.format(*names))
    return strange


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("gps", "{user}/gps"),
        ("GPS", "{user}/gps"),
        ("public.gps", "public/gps"),
        ("other.gps", "other/gps"),
        ('"Mixed Case"', "{user}/Mixed Case"),
        ("Mixed Case", "{user}/Mixed Case"),
        ("other.odd. Name", "other/odd. Name"),
        ('other."gps"', "other/gps"),
        ("only", "public/only"),
        ("seen", "the view"),
        ("public.pg_class", "public/pg_class"),
    ],
)
@pytest.mark.parametrize("pooled", [False, True])
def test_a_table_is_looked_up_along_the_logins_own_path(
    tables: str, database: str, name: str, subject: str, pooled: bool
) -> None:
    with run_pooler(tables, 1) as pool, connect(pool.own_url if pooled else tables) as connection:
        load.import_trajectories(connection, name, _NAMED)
        assert connection.execute("SHOW search_path").fetchone() == ("pg_catalog, pg_temp",)
    with psycopg.connect(database) as owner:
        found = owner.execute("SELECT subject FROM dbanon.trajectory").fetchall()
    assert found == [(subject.format(user=parse(tables)["user"]),)]


@pytest.mark.many
@pytest.mark.parametrize("name", ["hidden", "mixed case", "pg_class", '"GPS"', "a.b.c.d", "gps; SELECT 1", ""])
def test_what_that_path_does_not_lead_to_is_not_there(tables: str, name: str) -> None:
    with connect(tables) as connection:
        with pytest.raises(DataError):
            load.import_trajectories(connection, name, _NAMED)
        assert connection.execute("SHOW search_path").fetchone() == ("pg_catalog, pg_temp",)


def test_a_temporary_table_of_the_same_session_is_found_first(tables: str) -> None:
    with connect(tables) as connection:
        connection.execute("CREATE TEMP TABLE gps AS SELECT 'temporary' AS subject, t, place FROM public.gps")
        load.import_trajectories(connection, "gps", _NAMED)
        assert connection.execute("SELECT subject FROM dbanon.trajectory").fetchall() == [("temporary",)]


def test_options_of_the_connection_lead_the_way_too(tables: str) -> None:
    with connect(database_url(tables, options="-c search_path=other")) as connection:
        load.import_trajectories(connection, "hidden", _NAMED)
        assert connection.execute("SELECT subject FROM dbanon.trajectory").fetchall() == [("other/hidden",)]

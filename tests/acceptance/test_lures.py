"""A function or an operator that a login without rights puts in the way is called by no command of another login.

That login, the stranger, could create in ``public``, where PostGIS lives as well, and every login's path leads there
first: what is named without its schema is a lure. Two kinds are laid: of the very types of a function or operator of
pg_catalog, and of types that fit better than those, which win although pg_catalog is searched first.
"""

import re
import secrets
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database, database_url
from tests.acceptance import workers
from tests.acceptance.commands import call, shift_rows, write_sites
from tests.acceptance.pooler import run_pooler

_NAMED = ("--subject", "subject", "--time", "t", "--geom", "position")
_IMPORTS = (
    "SELECT * FROM dbanon.import_trajectories('gps', 'by_sql', 'subject', 't', 'position')",
    "SELECT * FROM dbanon.import_trajectories('bad', 'more', 'subject', 't', 'position', mode => 'create')",
    "SELECT * FROM dbanon.import_sites('bad', 'by_sql', 'position', 'subject')",
    "SELECT * FROM dbanon.import_pois('bad', 'by_sql', 'subject', 'position')",
    "SELECT * FROM dbanon.import_requests('bad', 'by_sql', ARRAY['t'], 'subject', 'asked_at', tz => 'UTC')",
    "SELECT * FROM dbanon.import_quasi_identifiers('bad', 'by_sql', 'subject', 't')",
)
"""Of tables some of whose rows are rejected: what is written of them is an expression, too."""

ROOT = Path(__file__).parents[2]
_SOURCES = ("sql/**/*.sql", "migrations/**/*.py", "dbanon/**/*.py")

_BAD = """
CREATE TABLE public.bad AS
SELECT CASE WHEN number % 5 > 0 THEN subject END AS subject, t, t AT TIME ZONE 'UTC' AS asked_at,
    CASE WHEN number % 7 > 0 THEN position ELSE ST_SetSRID(ST_MakePoint('NaN', 0), ST_SRID(position)) END AS position
FROM (SELECT *, row_number() OVER () AS number FROM public.gps) g;
GRANT SELECT ON public.bad TO PUBLIC;
"""
_TRAP = """
CREATE TABLE public.bite (lure text, acting_as text);
CREATE FUNCTION public.bitten(lure text, acting_as text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
    AS 'INSERT INTO public.bite VALUES (lure, acting_as)';
"""

# A lure does nothing else: a caller gets NULL, or no rows, and fails where that matters.
_LAY = """
CREATE FUNCTION pg_temp.lay(name text, arguments text, returns text, "set" boolean) RETURNS text
LANGUAGE plpgsql AS $lay$
BEGIN
    EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', name, arguments,
        CASE WHEN "set" THEN 'SETOF ' ELSE '' END || returns,
        format('BEGIN PERFORM public.bitten(%L, current_user::text); RETURN%s; END', format('%s(%s)', name, arguments),
               CASE WHEN "set" OR returns = 'void' THEN '' ELSE ' NULL' END));
    RETURN name;
EXCEPTION WHEN duplicate_function OR invalid_function_definition OR undefined_object OR feature_not_supported THEN
    RETURN NULL;  -- there already, or of types that no function in PL/pgSQL can have
END
$lay$;
CREATE FUNCTION pg_temp.lay_operator(name text, l text, r text, returns text) RETURNS void LANGUAGE plpgsql AS $lay$
DECLARE
    body text := pg_temp.lay('operator ' || name, concat_ws(', ', l, r), returns, false);
BEGIN
    EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.%I, %s)', name, body,
                   concat_ws(', ', 'LEFTARG = ' || l, 'RIGHTARG = ' || r));
EXCEPTION WHEN duplicate_function OR syntax_error OR invalid_function_definition OR null_value_not_allowed THEN
    RETURN;
END
$lay$;
"""

# A lure of the very types of each function.
_SAME = """
SELECT count(pg_temp.lay(p.proname, oidvectortypes(p.proargtypes),
    CASE WHEN t.typtype = 'p' AND t.typname <> 'void' THEN 'text' ELSE format_type(t.oid, NULL) END, p.proretset))
FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind <> 'p' AND p.proargmodes IS NULL
"""
_USED = """
SELECT p.proname, format_type(p.prorettype, NULL), p.provariadic <> 0, ARRAY(
    SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, ord) ORDER BY a.ord)
FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind <> 'p' AND p.proname = ANY (%s)
    AND p.pronargs BETWEEN 1 AND 4 ORDER BY p.oid
"""
_CASTS = """
SELECT format_type(casttarget, NULL), array_agg(format_type(castsource, NULL)) FROM pg_cast
WHERE castcontext = 'i' AND castsource <> casttarget GROUP BY casttarget
"""
_ANY = ("text", "name", "character varying", "integer", "bigint", "double precision", "boolean", "jsonb", "regclass")
_POLYMORPHIC = {
    **dict.fromkeys(('"any"', "anyelement", "anynonarray", "anycompatible"), _ANY),
    **dict.fromkeys(("anyarray", "anycompatiblearray"), tuple(f"{name}[]" for name in _ANY)),
    "anyrange": ("tstzrange",),
}

_OPERATORS = """
SELECT count(pg_temp.lay_operator(o.oprname, CASE WHEN o.oprleft <> 0 THEN format_type(o.oprleft, NULL) END,
                                  format_type(o.oprright, NULL), format_type(o.oprresult, NULL)))
FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace;

SELECT count(pg_temp.lay_operator(o.name, l, r, o.result))
FROM (VALUES ('=', 'bool'), ('<>', 'bool'), ('<', 'bool'), ('>=', 'bool'), ('~', 'bool'), ('||', 'text'),
    ('->>', 'text')) o (name, result)
CROSS JOIN unnest(ARRAY['text', 'varchar', 'name', 'oid', 'regclass', 'regproc', 'regtype', 'int2', 'int4', 'int8',
    'numeric', 'float8', 'bool', '"char"', 'timestamptz', 'date', 'jsonb', 'text[]', 'bytea']) l
CROSS JOIN unnest(ARRAY['text', 'varchar', 'name', 'oid', 'regclass', 'regproc', 'int2', 'int4', 'int8', 'numeric',
    'float8', 'bool', '"char"', 'timestamptz', 'jsonb', 'text[]', 'bytea']) r;
"""


def _find_names() -> list[str]:
    """Everything in our sources that looks like the call of a function."""
    texts = [file.read_text() for pattern in _SOURCES for file in ROOT.glob(pattern)]
    return sorted(set(re.findall(r"\b([a-z_][a-z0-9_]*)\s*\(", "\n".join(texts))))


def _list_better_types(arguments: list[str], variadic: bool, casts: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Types that fit a call better than those of a function: one argument's, or all at once."""
    if variadic and arguments[-1] == '"any"':  # as many as a caller likes
        for rest in product(_ANY, repeat=2):
            for given in (rest[:1], rest, (*rest, "text")):
                yield (*arguments[:-1], *given)
        return
    for i, meant in enumerate(arguments):
        for given in casts.get(meant, ()):
            yield (*arguments[:i], given, *arguments[i + 1 :])
            yield tuple(given if other == meant else other for other in arguments)


def _lay_lures(url: str, stranger: str) -> int:
    """Have a stranger lay out all lures; returns how many there are."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(_BAD)
        owner.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(stranger)))
        owner.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(stranger)))
        owner.execute("SET search_path = pg_catalog")
        owner.execute(_TRAP + _LAY)
        owner.execute(_SAME)
        casts = {**dict(owner.execute(_CASTS).fetchall()), **_POLYMORPHIC}
        casts["text"] = sorted({*casts["text"], "character varying"})  # no cast makes one of the other
        lures = dict.fromkeys(
            (name, ", ".join(types), "text" if returns in casts else returns)
            for name, returns, variadic, arguments in owner.execute(_USED, [_find_names()])
            for types in _list_better_types(arguments, variadic, casts)
        )
        given = [list(column) for column in zip(*lures, strict=True)]
        owner.execute(
            "SELECT count(pg_temp.lay(n, a, r, false)) FROM unnest(%s::text[], %s::text[], %s::text[]) l (n, a, r)",
            given,
        )
        owner.execute(_OPERATORS)
        owner.execute("RESET SESSION AUTHORIZATION")
        owner.execute(sql.SQL("REVOKE CREATE ON SCHEMA public FROM {}").format(sql.Identifier(stranger)))
        row = owner.execute(
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proowner = %s::regrole",
            [stranger],
        ).fetchone()
    return row[0] if row else 0


def _list_bites(url: str) -> list[str]:
    """Name the lures that were called since this was last asked, and who called them."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("SET search_path = pg_catalog")
        bites = owner.execute("SELECT DISTINCT lure || ' as ' || acting_as FROM public.bite ORDER BY 1").fetchall()
        owner.execute("TRUNCATE public.bite")
    return [bite for (bite,) in bites]


@pytest.fixture(scope="module")
def logins(dbanon_server: Target) -> Iterator[dict[str, tuple[str, str]]]:
    """Names and passwords of a stranger and of a member of each role; they go when the database of the test is gone."""
    made = {}
    with psycopg.connect(dbanon_server.url, autocommit=True) as server:
        for role in ("stranger", "operator", "worker", "admin", "analyst"):
            made[role] = f"dbanon_login_{secrets.token_hex(4)}", secrets.token_hex(12)
            name, password = sql.Identifier(made[role][0]), sql.Literal(made[role][1])
            server.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, password))
            if role != "stranger":
                server.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"dbanon_{role}"), name))
        yield made
        for user, _ in made.values():
            server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))


@pytest.fixture(scope="module")
def trapped(dbanon_server: Target, city_template: tuple[str, int], logins: dict[str, tuple[str, str]]) -> Iterator[str]:
    """URL of a city in which everybody's path leads to a stranger's lures."""
    with cloned_database(dbanon_server, city_template[0]) as url:
        assert _lay_lures(url, logins["stranger"][0]) > 5000
        with psycopg.connect(url, autocommit=True) as owner:
            for name in (owner.info.user, *(name for name, _ in logins.values())):
                path = sql.SQL("ALTER ROLE {} IN DATABASE {} SET search_path = public, pg_catalog")
                owner.execute(path.format(sql.Identifier(name), sql.Identifier(owner.info.dbname)))
        yield url


def _name_url(url: str, login: tuple[str, str]) -> str:
    return database_url(url, user=login[0], password=login[1])


def _do(url: str, *commands: tuple[str, ...]) -> None:
    for command in commands:
        done = call(url, *command)
        assert done.code == 0, (command, done.stderr)


@pytest.mark.stress
def test_lures_are_called_by_those_who_take_no_care(trapped: str) -> None:
    """Else the other tests would show nothing."""
    with psycopg.connect(trapped, autocommit=True) as careless:
        for query in (
            "SELECT length('a')",
            "SELECT 1 + 1",
            "SELECT max('a'::varchar)",
            "SELECT format('a'::text, 'b'::name)",
        ):
            careless.execute(query)
        careless.execute("SET search_path = pg_catalog, public")  # where they fit better
        for query in (
            "SELECT 'int4in'::regproc <> 0",
            "SELECT 'a'::varchar = 'b'::varchar",
            "SELECT concat('a'::name, 1)",
        ):
            careless.execute(query)
    assert {bite.split(" as ")[0] for bite in _list_bites(trapped)} == {
        "length(text)", "operator +(integer, integer)", "max(character varying)", "format(text, name)",
        "operator <>(regproc, int4)", "operator =(varchar, varchar)", "concat(name, integer)",
    }  # fmt: skip


@pytest.mark.stress
def test_no_command_calls_a_lure(
    trapped: str, logins: dict[str, tuple[str, str]], city_files: tuple[Path, Path], tmp_path: Path
) -> None:
    columns = ("--x", "lon", "--y", "lat")
    operator, both = _name_url(trapped, logins["operator"]), trapped
    allowed = ("--allow-overlap", "--reason", "these are the same people")
    _do(
        operator,
        ("load", "trajectories", str(city_files[0]), "--dataset", "second", "--population", "b", *columns),
        ("load", "requests", str(shift_rows(city_files[1])), "--dataset", "second", "--columns", "poi"),
        ("load", "sites", str(write_sites(city_files[0])), "--dataset", "second", *columns, "--name", "name"),
        ("import", "public.gps", "--dataset", "third", *_NAMED),
        ("import", "gps", "--dataset", "fourth", *_NAMED),
        ("synth", "--dataset", "fifth", "--objects", "20", "--blocks", "4"),
        ("plan", "tp-aware", "--dataset", "second"),
        ("plan", "sensitive-sites", "--dataset", "second"),
        ("publish", "1", "city_k5"),
        ("export", "city_k5", str(tmp_path / "city.gpkg")),
    )
    _do(_name_url(trapped, logins["analyst"]), ("export", "city_k5", str(tmp_path / "city.csv")))
    _do(
        both,
        ("run", "tp-aware", "--dataset", "second", "-p", "k=7", "--publish", "second_k7", *allowed),
        ("run", "sensitive-sites", "--dataset", "second", "-p", "k=3", "-p", "at=2026-01-05T08:10:00Z"),
        ("verify", "2"),
        ("publish", "2", "second_k7", "--replace", *allowed),
        ("drop", "3"),
        ("submit", "tp-aware", "--dataset", "second"),
        ("cancel", "4"),
    )
    with workers.keep_up(_name_url(trapped, logins["worker"]), tmp_path / "log") as worker:
        with psycopg.connect(operator, autocommit=True) as connection:
            done = connection.execute(
                "CALL dbanon.anonymize('third', 'tp-aware', publish_as => 'third_k5',"
                " allow_overlap => true, reason => 'these are the same people')"
            )
            assert done.fetchone()[1] == "verified", worker.said()
        _do(operator, ("verify", "5"))
        workers.stop(worker)
    with psycopg.connect(trapped, options="-c search_path=pg_catalog") as owner:
        subject = owner.execute("SELECT subject FROM dbanon.trajectory ORDER BY trajectory_id LIMIT 1").fetchone()[0]
    with psycopg.connect(operator, autocommit=True) as connection:
        for query in _IMPORTS:
            connection.execute(query)
    _do(_name_url(trapped, logins["admin"]), ("runs",), ("releases",), ("card", "second_k7"), ("unpublish", "third_k5"))
    _do(operator, ("forget", "--dataset", "third", "--subject", subject), ("runs",), ("releases",))
    assert _list_bites(trapped) == []


@pytest.mark.stress
def test_no_command_through_a_pooler_calls_a_lure(
    trapped: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with run_pooler(trapped) as pool:
        _do(pool.own_url, ("import", "gps", "--dataset", "pooled", *_NAMED), ("runs",))
        monkeypatch.setenv("DBANON_LOCK_DSN", trapped)
        _do(
            pool.own_url, ("demo", "--no-page"), ("export", "demo_k5", str(tmp_path / "it.csv"), "--where", "crowd > 5")
        )
    assert _list_bites(trapped) == []


def test_no_upgrade_calls_a_lure(trapped: str) -> None:
    with psycopg.connect(trapped, autocommit=True, options="-c search_path=pg_catalog") as owner:
        owner.execute("COMMENT ON TABLE dbanon.alembic_version IS NULL")
        refused = call(trapped, "db", "upgrade", "--share-roles")  # for lures that have names of PostGIS's
        assert refused.code == 1
        assert _list_bites(trapped) == []
        owner.execute(re.findall(r"`(DROP [^`]*)`", refused.stderr)[0])
    _do(trapped, ("db", "upgrade", "--share-roles"))
    assert _list_bites(trapped) == []

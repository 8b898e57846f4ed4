"""Every function, table, view and sequence of dbanon against every role: `rights.txt` says who may do what.

The catalog is held against the file as a whole, and each right is then proved by a statement of a real login: what the
file allows is not refused for want of rights, and what it does not allow is.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors, sql

from dbanon.testing import cloned_database, database_url
from tests.db.parts import publish_part, run_of
from tests.reading import read_value
from tests.rights import ROLES, TASKS, may, read_expected

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

COMMANDS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE"}

_CATALOG = """
SELECT CASE cla.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END, cla.oid::regclass::text,
    CASE cla.relkind WHEN 'S' THEN NULL ELSE ARRAY(
        SELECT att.attname::text FROM pg_attribute att
        WHERE att.attrelid = cla.oid AND att.attnum > 0 AND NOT att.attisdropped ORDER BY att.attnum) END
FROM pg_class cla
WHERE cla.relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace)
    AND cla.relkind IN ('r', 'v', 'm', 'p', 'f', 'S')
UNION ALL
SELECT CASE pro.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END,
    format('%s.%I', pro.pronamespace::regnamespace, pro.proname), ARRAY(
    SELECT format_type(arg.type, NULL) FROM unnest(pro.proargtypes) WITH ORDINALITY arg (type, place) ORDER BY place)
FROM pg_proc pro WHERE pro.pronamespace::regnamespace::text ~ '^(dbanon|published)' AND pro.prosecdef
ORDER BY 1, 2
"""

# Arguments to prove a call with. Not NULL: a strict function is not called for it, nor its caller asked for the right.
_ARGUMENTS = {
    "bigint": "0",
    "integer": "0",
    "double precision": "1",
    "boolean": "false",
    "text": "'none'",
    "text[]": "'{}'",
    "geometry": "'POINT(0 0)'",
    "bigint[]": "'{}'",
    "double precision[]": "'{}'",
    "jsonb": "'{}'",
    "bytea": "''",
    "regclass": "'pg_catalog.pg_class'",
    "timestamp with time zone": "'2008-06-04Z'",
}


@dataclass
class Thing:
    """A function, procedure, table, view or sequence; `parts` are its columns, or the types of its arguments."""

    kind: str
    name: str
    parts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cast:
    """A database with a live release, what is in it, and a login for each role."""

    owner: psycopg.Connection
    things: list[Thing]
    logins: dict[str, psycopg.Connection]
    users: dict[str, str]


@pytest.fixture(scope="module")
def cast(dbanon_server: "Target", verified: str) -> Iterator[Cast]:
    from dbanon.postgres.server import parse

    password = secrets.token_hex(12)
    with (
        cloned_database(dbanon_server, parse(verified)["dbname"]) as url,
        psycopg.connect(url, autocommit=True) as owner,
    ):
        owner.execute("SET search_path = public")  # names with their schema, also where the login is called like it
        owner.execute("ALTER TABLE dbanon.release ALTER release_id RESTART")  # tests before may have drawn numbers
        owner.execute("SELECT dbanon.publish(1, 'ten')")
        publish_part(owner, run_of(owner, 1), "grown")
        users = {role: f"dbanon_rights_{role}_{secrets.token_hex(4)}" for role in (*ROLES, "admin")}
        logins: dict[str, psycopg.Connection] = {}
        try:
            for role, user in users.items():
                owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), password))
                if role != "nobody":
                    owner.execute(
                        sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"dbanon_{role}"), sql.Identifier(user))
                    )
                logins[role] = psycopg.connect(database_url(url, user=user, password=password))
                logins[role].execute("SET SESSION statement_timeout = '5s'")
                logins[role].commit()
            things = [Thing(kind, name, parts or []) for kind, name, parts in owner.execute(_CATALOG)]
            yield Cast(owner, things, logins, users)
        finally:
            for opened in logins.values():
                opened.close()
            for user in users.values():
                with suppress(errors.UndefinedObject):
                    owner.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(user)))
                    owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))


def format_granted(cast: Cast, thing: Thing, role: str) -> str:
    """Write what the catalog lets a role do with a thing, as `rights.txt` does."""
    user = cast.users[role]
    if not read_value(cast.owner, "SELECT has_schema_privilege(%s, %s, 'USAGE')", user, thing.name.split(".")[0]):
        return "-"
    if thing.kind in ("function", "procedure"):
        call = f"{thing.name}({', '.join(thing.parts)})"
        return "call" if read_value(cast.owner, "SELECT has_function_privilege(%s, %s, 'EXECUTE')", user, call) else "-"
    if thing.kind == "sequence":
        found = read_value(
            cast.owner, "SELECT has_sequence_privilege(%s, %s, 'SELECT, USAGE, UPDATE')", user, thing.name
        )
        return "use" if found else "-"
    return " ".join(filter(None, (format_letter(cast, thing, user, letter) for letter in COMMANDS))) or "-"


def format_letter(cast: Cast, thing: Thing, user: str, letter: str) -> str:
    """Write a right as S, as S(a,b) where only some columns are granted, or not at all."""
    command = COMMANDS[letter]
    if read_value(cast.owner, "SELECT has_table_privilege(%s, %s, %s)", user, thing.name, command):
        return letter
    if command in ("DELETE", "TRUNCATE"):
        return ""
    query = "SELECT has_column_privilege(%s, %s, %s, %s)"
    columns = [column for column in thing.parts if read_value(cast.owner, query, user, thing.name, column, command)]
    return f"{letter}({','.join(columns)})" if columns else ""


def test_the_file_names_everything_there_is_and_what_each_role_may_do_with_it(cast: Cast) -> None:
    found = {
        (thing.kind, thing.name): {role: format_granted(cast, thing, role) for role in ROLES} for thing in cast.things
    }
    wanted = read_expected()
    for thing in cast.things:
        if thing.kind == "sequence":  # nobody needs one: one line for all of them
            wanted[thing.kind, thing.name] = wanted["sequence", "*"]
    wanted.pop(("sequence", "*"))
    wrong = {key: rights for key, rights in found.items() if wanted.get(key) != rights}
    lines = [
        "  ".join([f"{' '.join(key):<40}", *(f"{rights[role]:<8}" for role in ROLES)]) for key, rights in wrong.items()
    ]
    assert not lines, "rights.txt must say what is meant. The catalog says otherwise of:\n" + "\n".join(lines)
    assert set(wanted) <= set(found), f"rights.txt names what is not there: {sorted(set(wanted) - set(found))}"


@pytest.mark.parametrize(
    ("schemas", "may"), [("^dbanon", {"operator", "worker"}), ("^published", {"operator", "worker", "analyst"})]
)
def test_these_roles_alone_call_what_runs_with_their_own_rights(cast: Cast, schemas: str, may: set[str]) -> None:
    query = """
        SELECT role.name, bool_and(has_function_privilege(role.name, p.oid, 'EXECUTE') = role.may)
        FROM pg_proc p CROSS JOIN unnest(%s::text[], %s::boolean[]) role (name, may)
        WHERE p.pronamespace::regnamespace::text ~ %s AND NOT p.prosecdef GROUP BY role.name
    """
    allowed = [role in may for role in ROLES]
    rows = cast.owner.execute(query, [[cast.users[role] for role in ROLES], allowed, schemas]).fetchall()
    assert sorted(rows) == sorted((cast.users[role], True) for role in ROLES)


@pytest.mark.many
@pytest.mark.parametrize("role", ROLES)
def test_a_login_may_do_just_that(cast: Cast, role: str) -> None:
    table = read_expected()
    login = cast.logins[role]
    wrong = []
    for thing in cast.things:
        rights = table["sequence", "*"] if thing.kind == "sequence" else table.get((thing.kind, thing.name), {})
        for statement, allowed in iter_statements(thing, rights.get(role, "-")):
            if is_refused(login, statement) == allowed:
                wrong.append(("refused " if allowed else "let through ") + statement)
    assert wrong == []


# A statement of each task that is decided by the rights of the caller, not by those on a function.
_OF_TASKS = {
    "ask questions": "SELECT * FROM published.ten",
    "choose one": "SELECT * FROM dbanon.choose_method('ten')",
    "Load data": "SELECT * FROM dbanon.import_trajectories('public.gps', dataset => 'new', x => 'x', y => 'y')",
    "Plan a run": "SELECT * FROM dbanon.plan_run('ten', 'tp-aware', '{\"k\": 5}')",
    "Submit and": "SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')",
    "Add, change": """SELECT dbanon.add_job('new', 'public.gps', '{"x": "x", "y": "y"}', 'tp-aware',
        params => '{"k": 5}', allow_no_requests => true)""",
}


@pytest.mark.parametrize("role", ROLES)
def test_a_login_may_do_the_tasks_of_the_page_on_permissions(cast: Cast, role: str) -> None:
    cast.owner.execute(
        "CREATE TABLE IF NOT EXISTS public.gps AS SELECT subject, t AS time, 8.2 AS x, 53.1 AS y FROM dbanon.fix"
    )
    cast.owner.execute("GRANT SELECT ON public.gps TO PUBLIC")
    for words, statement in _OF_TASKS.items():
        [task] = [one for one in TASKS if words in one.words]
        assert is_refused(cast.logins[role], statement) != may(role, task), (role, statement)


def is_refused(login: psycopg.Connection, statement: str) -> bool:
    """Whether a statement fails for want of rights; what it did is undone."""
    try:
        login.execute(statement)
    except errors.InsufficientPrivilege:
        return True
    except errors.ObjectNotInPrerequisiteState:
        return not statement.startswith(("SELECT", "CALL"))  # nobody at all can write through such a view
    except psycopg.Error:
        return False
    finally:
        login.rollback()
    return False


def iter_statements(thing: Thing, rights: str) -> Iterator[tuple[str, bool]]:
    """Yield statements that prove each right, and whether they must be let through."""
    if thing.kind in ("function", "procedure"):
        arguments = ", ".join(f"{_ARGUMENTS.get(kind, 'NULL')}::{kind}" for kind in thing.parts)
        yield f"{'CALL' if thing.kind == 'procedure' else 'SELECT'} {thing.name}({arguments})", rights == "call"
    elif thing.kind == "sequence":
        yield f"SELECT last_value FROM {thing.name}", False
        yield f"SELECT nextval('{thing.name}')", False
        yield f"SELECT setval('{thing.name}', 7)", False
    else:
        given = dict(re.fullmatch(r"([A-Z])(?:\((.*)\))?", word).groups() for word in rights.split() if word != "-")
        for letter in COMMANDS if thing.kind == "table" else "SIUD":
            columns = given.get(letter) and given[letter].split(",")
            yield from iter_commands(thing, letter, letter in given, columns)


def iter_commands(thing: Thing, letter: str, allowed: bool, columns: list[str] | None) -> Iterator[tuple[str, bool]]:
    """Yield one statement where a right concerns the whole table, one a column where it concerns some or none."""
    if letter == "D":
        yield f"DELETE FROM {thing.name} WHERE false", allowed
    elif letter == "T":
        yield f"TRUNCATE {thing.name}", allowed
    elif letter == "S" and allowed and columns is None:
        yield f"SELECT * FROM {thing.name} LIMIT 0", True
    elif letter == "S":
        yield f"SELECT FROM {thing.name} LIMIT 0", columns is not None
        yield from ((f"SELECT {c} FROM {thing.name} LIMIT 0", c in (columns or ())) for c in thing.parts)
    else:
        form = "INSERT INTO {0} ({1}) VALUES (DEFAULT)" if letter == "I" else "UPDATE {0} SET {1} = DEFAULT WHERE false"
        for column in thing.parts:
            yield form.format(thing.name, column), allowed and (columns is None or column in columns)


# ---- what runs with the rights of its owner shows nothing of what only the owner may read --------------------------

_NUMBERS = ("0", "-1", "'-32768'", "'2147483647'")
# Texts that the functions must bear, by type of argument: the first is plain, so that the others are looked at.
_HOSTILE = {
    "bigint": ("1", *_NUMBERS, "'9223372036854775807'", "'-9223372036854775808'"),
    "integer": ("1", *_NUMBERS),
    "double precision": ("1", *_NUMBERS, "'NaN'", "'Infinity'", "'-Infinity'", "'1e308'"),
    "boolean": ("false", "true"),
    "text": ("'ten'", "''", "' '", r"E'x\x1b[2J'", r"E'\u009b\u202e'", "repeat('x', 100000)", "'%I$1''; --'"),
    "text[]": ("NULL", "'{}'", "'{NULL}'", r"ARRAY[E'x\x1b[2J']", "'{{a,b},{c,d}}'", "'[5:6]={a,b}'", "'{a}'"),
    "bigint[]": ("'{1}'", "'{}'", "'{NULL}'", "'{-1}'", "'{{1,2},{3,4}}'", "'[5:6]={1,2}'", "'{9223372036854775807}'"),
    "jsonb": ("""'{"k": 5}'""", "'null'", "'[]'", """'"x"'""", """'{"k": {}}'""", r"""'{"\u001b[2J": 1e300}'"""),
    "timestamp with time zone": ("now()", "'infinity'", "'-infinity'", "'4713-01-01 BC'"),
    "tstzrange": ("'[2008-06-04,2008-06-05)'", "'empty'", "'(,)'", "'[-infinity,infinity]'"),
    "interval": ("'1 hour'", "'-1 day'", "'0'", "'178000000 years'"),
    "geometry": ("'SRID=32610;POINT(0 0)'", "'POLYGON EMPTY'", "'SRID=999999;POINT(0 0)'", "'POINT(NaN Infinity)'"),
    "dbanon.job": (
        """jsonb_populate_record(NULL::dbanon.job, '{"job_id": 1, "name": "ten", "dataset": "ten"}')""",
        """jsonb_populate_record(NULL::dbanon.job, '{}')""",
        r"""jsonb_populate_record(NULL::dbanon.job, '{"job_id": -1, "name": "\u001b[2J", "source": "dbanon.run"}')""",
    ),
    "regclass": ("'published.ten'", "'0'", "'pg_catalog.pg_class'", "'dbanon.population'"),
}


def iter_hostile_calls(function: Thing) -> Iterator[str]:
    """Call a function with each hostile value of each argument, beside plain ones; and with no value at all."""
    kinds = [(kind, _HOSTILE[kind]) for kind in function.parts]
    plain = [f"{values[0]}::{kind}" for kind, values in kinds]
    given = [plain, [f"NULL::{kind}" for kind, _ in kinds]]
    for place, (kind, values) in enumerate(kinds):
        given += [[*plain[:place], f"{value}::{kind}", *plain[place + 1 :]] for value in ("NULL", *values[1:])]
    for arguments in given:
        yield f"SELECT * FROM {function.name}({', '.join(arguments)})"


@pytest.mark.parametrize("role", ["operator", "worker", "analyst", "admin"])
def test_no_function_of_its_owner_shows_a_row_that_the_server_refuses(cast: Cast, role: str) -> None:
    """The DETAIL of such an error (class 23) is the row, with columns that the caller may not read."""
    query = "SELECT string_agg(encode(key, 'hex'), '|') FROM (TABLE dbanon.population UNION ALL {}) p".format(
        "SELECT 0, '', key FROM dbanon.installation"
    )
    secret = re.compile(rf"\\x[0-9a-f]{{16}}|{read_value(cast.owner, query)}")
    control = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
    login = cast.logins[role]
    wrong = []
    tried = 0
    for thing in cast.things:
        call = f"{thing.name}({', '.join(thing.parts)})"
        allowed = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
        if thing.kind != "function" or not read_value(cast.owner, allowed, cast.users[role], call):
            continue
        for statement in iter_hostile_calls(thing):
            tried += 1
            try:
                login.execute(statement)
            except psycopg.Error as error:
                said = error.diag.message_primary, error.diag.message_detail, error.diag.message_hint
                text = "\n".join(filter(None, said))
                if (error.sqlstate or "").startswith("23") or secret.search(text) or control.search(text):
                    wrong.append(f"{statement[:200]}: {error.sqlstate} {text[:300]!r}")
            finally:
                login.rollback()
    assert wrong == []
    assert (tried > 50) == (role in ("operator", "worker", "admin")), tried

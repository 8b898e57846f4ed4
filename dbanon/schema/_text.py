"""Makes the one text that installs dbanon in a database, or upgrades it there.

It is the files of ``sql/`` in the order of their paths. Filled in are the revisions that are missing (``migrations/``),
the methods, and what was asked for. psql runs it, and so does `dbanon.schema.upgrade`: what an upgrade does stands in
these files and nowhere else. No server is asked: the text says what it expects, and refuses what is otherwise.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.base import times
from dbanon.base.errors import ParameterError, choose_one
from dbanon.postgres.programs import OLDEST_SUPPORTED_MAJOR
from dbanon.schema import _roles

if TYPE_CHECKING:
    from dbanon.methods import Method

EXPECTED_REVISION = "0008"

_OLDEST_REVISION = "0004"  # data of programs before the first release are loaded again
OLDEST_SERVER = OLDEST_SUPPORTED_MAJOR * 10_000
UPGRADE_LOCK = 0x6462616E << 32 | 0xFFFFFFFF
LOCK_WAIT_S = 30.0
_INSTALLED = Path(__file__).parents[1]
_REPOSITORY = _INSTALLED.parent
_FUNCTIONS_FILE = "00_before/20_functions.sql"
_DROPPING = "sql/86_removed.sql"
_COMMENT = re.compile(r"^COMMENT ON FUNCTION [\w.]+ IS\s'(?:[^']|'')*';\n", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """What a text is made for."""

    prefix: str = _roles.DEFAULT_PREFIX
    move_roles: bool = False  # whether a database that has other roles gets these; else it is refused
    share_roles: bool = False
    restrict_public: bool | None = None  # None keeps what was chosen
    postgis: str = "public"  # the schema that PostGIS lives in, or is created in
    since: str | None = None  # the revision that the database has at least; tables up to it are left out


def build_sections(options: Asked) -> Iterator[str]:
    """Make the text, a file of ``sql/`` after the other.

    Raises `ParameterError` if the prefix or the schema of PostGIS cannot be one, or the revision is none.
    """
    yield from _build_sections(_list_marks(_list_answers(options), options.since))


def make_installer(functions: str) -> str:
    """Fill in what the functions of the extension hold: the text, in which the marks for what is asked stay open."""
    text = "".join(_build_sections(_list_marks({mark: mark for mark in _list_answers(Asked())}, None)))
    return _fill_marks(functions, {**_list_fixed_marks(), "@text@": text})


def make_functions() -> str:
    """Make the part of the text that defines the session's own functions, which a removal needs as well."""
    return _fill_marks((locate_folder("sql") / _FUNCTIONS_FILE).read_text(encoding="utf-8"), _list_fixed_marks())


def locate_folder(name: str) -> Path:
    """Find the migrations or SQL files: inside an installed package, else at the top of the repository."""
    packed = _INSTALLED / f"_{name}"
    return packed if packed.is_dir() else _REPOSITORY / name


def compute_stamp() -> str:
    """Describe what an upgrade leaves, as the comment of the table that holds the revision.

    Methods, attacks and options go in as source: every command asks for the stamp, and modules are slow to import.
    """
    packages = (_INSTALLED / "methods", _INSTALLED / "attacks", _INSTALLED / "options")
    sources = [file for package in packages for file in sorted(package.rglob("*.py"))]
    files = [*sorted(locate_folder("sql").rglob("*.sql")), *sources]
    content = [read_version().encode(), *(file.read_bytes() for file in files)]
    whole = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in content)).hexdigest()
    return f"The revision of schema dbanon, {EXPECTED_REVISION}. Its SQL files, methods, attacks and options: {whole}."


_SCRIPT_HEAD = """\
-- dbanon @version@, schema @head@: all that `dbanon db upgrade` does, as one text.
--
--     psql -X -v ON_ERROR_STOP=1 -1 -f dbanon.sql DATABASE
--
-- The login is a superuser, or owns the database and has CREATEROLE. All of it is one transaction: it is done as a
-- whole, or nothing is changed and the error says why. Running it again changes nothing.
--
-- Asked for:
--   the database is at revision @since@ at least (NULL: it may be empty)
--   the roles are @admin@, @operator@, @worker@, @analyst@
--   members that these roles have already are accepted: @share_roles@
--   PostGIS is in schema @postgis@
--   views of locks and counters are taken from PUBLIC: @restrict_public@ (NULL: as it was chosen before, at first not)
--
-- Sections:
--   00_before  refusals, roles and schemas
--   05         tables
--   10 to 80   functions and views
--   85 to 90   triggers, dropping of old helpers, what functions do, and rights
--   95_after   records of the installation, and notices of work that is left to do
"""


def _build_sections(marks: dict[str, str]) -> Iterator[str]:
    yield _fill_marks(_SCRIPT_HEAD, marks)
    held: list[str] = []
    for file in sorted(locate_folder("sql").rglob("*.sql")):
        title = f"sql/{file.relative_to(locate_folder('sql')).as_posix()}"
        text = file.read_text(encoding="utf-8")
        held += _COMMENT.findall(text)
        text = _COMMENT.sub("", text)
        if title == _DROPPING:  # each name is of one function now
            text = "\n".join([text, *held])
        yield f"\n\n-- ---- {title} {'-' * max(3, 110 - len(title))}\n\n{_fill_marks(text, marks).rstrip()}\n"


def _fill_marks(text: str, marks: dict[str, str]) -> str:
    return re.sub("|".join(marks), lambda mark: marks[mark[0]], text)


def _list_fixed_marks() -> dict[str, str]:
    """Marks that are the same in every text."""
    width = max(map(len, _roles.PURPOSES)) + 4
    return {
        **_list_option_words(),
        "@iso_time@": _format_literal(times.ISO),
        "@zoned_time@": _format_literal(times.ZONED),
        "@iso_of_word@": functools.reduce(
            lambda word, form: f"regexp_replace({word}, {_format_literal(form[0])}, {_format_literal(form[1])})",
            times.FORMS,
            "cel.word",
        ),
        "@first_s@": str(times.FIRST_S),
        "@last_s@": f"{times.LAST_S:g}",
        "@skipped_s@": f"{times.SKIPPED_S:g}",
        "@earliest_s@": str(times.EARLIEST_S),
        "@latest_s@": str(times.LATEST_S),
        "@odd_numbers@": ", ".join(
            f"({low}, {high}, {_format_literal(words)}, {_format_literal(remedy)})"
            for low, high, words, remedy in times.ODD_NUMBERS
        ),
        "@purposes@": ",\n        ".join(
            f"({f'{_format_literal(role)},':{width}}{_format_literal(purpose)})"
            for role, purpose in _roles.PURPOSES.items()
        ),
        "@trusted@": _roles.TRUSTED,
        "@upgrade_lock@": str(UPGRADE_LOCK),
        "@lock_wait@": f"{LOCK_WAIT_S:g}s",
        "@oldest_server@": str(OLDEST_SERVER),
        "@oldest_revision@": _OLDEST_REVISION,
        "@head@": EXPECTED_REVISION,
        "@version@": read_version(),
        "@version_text@": _format_literal(read_version()),
    }


def _list_option_words() -> dict[str, str]:
    """Marks for the words of options, such as ``@Publishing.replace@``: comments of functions take them from there."""
    from dbanon.options import list_fields, loading, publishing, scheduling

    records = (
        *(loading.ImportingTrajectories, loading.LoadingRequests, loading.LoadingQuasiIdentifiers),
        *(loading.LoadingSites, loading.LoadingPois, loading.LoadingCells, loading.LoadingStations),
        *(publishing.Planning, publishing.Submitting, publishing.Publishing, publishing.Running, scheduling.AddingJob),
    )
    return {
        f"@{record.__name__}.{one.name}@": one.words.replace("'", "''")
        for record in records
        for one in list_fields(record)
    }


def _list_answers(options: Asked) -> dict[str, str]:
    """Marks for what is asked."""
    _roles.demand_prefix(options.prefix)
    if not re.fullmatch(r"[^'\"\\$@%\x00-\x1f\x7f]{1,63}", options.postgis):
        raise ParameterError(
            f"The schema of PostGIS must have a name without quotes, backslashes, $, @, % and control characters. "
            f"Got {options.postgis[:60]!r}. Rename that schema."
        )
    return {
        "@postgis@": options.postgis if options.postgis == "public" else f'"{options.postgis}"',
        "@postgis_name@": _format_literal(options.postgis),
        "@prefix@": options.prefix,
        **{f"@{role}@": f"{options.prefix}_{role}" for role in _roles.PURPOSES},
        "@move_roles@": _format_boolean(options.move_roles),
        "@share_roles@": _format_boolean(options.share_roles),
        "@restrict_public@": _format_boolean(options.restrict_public),
        "@since@": _format_literal(options.since),
    }


def _list_marks(answers: dict[str, str], since: str | None) -> dict[str, str]:
    from dbanon.methods import METHODS  # with NumPy, which is slow to import

    marks = {**_list_fixed_marks(), **answers, "@stamp@": _format_literal(compute_stamp())}
    revisions = "\n\n".join(_guard_revision(name, _fill_marks(text, marks)) for name, text in _list_revisions(since))
    methods = "\n\n".join(map(_format_method, METHODS.values()))
    return {**marks, "@revisions@": revisions or "-- None are later.", "@methods@": methods}


def _list_revisions(since: str | None) -> Iterator[tuple[str, str]]:
    """Read the revisions after one, or all, oldest first: their names and statements."""
    # Imported here: every other command is faster without it.
    from alembic.script import ScriptDirectory

    chain = list(ScriptDirectory(str(locate_folder("migrations"))).walk_revisions())[::-1]
    known = [revision.revision for revision in chain]
    if since is not None and since not in known:
        raise ParameterError(f"--from must be a revision of dbanon. Got {since[:60]!r}. {choose_one(known)}")
    for revision in chain[known.index(since) + 1 if since is not None else 0 :]:
        yield revision.revision, str(revision.module.SCRIPT)


def _guard_revision(revision: str, statements: str) -> str:
    """Write a revision so that a database that has it skips it."""
    return f"""\
DO $do$
BEGIN
    IF EXISTS (SELECT FROM dbanon.alembic_version WHERE version_num >= '{revision}') THEN
        RETURN;
    END IF;
    EXECUTE $revision$
{statements.strip()}
$revision$;
    DELETE FROM dbanon.alembic_version;
    INSERT INTO dbanon.alembic_version (version_num) VALUES ('{revision}');
EXCEPTION WHEN lock_not_available THEN
    PERFORM pg_temp.refuse_use();
END
$do$;"""


def _format_method(method: "Method") -> str:
    row = _make_row(method)
    values = ",\n    ".join(map(_format_literal, row.values()))
    names, new = (_wrap_words([start + name for name in row]) for start in ("", "excluded."))
    return (
        f"INSERT INTO dbanon.method ({names})\nVALUES (\n    {values}\n)\n"
        f"ON CONFLICT (name) DO UPDATE SET ({names})\n    = ({new});"
    )


def _wrap_words(words: list[str]) -> str:
    return textwrap.fill(", ".join(words), 90, subsequent_indent="    ")


def _make_row(method: "Method") -> dict[str, str]:
    from dbanon.methods import describe

    algorithms = [dataclasses.asdict(a) for a in method.algorithms]
    columns = [
        {"name": c.name, "sql_type": c.sql_type, "default": c.default, "comment": c.comment} for c in method.columns
    ]
    return {
        "name": method.name,
        "summary": method.summary,
        "guarantee": method.guarantee,
        "region_type": method.region_type,
        "attack": method.name,
        "algorithms": _format_json(algorithms),
        "columns": _format_json(columns),
        "paper": method.paper,
        "parameters": _format_json(describe(method)),
        "adversary": method.adversary,
        "row_meaning": method.row_meaning,
        "left_out": method.left_out,
        "traits": _format_json({**method.traits, **_list_words(method)}),
    }


def _format_json(value: Any, indent: str = "    ") -> str:
    """Write a value in lines of at most 120 characters, where its texts are short enough."""
    line = json.dumps(value)
    if len(line) + len(indent) <= 120 or not isinstance(value, list | dict):
        return line
    more = f"{indent}  "
    if isinstance(value, list):
        opening, items, closing = "[", [_format_json(item, more) for item in value], "]"
    else:
        opening, items, closing = (
            "{",
            [f"{json.dumps(name)}: {_format_json(item, more)}" for name, item in value.items()],
            "}",
        )
    return f"{opening}\n{more}" + f",\n{more}".join(items) + f"\n{indent}{closing}"


def _list_words(method: "Method") -> dict[str, Any]:
    """Give the plain words of a family's clauses by name, the test that each is of, and what each test leaves open."""
    from dbanon import attacks
    from dbanon.attacks import overlapping_records

    attack = attacks.import_attacker(method.attack).attack
    known = (*attack.clauses, *overlapping_records.CLAUSES)
    clauses = {clause.name: {"plain": clause.plain, "test": clause.test} for clause in known}
    return {"clauses": clauses, "left_open": dict(attack.left_open)}


def read_version() -> str:
    return importlib.metadata.version("dbanon")


def _format_literal(value: str | None) -> str:
    """Write a text as the server reads it, whose standard_conforming_strings the text itself has set."""
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _format_boolean(value: bool | None) -> str:
    return "NULL" if value is None else str(value).lower()

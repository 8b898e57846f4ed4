"""Makes the pages of docs/reference from what the program and a database say of themselves; a writer for each page.

What stands above `MARK` in a page is written by hand, and what stands below it is made. ``DBANON_WRITE_GOLDEN=1 pytest
tests/db/test_reference.py`` writes all pages. What is new in schema dbanon, or on the command line, gets its section
by itself: `GROUPS` only orders the functions.
"""

import html
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import typer

import dbanon
from dbanon import testing
from dbanon.base import errors
from dbanon.cli import main
from dbanon.cli._shared import _SECTIONS, job_app
from dbanon.database import Database
from dbanon.database.datasets import Datasets
from dbanon.methods import METHODS
from dbanon.metrics import METRICS
from dbanon.postgres import connection as session
from dbanon.postgres import sqlstate
from tests import rights
from tests.golden import reasons

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
QUERY = Path(__file__).with_suffix(".sql")
MARK = "<!-- Made by tests/golden/reference.py from here on: change its sources, not this page. -->\n"
ROLES = ("operator", "worker", "analyst")
CODE_WIDTH = 88
"""Characters of a line of code that a page of the site shows whole."""
PARTS = ("Arguments", "Returns", "Raises", "Example")

# The functions of a page, in the order of the work; what is not here is on the page of the server.
GROUPS = {
    "sql-data": (
        *("import_trajectories", "import_requests", "import_quasi_identifiers", "import_sites", "import_pois"),
        *("import_cells", "import_stations", "drop_load", "forget_subject", "remember_subject", "forget_before"),
        "drop_dataset",
    ),
    "sql-runs": (
        "choose_method",
        "plan_run",
        "anonymize",
        "submit_run",
        "cancel_run",
        "verify_run",
        "run_card",
        "drop_run",
    ),
    "sql-releases": (
        *("measure_overlap", "sign_run", "publish", "release_card", "unpublish", "unpublish_part", "fold_release"),
        "clear_withdrawn",
    ),
    "sql-jobs": ("add_job", "plan_job", "run_jobs", "steer_job"),
    "sql-server": ("version", "confirm_history"),
    "sql-analysts": (
        *(
            "about",
            "count_inside",
            "compare_counts",
            "density",
            "flows",
            "flows_between",
            "crossings",
            "dwell",
            "stays",
            "person_minutes",
        ),
        *("requests_inside", "possibly_inside", "definitely_inside", "expected_inside", "tile", "tile_query"),
    ),
}
_SHORT = {"timestamp with time zone": "timestamptz", "double precision": "float8", "public.geometry": "geometry"}


# ---- what a database says of itself ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thing:
    """A function, procedure, table or view of schema dbanon or published, as `reference.sql` gives it."""

    kind: str
    name: str
    comment: str
    rights: dict[str, str | None]
    schema: str = "dbanon"
    arguments: str = ""
    result: str | None = None
    definer: bool = False
    columns: list[dict[str, str]] = field(default_factory=list)

    @property
    def callable(self) -> bool:
        return self.kind in ("function", "procedure")

    def part(self, word: str) -> str:
        """Return what the comment says after `word`, or before all such words if it is empty; without its lists."""
        return self._parts().get(word, "").partition("\n- ")[0].strip()

    def items(self, word: str) -> dict[str, str]:
        """Return the list after `word`: the meaning of each argument or column."""
        lines = self._parts().get(word, "").split("\n- ")[1:]
        return {name: " ".join(words.split()) for name, _, words in (line.partition(": ") for line in lines)}

    def _parts(self) -> dict[str, str]:
        pieces = re.split(rf"(?:^|\s)\b({'|'.join(PARTS)}):", self.comment)
        joined = (re.sub(r"\n(?!- )\s*", " ", piece) for piece in pieces[0::2])
        return dict(zip(["", *pieces[1::2]], joined, strict=True))

    @property
    def is_for_users(self) -> bool:
        """Whether it is no helper."""
        return self.schema in ("dbanon", "published")

    @property
    def summary(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=[.])\s+(?=[A-Z])", self.part(""))[0]

    @property
    def example(self) -> str:
        """The example as SQL, empty where the comment has none to run."""
        found = self.part("Example").rstrip(".;")
        return f"{found};" if re.match(r"(SELECT|CALL|WITH|TABLE)\b", found) else ""

    @property
    def takes(self) -> list[tuple[str, str, str]]:
        """Name, type and default of each argument that a caller gives."""
        given = (part for part in split(self.arguments) if not part.startswith(("OUT ", "INOUT ")))
        return [_parse_argument(part.removeprefix("IN ")) for part in given]

    @property
    def gives(self) -> list[tuple[str, str, str]]:
        """Name and type of each column of what it returns."""
        table = re.fullmatch(r"TABLE\((.*)\)", self.result or "")
        listed = split(table[1]) if table else [part for part in split(self.arguments) if part.split()[0] in _OUT]
        return [_parse_argument(re.sub(r"^(IN)?OUT ", "", part)) for part in listed]


_OUT = ("OUT", "INOUT")


def _parse_argument(text: str) -> tuple[str, str, str]:
    declared, _, default = text.partition(" DEFAULT ")
    name, _, kind = declared.partition(" ")
    return name.strip('"'), _shorten_type(kind), re.sub(r"::[\w. \[\]]+$", "", default)


def _shorten_type(kind: str) -> str:
    for long, short in _SHORT.items():
        kind = kind.replace(long, short)
    return kind


def split(text: str) -> list[str]:
    """Split at the commas that are in no brackets and no quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _break_code(text: str, indent: str = "") -> list[str]:
    """Break code into lines that fit, at the commas in its longest brackets."""
    if len(indent + text) <= CODE_WIDTH:
        return [indent + text]
    depth, quoted, opened = 0, False, 0
    longest = (0, 0)
    for place, letter in enumerate(text):
        quoted ^= letter == "'"
        if not quoted and letter in "([":
            opened = opened if depth else place + 1
            depth += 1
        elif not quoted and letter in ")]":
            depth -= 1
            if not depth:
                longest = max(longest, (opened, place), key=lambda span: span[1] - span[0])
    first, end = longest
    lines, deeper = [f"{indent}{text[:first]}"], f"{indent}    "
    parts = split(text[first:end])
    for number, part in enumerate(parts, 1):
        ending = "," if number < len(parts) else text[end:]
        joined = f"{lines[-1]} {part}{ending}"
        if number > 1 and len(joined) <= CODE_WIDTH and lines[-1][len(deeper)] != " ":
            lines[-1] = joined
        else:
            lines += _break_code(part + ending, deeper)
    return lines


def read_things(connection: psycopg.Connection) -> list[Thing]:
    """Ask a database for all that schemas dbanon and published hold, except releases and their tables."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        rows = [row[0] for row in connection.execute(QUERY.read_text()).fetchall()]
    found = [Thing(**row) for row in rows if not re.fullmatch(r"release_\d+", row["name"])]
    return sorted(found, key=lambda thing: thing.name)


def read_codes() -> dict[str, str]:
    """Read the list of dbanon's own errors at the top of sql/10_core/10_guard.sql; entries go on in indented lines."""
    head = (ROOT / "sql" / "10_core/10_guard.sql").read_text().split("CREATE", 1)[0]
    entries = re.findall(r"^--   (DA\d{3}) (.+(?:\n--    .+)*)", head, re.MULTILINE)
    return {code: re.sub(r"\s+--\s+|\s+", " ", text.replace("\n--", " ")) for code, text in entries}


def list_raised(words: str) -> set[str]:
    """Return the codes a comment names, those within a range (`DA001 to DA005`) too."""
    found = set(re.findall(r"DA\d{3}", words))
    for low, high in re.findall(r"DA(\d{3}) to DA(\d{3})", words):
        found |= {f"DA{number:03}" for number in range(int(low), int(high) + 1)}
    return found


# ---- Markdown --------------------------------------------------------------------------------------------------------


def _format_text(words: str) -> str:
    """Make prose of a comment: nothing in it is markup but code, codes of errors lead to their list."""
    parts = words.replace("``", "`").split("`")
    plain = (html.escape(part, quote=False).replace("*", r"\*") for part in parts[::2])
    linked = [re.sub(r"\b(DA\d{3})\b", r"[\1](errors.md#sqlstates)", part) for part in plain]
    code = [f"`{part}`" for part in parts[1::2]]
    return "".join(piece for pair in zip(linked, [*code, ""], strict=True) for piece in pair)


def _format_meaning(words: str) -> str:
    """Make a cell of a table: a sentence."""
    said = _format_text(words).replace("|", r"\|")
    return said[:1].upper() + said[1:] + "." * bool(said and not said.endswith((".", "?")))


def _format_code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|") if text else ""


def _write_table(titles: str, rows: Iterable[Iterable[str]]) -> str:
    """Write a table, whose titles are separated by commas."""
    names = titles.split(", ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---- SQL -------------------------------------------------------------------------------------------------------------


def name_page(thing: Thing) -> str:
    """Return the name of the page that a thing is on."""
    if not thing.callable:
        kind = "tables" if thing.kind == "table" else "views"
        return "sql-analysts" if thing.schema == "published" else f"sql-{kind}"
    return next((page for page, names in GROUPS.items() if thing.name in names), "sql-server")


def _write_glance(every: list[Thing]) -> str:
    """List everything, a line each, by page."""
    text = ""
    for page in (*GROUPS, "sql-views", "sql-tables"):
        title = (FOLDER / f"{page}.md").read_text().splitlines()[0].removeprefix("# ")
        rows = (
            [f"[`{one.name}`]({page}.md#{_name_anchor(one)})", _format_text(one.summary)]
            for one in _select_page(every, page)
        )
        text += f"\n## {title}\n{_write_table('name, does', rows)}"
    return text


def _select_page(every: list[Thing], page: str) -> list[Thing]:
    """Return what is on a page, in its order: functions first."""
    order = {name: place for place, name in enumerate(GROUPS.get(page, ()))}
    here = [thing for thing in every if name_page(thing) == page]
    return sorted(here, key=lambda thing: (not thing.callable, order.get(thing.name, len(order)), thing.name))


def _name_anchor(thing: Thing) -> str:
    return thing.name if thing.callable or thing.schema == "dbanon" else f"published{thing.name}"


def _write_sql(every: list[Thing], page: str) -> str:
    text = "".join(
        _write_function(thing) if thing.callable else _write_relation(thing) for thing in _select_page(every, page)
    )
    places = {f"{one.schema}.{one.name}": f"{name_page(one)}.md#{_name_anchor(one)}" for one in every}

    def linked(found: re.Match[str]) -> str:
        return f"[{found[0]}]({places[found[1]]})" if found[1] in places else found[0]

    # Neither in headings and code nor in links.
    return re.sub(
        r"^#[^\n]*$|```.*?```|`[^`]*`|\[[^]]*\]\([^)]*\)|\b((?:dbanon|published)\.\w+)", linked, text, flags=re.S | re.M
    )


def _write_function(thing: Thing) -> str:
    said, columns = thing.items("Arguments"), thing.items("Returns")
    lines = [f"\n## {thing.name}\n\n{_format_text(thing.part(''))}\n"]
    if thing.example:
        clauses = re.split(r"(?<!SELECT \*) (?=(?:FROM|WHERE) )", thing.example)
        code = [thing.example] if len(thing.example) <= CODE_WIDTH else itertools.chain(*map(_break_code, clauses))
        lines.append("\n```sql\n" + "\n".join(code) + "\n```\n")
    if thing.takes:
        rows = (
            [_format_code(n), _format_code(t), _format_code(d) or "required", _format_meaning(said[n])]
            for n, t, d in thing.takes
        )
        lines.append(_write_table("argument, type, default, meaning", rows))
    one = "" if thing.gives or not thing.result or thing.result == "void" else f" {_format_code(thing.result)}:"
    lines.append(f"\n**Returns**{one} {_format_text(thing.part('Returns'))}\n")
    if columns:
        lines.append(
            _write_table(
                "column, type, meaning",
                ([_format_code(n), _format_code(t), _format_meaning(columns[n])] for n, t, _ in thing.gives),
            )
        )
    return "".join(
        [*lines, f"\n**Raises** {_format_text(thing.part('Raises'))}\n", f"\n**Rights:** {_describe_who(thing)}.\n"]
    )


def _describe_who(thing: Thing) -> str:
    if not thing.definer:
        return "runs with the rights of its caller"
    names = [f"`dbanon_{role}`" for role in ROLES if thing.rights[role]]
    return f"SECURITY DEFINER. {' and '.join(names) or '`dbanon_admin`'} may call it"


def _write_relation(thing: Thing) -> str:
    rows = (
        [_format_code(c["name"]), _format_code(_shorten_type(c["type"])), _format_meaning(c["comment"] or "")]
        for c in thing.columns
    )
    told = [f"`dbanon_{role}` may {thing.rights[role]}" for role in ROLES if thing.rights[role]]
    title = thing.name if thing.schema == "dbanon" else f"published.{thing.name}"
    who = f"\n**Rights:** {'. '.join(told) or 'only its owner'}.\n"
    return f"\n## {title}\n\n{_format_text(thing.comment)}\n{who}{_write_table('column, type, meaning', rows)}"


def _write_rights(every: list[Thing]) -> str:
    """Tell who may do what, in tasks and in tables; each function and command of users is of one task."""
    places = {one.name: f"{name_page(one)}.md#{one.name}" for one in every if one.callable and one.schema == "dbanon"}
    commands = {one for section, names in _SECTIONS.items() if section != "Server" for one in names} - {"job"}
    commands |= {f"job-{one.name}" for one in typer.main.get_command(job_app).commands.values()}
    listed = sorted(name for task in rights.TASKS for name in f"{task.functions} {task.commands}".split())
    assert listed == sorted([*places, *commands]), "each function and command must be of one task of tests/rights.py"
    rows = [
        [
            task.words,
            ", ".join(f"[`{name}`]({places[name]})" for name in task.functions.split())
            or ", ".join(_format_code(line.split()[1]) for line in task.decided_by if line.endswith(" S")),
            ", ".join(_format_code(f"dbanon {name.replace('job-', 'job ')}") for name in task.commands.split()),
            "yes",
            *("yes" if rights.may(role, task) else "" for role in ROLES),
        ]
        for task in rights.TASKS
    ]
    text = "\n## What each role may do\n" + _write_table(
        "task, in SQL, command, admin, operator, worker, analyst", rows
    )
    letters = {"S": "read", "I": "add", "U": "change", "D": "delete"}

    def say(granted: str) -> str:
        return ", ".join(letters[one[0]] + " some columns" * (len(one) > 1) for one in granted.split() if one != "-")

    known = {f"{one.schema}.{one.name}" for one in every if not one.callable}
    lines = sorted((name.replace('"', ""), may) for (_, name), may in rights.read_expected().items())
    rows = [[_format_code(name), *(say(may[role]) for role in ROLES)] for name, may in lines if name in known]
    return text + "\n## Tables and views\n" + _write_table("name, operator, worker, analyst", rows)


# ---- the command line ------------------------------------------------------------------------------------------------


def _write_command_line() -> str:
    program = typer.main.get_command(main.app)
    listed = [name for names in _SECTIONS.values() for name in names]
    others = [name for name, one in program.commands.items() if name not in listed and not one.hidden]
    text = f"\n## Everywhere\n{_write_options(program, 'dbanon')}"
    for section, names in {**_SECTIONS, "Others": others}.items():
        text += f"\n## {section}\n" * bool(names) + "".join(
            _write_command(program.commands[name], f"dbanon {name}") for name in names
        )
    return text


def _write_command(command: Any, name: str) -> str:
    inner = getattr(command, "commands", {})
    if inner:
        return "".join(_write_command(one, f"{name} {one.name}") for one in inner.values() if not one.hidden)
    usage = " ".join(command.get_usage(typer.Context(command, info_name=name)).split()).removeprefix("Usage: ")
    words = " ".join(inspect.cleandoc(command.help or "").split())
    return f"\n### {name}\n\n{_format_text(words)}\n\n```text\n{usage}\n```\n{_write_options(command, name)}"


def _write_options(command: Any, name: str) -> str:
    records = [one.get_help_record(typer.Context(command, info_name=name)) for one in command.params]
    rows = []
    for shown, words in (record for record in records if record and record[0] != "--help"):
        said, _, rest = words.partition("  [")
        # What is in brackets: a default, limits such as 1<=x<=64, or that it is required.
        notes = [note.removeprefix("default: ") for note in rest.removesuffix("]").split("; ") if note]
        limits = [note for note in notes if re.search(r"[<>]", note)]
        default = "; ".join(note for note in notes if note not in limits)
        meaning = _format_meaning(said) + "".join(f" Limits: `{note}`." for note in limits)
        rows.append([_format_code(shown), default if default in ("", "required") else _format_code(default), meaning])
    return _write_table("option, default, meaning", rows) if rows else ""


# ---- Python ----------------------------------------------------------------------------------------------------------


def _write_python() -> str:
    verbs = [(name, verb) for kind in (Datasets, Database) for name, verb in vars(kind).items() if name[0] != "_"]
    helpers = [(name, getattr(testing, name)) for name in testing.__all__]
    fixtures = [(name, one._get_wrapped_function()) for name, one in helpers if hasattr(one, "_get_wrapped_function")]
    functions = [(name, one) for name, one in helpers if inspect.isfunction(one)]
    return "".join(
        [
            "\n## Signatures\n",
            _write_called("dbanon.connect", dbanon.connect),
            *(_write_called(f"Database.{name}", verb) for name, verb in verbs if inspect.isfunction(verb)),
            "\n## Fixtures of `dbanon.testing`\n",
            _write_table(
                "fixture, gives",
                ([_format_code(name), _format_meaning(_read_first_line(one))] for name, one in fixtures),
            ),
            "\n## Functions of `dbanon.testing`\n",
            *(_write_called(f"testing.{name}", one) for name, one in functions),
        ]
    )


def _write_called(name: str, verb: Callable[..., Any]) -> str:
    signature = inspect.signature(verb)
    # A default that is a function is for workers alone.
    own = [one for one in signature.parameters.values() if one.name != "self" and not inspect.isfunction(one.default)]
    inner, _, result = _simplify_types(str(signature.replace(parameters=own)))[1:].rpartition(") -> ")
    whole = f"{name}({inner}) -> {result}"
    if len(whole) > CODE_WIDTH:
        parts = itertools.chain(*(_break_code(f"{part},", "    ") for part in split(inner)))
        whole = "\n".join([f"{name}(", *parts, f") -> {result}"])
    return f"\n### {name}\n\n{_format_meaning(_read_first_line(verb))}\n\n```text\n{whole}\n```\n"


def _simplify_types(signature: str) -> str:
    """Write types by their own names, as a reader imports them."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", signature).replace("'geopandas", "'").replace("'", '"')


def _read_first_line(documented: Any) -> str:
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


# ---- errors, settings, metrics ---------------------------------------------------------------------------------------


def _write_errors(every: list[Thing]) -> str:
    calls = [thing for thing in every if thing.callable]
    kinds = [errors.DbanonError, *errors.DbanonError.__subclasses__()]
    states = []
    for code, meaning in read_codes().items():
        family = sqlstate._OWN_ERRORS.get(code, errors.StoreError)
        by = [
            f"[`{one.name}`]({name_page(one)}.md#{one.name})"
            for one in calls
            if code in list_raised(one.part("Raises"))
        ]
        ends = ["", ""] if code == "DA018" else [_format_code(family.__name__), str(family.exit_code)]  # it is a notice
        states.append([code, _format_meaning(meaning), *ends, ", ".join(by)])
    text = "\n## Python exceptions\n" + _write_table(
        "class, exit code, meaning",
        ([_format_code(k.__name__), str(k.exit_code), _format_meaning(_read_first_line(k))] for k in kinds),
    )
    text += "\n## SQLSTATEs\n" + _write_table("code, meaning, Python, exit code, raised by", states)
    text += "\n## Rows that a load leaves out\n" + reasons.HEAD
    text += _write_table(
        "reason, meaning", ([_format_code(name), _format_meaning(words)] for name, words in reasons.QUARANTINED.items())
    )
    text += "\n## Rows that a load counts and does not keep\n" + reasons.COUNTED_HEAD
    text += _write_table(
        "reason, meaning", ([_format_code(name), _format_meaning(words)] for name, words in reasons.COUNTED.items())
    )
    told = [(method, name, words) for method in METHODS.values() for name, words in method.reasons.items()]
    text += "\n## People and data that a run leaves out\n" + reasons.RUN_HEAD
    return text + _write_table(
        "method, reason, meaning", ([_format_code(m.name), _format_code(n), _format_meaning(w)] for m, n, w in told)
    )


def _write_settings() -> str:
    source = inspect.getsource(session).partition("_SETTINGS = {")[2].partition("}\n")[0]
    rows, why = [], ""
    for line in source.splitlines():
        if found := re.match(r'    "(\w+)": (.+),$', line):
            value = session._PINNED_SETTINGS[found[1]].strip("'")
            rows.append([_format_code(found[1]), _format_code(value), _format_meaning(why)])
        elif line.strip():
            why = line.strip().removeprefix("# ")
    rows += [
        [_format_code(name), _format_code(value), "From PostgreSQL 17 on."]
        for name, value in session._SETTINGS_SINCE_17.items()
    ]
    return "\n## Settings of connections\n" + reasons.SETTINGS_HEAD + _write_table("setting, value, reason", rows)


def _write_vitals(connection: psycopg.Connection) -> str:
    """List what a worker shows its monitoring, from the source of the function that makes it."""
    query = "SELECT prosrc FROM pg_proc WHERE oid = 'dbanon_internal.list_vitals()'::regprocedure"
    ((source,),) = connection.execute(query).fetchall()
    alone = re.findall(r"SELECT '(\w+)', '([^']+)',\s+(?:'{}'|jsonb_build_object\('(\w+)')", source)
    jobs = [(*found, "job") for found in re.findall(r"\('(\w+)', '([^']+)',", source)]
    rows = [("connected", "Whether the worker is connected.", ""), *alone, *jobs]
    return (
        "\n## Figures of a worker\n"
        + reasons.VITALS_HEAD
        + _write_table(
            "name, label, meaning",
            ([_format_code(f"dbanon_{n}"), _format_code(label), _format_meaning(words)] for n, words, label in rows),
        )
    )


UNITS = {
    "share": "a share, shown in %",
    "m": "metres",
    "s": "seconds",
    "people": "people",
    "times": "times",
}
BETTER = {"less": "Less is better", "more": "More is better", None: "Neither way is better"}


def _write_metrics() -> Iterator[str]:
    yield "\n## Figures\n"
    for metric in METRICS.values():
        yield f"\n### {metric.title}\n\n`{metric.name}`: {UNITS[metric.unit]}. {BETTER[metric.better]}.\n"
        formula = textwrap.fill(metric.formula, CODE_WIDTH, initial_indent="    ", subsequent_indent="    ")
        yield f"\n{formula}\n\n{metric.plain}\n"


# ---- all pages -------------------------------------------------------------------------------------------------------


def write_pages(connection: psycopg.Connection) -> dict[Path, str]:
    """Return the text of each page, with what is written by hand above the mark."""
    every = [thing for thing in read_things(connection) if thing.is_for_users]
    made = {"sql": _write_glance(every), "rights": _write_rights(every)}
    made |= {page: _write_sql(every, page) for page in (*GROUPS, "sql-views", "sql-tables")}
    made |= {"command-line": _write_command_line(), "python": _write_python(), "errors": _write_errors(every)}
    made |= {"settings": _write_settings() + _write_vitals(connection), "metrics": "".join(_write_metrics())}
    return {FOLDER / f"{name}.md": _read_head(name) + text for name, text in made.items()}


def _read_head(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text().partition(MARK)[0] + MARK

"""Writes docs/reference/sql.md from what a database says of itself: comments, signatures and rights.

A test holds the file against a fresh database; ``DBANON_WRITE_GOLDEN=1`` writes it. What is new in schema dbanon gets
its section by itself; `TOPICS` only orders the functions.
"""

import html
import re
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from dbanon.base.errors import StoreError
from dbanon.postgres import sqlstate

ROOT = Path(__file__).parents[2]
QUERY = Path(__file__).with_suffix(".sql")
ROLES = ("operator", "worker", "analyst")
WIDTH = 100

# In the order of the work; what is not here comes after it.
TOPICS = {
    "Look": ("version",),
    "Bring data in": (
        "import_trajectories",
        "import_requests",
        "import_sites",
        "import_pois",
        "import_cells",
        "import_stations",
        "import_quasi_identifiers",
    ),
    "Run a method": (
        "plan_run",
        "anonymize",
        "submit_run",
        "cancel_run",
        "verify_run",
    ),
    "Publish and withdraw": (
        "measure_overlap",
        "publish",
        "release_card",
        "run_card",
        "unpublish",
        "unpublish_part",
        "fold_release",
        "clear_withdrawn",
        "confirm_history",
    ),
    "Every night": ("add_job", "plan_job", "run_jobs", "steer_job"),
    "Ask a release": (
        "about",
        "count_inside",
        "density",
        "flows",
        "crossings",
        "dwell",
        "requests_inside",
        "possibly_inside",
        "definitely_inside",
        "expected_inside",
        "tile",
        "tile_query",
    ),
    "Take back": ("drop_run", "forget_subject", "remember_subject", "forget_before", "drop_load", "drop_dataset"),
}
REST = "Others"

HEAD = """# The SQL functions, tables and views

Everything of dbanon can be done in psql, as a login that is a member of one of its roles
(`GRANT dbanon_operator TO anna`):

| role | may |
|---|---|
| `dbanon_operator` | load data, submit runs, publish and withdraw, read the releases: the administrator |
| `dbanon_worker` | compute and verify; alone writes cloaks, members and verdicts |
| `dbanon_analyst` | read the views in the schema `published` and call its functions, nothing else |
| `dbanon_admin` | all of it: it owns what dbanon makes, and its members may upgrade |

A login of several roles may do what each of them may. Members of no role can do nothing here. `tests/db/test_rights.py`
proves each right and the lack of each other by a real login;
[Security](../administrators/security.md#what-analysts-could-learn) says what else analysts are kept from, and how.

Arguments are written `name => value`. One that is called like a keyword of SQL needs its quotes, or the server finds a
syntax error: `"time" => 't'`.

An error is one sentence with a HINT. psql adds which functions it passed through; this keeps it from that:

```sql
\\set SHOW_CONTEXT never
```

This page is written from the database's own comments, which psql shows too: `\\df+ dbanon.publish`, `\\d+ dbanon.run`.
The functions that these are made of are in the schema `dbanon_internal`, and change without notice.
"""


@dataclass(frozen=True)
class Thing:
    """A function, procedure, table or view of schema dbanon, or a function of published, as `sql_api.sql` gives it."""

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
        """Return what the comment says after `word`, or before all such words if it is empty."""
        pieces = re.split(r"\s*\b(Arguments|Returns|Raises|Example):\s*", " ".join(self.comment.split()))
        said = dict(zip(["", *pieces[1::2]], pieces[0::2], strict=True))
        return said.get(word, "")

    @property
    def helps_analysts(self) -> bool:
        """Whether it is a helper that stands in schema published because analysts may use no other."""
        return self.schema == "published" and not self.part("Arguments")

    @property
    def summary(self) -> str:
        """The first sentence."""
        return re.split(r"(?<=[.])\s+(?=[A-Z])", self.part(""))[0]

    @property
    def example(self) -> str:
        """The example as SQL, empty where the comment has none to run."""
        found = self.part("Example").rstrip(".;")
        return f"{found};" if re.match(r"(SELECT|CALL|WITH|TABLE)\b", found) else ""


def things(connection: psycopg.Connection) -> list[Thing]:
    """Ask a database for all that schema dbanon holds, but for the tables of releases."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog")
        rows = [row[0] for row in connection.execute(QUERY.read_text()).fetchall()]
    found = [Thing(**row) for row in rows if not re.fullmatch(r"release_\d+", row["name"])]
    return sorted(found, key=lambda thing: thing.name)


def codes() -> dict[str, str]:
    """Read the list of dbanon's own errors at the top of sql/10_core/10_guard.sql; entries go on in indented lines."""
    head = (ROOT / "sql" / "10_core/10_guard.sql").read_text().split("CREATE", 1)[0]
    entries = re.findall(r"^--   (DA\d{3}) (.+(?:\n--    .+)*)", head, re.MULTILINE)
    return {code: re.sub(r"\s+--\s+|\s+", " ", text.replace("\n--", " ")) for code, text in entries}


def document(connection: psycopg.Connection) -> str:
    """Return the text of docs/reference/sql.md."""
    every = [thing for thing in things(connection) if thing.schema != "dbanon_internal" and not thing.helps_analysts]
    topics = _topics([thing for thing in every if thing.callable])
    calls = [thing for _, members in topics for thing in members]
    views = [thing for thing in every if thing.kind == "view"]
    tables = [thing for thing in every if thing.kind == "table"]
    chapters = [(topic, "".join(map(_function, members))) for topic, members in topics]
    chapters += [("Views", "".join(map(_relation, views))), ("Tables", "".join(map(_relation, tables)))]
    chapters.append(("Error codes", _errors(calls)))
    body = "".join(f"\n## {title}\n{text}" for title, text in chapters if text)
    assert body.count("\n### ") == len(set(re.findall(r"\n### (\w+)\n", body))), "two sections of one name"
    return HEAD + _glance(calls, views, tables) + body


def _topics(functions: list[Thing]) -> list[tuple[str, list[Thing]]]:
    left = {thing.name: thing for thing in functions}
    ordered = [(topic, [left.pop(name) for name in names if name in left]) for topic, names in TOPICS.items()]
    return [(topic, members) for topic, members in [*ordered, (REST, list(left.values()))] if members]


def _glance(*lists: list[Thing]) -> str:
    """List everything, a line each."""
    lines = ["\n## At a glance\n"]
    for title, members in zip(("function", "view", "table"), lists, strict=True):
        lines.append(f"| {title} | |\n|---|---|")
        lines += [f"| [`{thing.name}`](#{thing.name}) | {_cell(thing.summary)} |" for thing in members]
        lines.append("")
    lines += [
        "Each release is a view in the schema `published`: `dbanon_analyst` may select from it, or the roles named by",
        "`readers`, and `dbanon_operator` in any case. Its rows are in tables `dbanon.release_<n>` that only their",
        "owner reads and no role changes. `published.releases` lists to each login the releases that it may read,",
        "`published.parts` the parts of those that grow, `published.columns` what their columns mean,",
        "`published.left_out` how many people are not in them, and `published.atoms` of what their regions are",
        "made: see [how to read a release](../analysts/analyst.md). [Error codes](#error-codes) are at the end.\n",
    ]
    return "\n".join(lines)


def _text(words: str) -> str:
    """Make prose of a comment: nothing in it is markup, codes lead to their list."""
    return re.sub(r"\b(DA\d{3})\b", r"[\1](#error-codes)", html.escape(words, quote=False).replace("*", r"\*"))


def _cell(words: str | None) -> str:
    return _text(words or "-").replace("|", r"\|")


def _who(thing: Thing) -> str:
    if not thing.definer:
        return "with the rights of its caller"
    names = [f"`dbanon_{role}`" for role in ROLES if thing.rights[role]]
    return f"with those of its owner, for {' and '.join(names) or '`dbanon_admin`'}"


def _signature(thing: Thing) -> str:
    result = "" if thing.kind == "procedure" else f" RETURNS {thing.result}"
    whole = f"{thing.schema}.{thing.name}({thing.arguments}){result}"
    if len(whole) <= WIDTH:
        return whole
    inner = "".join(f"\n    {part}," for part in _split(thing.arguments)).rstrip(",")
    columns = re.fullmatch(r" RETURNS TABLE\((.*)\)", result)
    if columns and len(result) > WIDTH:
        result = " RETURNS TABLE (" + "".join(f"\n    {part}," for part in _split(columns[1])).rstrip(",") + "\n)"
    return (
        f"{thing.schema}.{thing.name}({inner}\n){result}"
        if thing.arguments
        else f"{thing.schema}.{thing.name}(){result}"
    )


def _split(arguments: str) -> list[str]:
    """Split at the commas that are in no brackets and no quotes."""
    return [part.strip() for part in re.findall(r"(?:[^,('\[]|'[^']*'|\([^)]*\)|\[[^]]*\])+", arguments)]


def _function(thing: Thing) -> str:
    lines = [f"\n### {thing.name}\n\n{_text(thing.part(''))}\n\n```sql\n{_signature(thing)}\n```\n\n"]
    for word in ("Arguments", "Returns", "Raises"):
        said = thing.part(word)
        if said.startswith("- "):
            lines += [f"- **{word}**\n", *(f"  - {_text(item)}\n" for item in said[2:].split(" - "))]
        elif said:
            lines.append(f"- **{word}** {_text(said)}\n")
    lines.append(f"- **Runs** {_who(thing)}.\n")
    if thing.example:
        lines.append(f"\n```sql\n{thing.example}\n```\n")
    return "".join(lines)


def _relation(thing: Thing) -> str:
    rows = "".join(f"| `{c['name']}` | {_cell(c['type'])} | {_cell(c['comment'])} |\n" for c in thing.columns)
    told = [f"`dbanon_{role}`: {thing.rights[role]}" for role in ROLES if thing.rights[role]]
    who = "; ".join(told) or "its owner alone"
    return (
        f"\n### {thing.name}\n\n{_text(thing.comment)}\n\nWho may: {who}.\n\n| column | type | |\n|---|---|---|\n{rows}"
    )


def _errors(functions: list[Thing]) -> str:
    lines = [
        "\nErrors of dbanon's own are of SQLSTATE class DA. Each has one sentence that says what must hold and what",
        "was got, facts in its DETAIL and what to do in its HINT; none tells a coordinate or a subject. The command",
        "line ends with the code in the third column.\n",
        "| code | meaning | exit | raised by |\n|---|---|---|---|",
    ]
    for code, meaning in codes().items():
        family = sqlstate._OWN.get(code, StoreError)
        by = ", ".join(f"`{thing.name}`" for thing in functions if code in raised(thing.part("Raises")))
        lines.append(f"| {code} | {meaning} | {family.exit_code} | {by} |")
    return "\n".join(lines) + "\n"


def raised(words: str) -> set[str]:
    """Return the codes a comment names, those within a range (`DA001 to DA005`) too."""
    found = set(re.findall(r"DA\d{3}", words))
    for low, high in re.findall(r"DA(\d{3}) to DA(\d{3})", words):
        found |= {f"DA{number:03}" for number in range(int(low), int(high) + 1)}
    return found

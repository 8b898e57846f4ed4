"""Names in SQL: a helper begins with a verb and says if it raises. Long statements have no aliases of one letter."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SQL = sorted(file for folder in ("sql", "extension", "docs") for file in (ROOT / folder).rglob("*.sql"))
PYTHON = sorted(file for folder in ("dbanon", "benchmarks", "docs", "tests") for file in (ROOT / folder).rglob("*.py"))
MAX_LINES = 10

_LITERAL = re.compile(r'"""(.*?)"""', re.DOTALL)
_TOKEN = re.compile(
    r"--[^\n]*|(\$\w*\$)(.*?)\1|BEGIN ATOMIC\n(.*?)^END\b|'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*",
    re.DOTALL | re.MULTILINE,
)
_QUERY = re.compile(r"\s*(?:WITH|SELECT|INSERT|UPDATE|DELETE)\b")
_GROUP = re.compile(r"\([^()]*\)")
_SOURCE = r"(?:ONLY\s+|LATERAL\s+)*(?:[\w.@%$\"{}]+(?:\s*~)?|~)(?:\s+WITH\s+ORDINALITY)?"
_ALIAS = re.compile(
    rf"\b(?:FROM|JOIN|UPDATE|USING|INTO)\s+{_SOURCE}\s+(?:AS\s+)?([a-z])\b(?![.])"
    rf"|,\s*{_SOURCE}\s+([a-z])(?=\s*(?:,|~|\)|;|\b[A-Z]|$))"
    r"|\b([a-z])\s+(?:CONSTANT\s+)?(?:record|(?:dbanon|dbanon_internal|published)\.\w+)\b|\bFOR\s+([a-z])\s+IN\s+[A-Z]"
)


def iter_pieces(text: str) -> Iterator[str]:
    """Give the statements of a text, the bodies of its functions, and the queries that they quote."""
    plain, last = "", 0
    for found in _TOKEN.finditer(text):
        plain, last = plain + text[last : found.start()], found.end()
        plain += "''" * (not found[0].startswith("--")) + "\n" * found[0].count("\n")
        if body := found[2] or found[3]:
            yield from iter_pieces(body)
        elif found[0].startswith("'"):
            quoted = re.sub(r"'\s*\n\s*'", "\n", found[0][1:-1])
            if _QUERY.match(quoted):
                yield quoted
    plain += text[last:]
    yield from [plain] if re.search(r"^(?:DECLARE|BEGIN)$", plain, re.MULTILINE) else plain.split(";\n")


def find_short_names(text: str) -> set[str]:
    """Find the aliases and record variables of one letter in the long pieces of a text."""
    found = set()
    for piece in iter_pieces(text):
        if piece.strip().count("\n") < MAX_LINES:
            continue
        left, flat = "", piece
        while left != flat:  # from the innermost brackets outwards
            left = flat
            groups, flat = [group[0] for group in _GROUP.finditer(left)], _GROUP.sub("~", left)
            for part in [*groups, flat] if left == flat else groups:
                found |= {next(filter(None, names)) for names in _ALIAS.findall(part)}
    return found


VERBS = """abandon add advance announce apply ask attach audit begin build bump choose claim clear code complete compute
copy count cut delete demand describe dismiss divide draw drop erase estimate execute fail fill find finish fits fold
forget format freeze gather give grant guard has hash hide hold import insert is join judge leave lies list load locate
lock make makes mark may measure name names normalise note number open order pad parse prepare publish put quote raise
read reap recode refuse register replace report reproject requeue restore retain revoke run sample set settle show sort
stage stands steer store strip suggest sum survey take tie try unite wait wake watch write"""
_HELPER = re.compile(r"FUNCTION (?:dbanon_internal|pg_temp)\.((?:dbanon_)?([a-z]+)\w*)\(")
_BODY = re.compile(
    r"CREATE OR REPLACE FUNCTION dbanon_internal\.((?!demand_|refuse_|guard_|raise_)\w+)"
    r"\((?:(?!\nCOMMENT ON ).)*?AS \$\$(.*?)\$\$",
    re.DOTALL,
)
_ERROR = re.compile(r"\bRAISE EXCEPTION\b|(?<!EXECUTE FUNCTION )dbanon_internal\.(?:demand|refuse|raise(?!_notice))_")
_COMMENT = r"COMMENT ON FUNCTION dbanon_internal\.{} IS\s'((?:[^']|'')*)'"
_RAISES = re.compile(r"\b(?:raise|refuse)s\b", re.IGNORECASE)


def find_silent_helpers(text: str) -> set[str]:
    """Find the helpers that raise an error, directly or by a `demand_` or `refuse_`, and do not say so."""
    raising = {name for name, body in _BODY.findall(text) if _ERROR.search(re.sub("--.*", "", body))}
    comments = {name: re.search(_COMMENT.format(name), text, re.DOTALL) for name in raising}
    return {name for name, comment in comments.items() if comment is None or not _RAISES.search(comment[1])}


def test_a_helper_begins_with_a_verb_that_others_begin_with() -> None:
    text = "".join(file.read_text() for file in SQL)
    found = {(verb, name) for name, verb in _HELPER.findall(text)}
    assert {name for verb, name in found if verb not in VERBS.split()} == set()


def test_a_helper_that_raises_an_error_says_so() -> None:
    assert set().union(*(find_silent_helpers(file.read_text()) for file in SQL)) == set()


@pytest.mark.parametrize("line", ["RAISE EXCEPTION 'No.';", "PERFORM dbanon_internal.demand_zone(tz);"])
def test_a_helper_that_does_not_say_so_is_found(line: str) -> None:
    text = f"""CREATE OR REPLACE FUNCTION dbanon_internal.find_x() RETURNS void AS $$ BEGIN {line} END $$;
COMMENT ON FUNCTION dbanon_internal.find_x IS
'Finds it.';"""
    assert find_silent_helpers(text) == {"find_x"}
    assert find_silent_helpers(text.replace("it.", "it. Raises an error if it is gone.")) == set()


@pytest.mark.parametrize("file", SQL, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_alias_of_a_long_statement_is_one_letter(file: Path) -> None:
    assert find_short_names(file.read_text()) == set()


def test_no_alias_of_a_long_statement_in_python_is_one_letter() -> None:
    found = {}
    for file in PYTHON:
        texts = [
            text for text in _LITERAL.findall(file.read_text()) if re.search(r"\b(?:SELECT|UPDATE|DELETE)\b", text)
        ]
        found[str(file.relative_to(ROOT))] = set().union(*map(find_short_names, texts))
    assert {file: names for file, names in found.items() if names} == {}


LONG = "\n" * MAX_LINES
PLANTED = {
    "a table": "SELECT r.run_id{long}FROM ONLY dbanon.run r WHERE true",
    "a joined function": "SELECT 1{long}FROM x JOIN unnest(ARRAY[f(1)], 2) WITH ORDINALITY e (a, b) ON true",
    "a subquery with AS": "SELECT 1{long}FROM (SELECT (1)) AS s",
    "the second of a list": "SELECT 1{long}FROM first, LATERAL (SELECT 1) p WHERE true",
    "one within brackets": "SELECT ARRAY(SELECT n FROM names n){long}AS found",
    "an update": "UPDATE dbanon.run r{long}SET a = 1",
    "a deletion": "DELETE FROM x USING dbanon.load l{long}WHERE true",
    "a body": "CREATE FUNCTION f() RETURNS void AS $$\nBEGIN\n    PERFORM 1;{long}    PERFORM FROM x y;\nEND\n$$;",
    "a record variable": "DO $$\nDECLARE\n    r record;\nBEGIN{long}END\n$$;",
    "a variable of a loop": "DO $$\nBEGIN{long}    FOR r IN SELECT 1 LOOP\n    END LOOP;\nEND\n$$;",
    "a quoted query": "DO $$\nBEGIN\n    EXECUTE format($q$SELECT 1{long}FROM %s c$q$, x);\nEND\n$$;",
    "a query of several literals": "DO $$\nBEGIN EXECUTE 'SELECT 1 '"
    + "\n    ',1 '" * MAX_LINES
    + "\n    'FROM x c';\nEND\n$$;",
}


@pytest.mark.parametrize("case", PLANTED)
def test_an_alias_of_one_letter_is_found(case: str) -> None:
    planted = PLANTED[case]
    assert len(find_short_names(planted.format(long=LONG) if "{long}" in planted else planted)) == 1
    assert "{long}" not in planted or find_short_names(planted.format(long="\n")) == set()

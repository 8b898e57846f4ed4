"""The pages for administrators as one session: from a raw table to releases and back.

Each statement is typed into psql by the login that its block names, or by olga.
"""

import re
import secrets
import subprocess
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres import programs, server
from tests import pages, wholeness
from tests.acceptance import workers
from tests.acceptance.commands import run_typed

# In the order of reading: each page, and the kinds of its blocks that are typed.
SESSION = {
    "set-up": ("sql superuser", "sql"),
    "load": ("sql",),
    "load-places": ("sql",),
    "run-and-publish": ("sql", "sql anna", "sql arno", "sql refused"),
    "report": ("console",),
    "every-night": ("sql",),  # the others are of its job, which has a test of its own
    "withdraw-and-forget": ("sql", "sql arno", "sql refused"),
    "dump-upgrade-remove": ("sql superuser",),
}
BLOCKS = [
    (kind.removeprefix("sql").strip(), text)
    for page, kinds in SESSION.items()
    for kind, text in pages.list_blocks(f"docs/administrators/{page}.md", *kinds)
]
RAW = """
CREATE TABLE public.requests AS SELECT subject, sent_at AS t, content ->> 'poi' AS poi FROM dbanon.request;
CREATE TABLE public.gps_tuesday AS SELECT subject, t + interval '1 day' AS t, position FROM public.gps;
CREATE TABLE public.gps_wednesday AS SELECT subject, t + interval '2 days' AS t, position FROM public.gps;
CREATE TABLE public.gps_thursday AS SELECT subject, t + interval '3 days' AS t, position FROM public.gps;
CREATE TABLE public.gps_late AS SELECT 'late ' || subject AS subject, t + interval '1 day' AS t,
    ST_Translate(position, 100, 100) AS position FROM public.gps;
CREATE TABLE public.clinics AS SELECT position AS place, 'clinic ' || row_number() OVER () AS title
    FROM public.gps LIMIT 3;
CREATE TABLE public.shops AS SELECT position AS geom, 'shop' AS kind FROM public.gps LIMIT 5;
CREATE TABLE public.towers AS SELECT DISTINCT ON (subject) position AS geom, 'mast ' || subject AS mast
    FROM public.gps LIMIT 5;
CREATE TABLE public.districts AS SELECT ST_Buffer(ST_ConvexHull(ST_Collect(position)), 50) AS geom FROM public.gps;
CREATE TABLE public.coverage AS SELECT geom, 'all' AS station FROM public.districts;
CREATE TABLE public.sightings AS SELECT DISTINCT ON (subject) subject AS person, t AS seen_at FROM public.gps;
CREATE TABLE public.requests_tuesday AS SELECT subject, t + interval '1 day' AS t, poi FROM public.requests;
"""
MONDAY = "SELECT min(t) >= '2026-01-05 00:00Z' AND max(t) < '2026-01-06 00:00Z' FROM public.gps"
NIGHTLY = """
SELECT l.overlap IS NULL, v.valid_from >= '2026-01-06 00:00Z'
FROM dbanon.release l, (SELECT min(valid_from) AS valid_from FROM published.taxi_k5) v
WHERE l.name = 'taxi_k5' AND l.withdrawn_at IS NULL
"""
END = "-- that was the block --"
TOO_LATE = "to cancel"  # the page says so: it may have ended


@pytest.fixture
def names(city_url: str) -> dict[str, str]:
    """Roles belong to the whole server: names of this test's own."""
    return {name: f"dbanon_{name}_{secrets.token_hex(3)}" for name in ("olga", "wanda", "anna", "arno", "auditors")}


class Psql:
    """A psql that stays open, as an administrator's does: what a block keeps with a variable the next ones have."""

    def __init__(self, url: str) -> None:
        psql = programs.find_binaries().bindir / "psql"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [psql, "--no-psqlrc", url], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> "Psql":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # the end of its input is the end of psql

    def type(self, block: str) -> str:
        """Type a block; returns what is answered."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{block}\n\\echo '{END}'\n")
        self.process.stdin.flush()
        answer = ""
        while not answer.endswith(f"{END}\n"):
            line = self.process.stdout.readline()
            assert line, f"psql ended: {answer}"
            answer += line
        return answer.removesuffix(f"{END}\n")


def find_errors(answer: str) -> list[str]:
    found = re.findall(r"^(?:psql: )?(?:ERROR|error|FATAL).*|^.*\\gset.*|^invalid command.*", answer, re.MULTILINE)
    return [line for line in found if TOO_LATE not in line]


@pytest.mark.stress
def test_the_session_goes_from_a_raw_table_to_releases_and_back(
    city_url: str, names: dict[str, str], tmp_path: Path
) -> None:
    with psycopg.connect(city_url, autocommit=True) as owner:
        assert owner.execute(MONDAY).fetchone() == (True,)
        owner.execute(RAW)
        try:
            play(city_url, names, tmp_path)
            assert owner.execute(NIGHTLY).fetchone() == (True, True)
        finally:
            for name in names.values():
                owner.execute(f"DROP OWNED BY {name}")
                owner.execute(f"DROP ROLE {name}")


def play(url: str, names: dict[str, str], tmp_path: Path) -> None:
    def named(text: str) -> str:
        return re.sub(r"\b(olga|wanda|anna|arno|auditors)\b", lambda match: names[match[0]], text)

    def login(name: str) -> str:
        return server.format_uri({**server.parse(url), "user": names[name], "password": "change me"})

    whole = True
    kind, first = BLOCKS[0]
    assert kind == "superuser"
    with ExitStack() as stack:
        superuser = stack.enter_context(Psql(url))
        assert find_errors(superuser.type(named(first))) == []
        stack.enter_context(workers.keep_up(login("wanda"), tmp_path / "log", "--jobs", "2", count=2))
        sessions = {name: stack.enter_context(Psql(login(name))) for name in ("olga", "anna", "arno")}
        sessions["superuser"] = superuser
        for kind, block in BLOCKS[1:]:
            if kind == "console":
                for command, _ in pages.split_typed(block):
                    done = run_typed(url, tmp_path, command)
                    assert done.code == 0, command + done.stderr
                continue
            answer = sessions[kind if kind in sessions else "olga"].type(named(block))
            if kind == "refused":
                assert find_errors(answer)
                assert re.search(r"\btaxi_k(5|20)\b", answer)  # the release in the way
            else:
                assert find_errors(answer) == [], block + answer
            whole = whole and "forget_subject" not in block  # which leaves less than was loaded
            settle(url, whole=whole)
    with psycopg.connect(login("anna")) as analyst:
        assert analyst.execute("SELECT count(*) > 0 FROM published.taxi_k5").fetchone() == (True,)


def settle(url: str, *, whole: bool) -> None:
    """Read on when what was queued is done, as an administrator would."""
    with psycopg.connect(url, autocommit=True) as owner:
        counted = "SELECT count(*) FROM dbanon.run WHERE todo IS NOT NULL"
        workers.wait_until(lambda: owner.execute(counted).fetchone() == (0,), 60)
        if whole:
            assert [
                rule for rule in wholeness.find_broken(owner) if "advisory locks" not in rule
            ] == []  # the workers' own

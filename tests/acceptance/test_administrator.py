"""The pages for administrators as one session: from a raw table to releases and back.

Each statement is typed into psql by the login that its block names, or by olga. Every block of every page for
administrators is typed, here or by the test that `ELSEWHERE` names, unless it is of a kind that says why it cannot be.
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

FOLDER = pages.ROOT / "docs" / "administrators"
# In the order of reading.
SESSION = (
    *("set-up", "load", "load-places", "run-and-publish", "report", "every-night", "withdraw-and-forget"),
    "dump-upgrade-remove",
)
ACCEPTANCE, WALK = "tests/acceptance", "tests/acceptance/walks/test_dba.py"
LOADS, NIGHTS = f"{ACCEPTANCE}/test_load_pages.py", f"{ACCEPTANCE}/test_every_night.py"
ELSEWHERE = {
    ("set-up", "sh"): WALK,
    ("set-up", "sh worker"): WALK,
    ("load", "console"): LOADS,
    ("load-places", "console"): LOADS,
    **{("every-night", f"sql {of}"): NIGHTS for of in ("dba", "nina", "anna", "cron", "change")},
    **{("every-night", kind): NIGHTS for kind in ("console nina", "console git", "toml")},
    ("dump-upgrade-remove", "sh"): "tests/db/test_dump_restore.py",
    ("install", "sh wheel"): f"{ACCEPTANCE}/test_installed.py",
    ("script-and-extension", "sh"): WALK,
    ("script-and-extension", "sh second"): WALK,
    **{
        ("other-tables", kind): f"{ACCEPTANCE}/test_other_tables.py"
        for kind in ("sh copy", "sql foreign", "sql towers", "python alembic")
    },
    ("compare-settings", "console"): f"{ACCEPTANCE}/test_taxis.py",
    ("operate", "ini pg_cron"): f"{ACCEPTANCE}/test_cron.py",
    ("operate", "sh"): f"{ACCEPTANCE}/test_watched_worker.py",
    ("generate", "sh"): f"{ACCEPTANCE}/test_pages.py",
    ("generate", "python"): f"{ACCEPTANCE}/test_pages.py",
    ("load-formats", "console"): f"{ACCEPTANCE}/test_tracks.py",
    ("load-formats", "python"): f"{ACCEPTANCE}/test_pages.py",
    ("taxis", "console"): f"{ACCEPTANCE}/test_taxis.py",
    ("several-releases", "console"): f"{ACCEPTANCE}/test_pages.py",
    ("several-releases", "console refused"): f"{ACCEPTANCE}/test_pages.py",
    **{("managed", kind): "tests/upgrade/test_managed.py" for kind in ("sh", "sql dba", "sql geo_owner", "sql olga")},
    **{("psql-alone", kind): f"{ACCEPTANCE}/test_from_nothing.py" for kind in ("sh worker", "sh server")},
    **{
        ("psql-alone", f"sql {of}"): f"{ACCEPTANCE}/test_from_nothing.py"
        for of in ("superuser", "gina", "olga", "anna")
    },
}
"""The test that types the blocks of a kind on a page."""
NOT_TYPED = {
    "text": "a file, an answer, or words that a reader replaces",
    "ini systemd": "needs systemd as the first process of the machine",
    "sh pip": "fetches a gigabyte of packages; tests/acceptance/test_installed.py installs without parts",
    "sh docker": "builds images for minutes; tests/acceptance/test_worker_image.py runs one",
    "sh tunnel": "needs a gateway to another machine",
    "sh dask": "needs a cluster with certificates; tests/acceptance/test_shared_runs.py has one without",
    "sh pooler": "needs a pooler at an address; tests/acceptance/test_pooler.py has one",
    "sh replica": "needs a standby at an address; tests/acceptance/test_replica.py has one",
    "sh extension": "changes the server of the machine; tests/upgrade/test_extension.py makes the extension",
}
"""Why no test types the blocks of a kind, unless `ELSEWHERE` names one."""


def list_kinds(page: Path) -> set[str]:
    return {kind for kind, _ in pages.split(page.read_text())}


def is_left_out(page: str, kind: str) -> bool:
    """Whether another test types the blocks of a kind on a page, or none can."""
    return (page, kind) in ELSEWHERE or kind in NOT_TYPED


BLOCKS = [
    (kind.removeprefix("sql").strip(), text)
    for page in SESSION
    for kind, text in pages.split((FOLDER / f"{page}.md").read_text())
    if not is_left_out(page, kind)
]
RAW = """
DROP TABLE public.gps;
CREATE TABLE public.gps AS SELECT subject AS cab, t AS ts, ST_X(place) AS lon, ST_Y(place) AS lat
    FROM dbanon.fix, ST_Transform(position, 4326) AS place;
CREATE TABLE public.requests AS SELECT subject AS cab, sent_at AS ts, content ->> 'poi' AS poi FROM dbanon.request;
CREATE TABLE public.gps_tuesday AS SELECT cab, ts + interval '1 day' AS ts, lon, lat FROM public.gps;
CREATE TABLE public.gps_wednesday AS SELECT cab, ts + interval '2 days' AS ts, lon, lat FROM public.gps;
CREATE TABLE public.gps_thursday AS SELECT cab, ts + interval '3 days' AS ts, lon, lat FROM public.gps;
CREATE TABLE public.gps_fleet_b AS SELECT * FROM public.gps_tuesday;
CREATE TABLE public.gps_late AS SELECT 'late ' || cab AS cab, ts, lon + 0.001 AS lon, lat + 0.001 AS lat
    FROM public.gps_tuesday;
CREATE TABLE public.clinics AS SELECT position AS place, 'clinic ' || row_number() OVER () AS title
    FROM dbanon.fix LIMIT 3;
CREATE TABLE public.shops AS SELECT position AS geom, 'shop' AS kind FROM dbanon.fix LIMIT 5;
CREATE TABLE public.towers AS SELECT DISTINCT ON (subject) position AS geom, 'mast ' || subject AS mast
    FROM dbanon.fix LIMIT 5;
CREATE TABLE public.districts AS SELECT ST_Buffer(ST_ConvexHull(ST_Collect(position)), 50) AS geom FROM dbanon.fix;
CREATE TABLE public.coverage AS SELECT geom, 'all' AS station FROM public.districts;
CREATE TABLE public.sightings AS SELECT DISTINCT ON (cab) cab, ts AS seen_at FROM public.gps;
CREATE TABLE public.requests_tuesday AS SELECT cab, ts + interval '1 day' AS ts, poi FROM public.requests;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC;
"""
MONDAY = "SELECT min(t) >= '2026-01-05 00:00Z' AND max(t) < '2026-01-06 00:00Z' FROM dbanon.fix"
NIGHTLY = """
SELECT l.overlap IS NULL, v.valid_from >= '2026-01-06 00:00Z'
FROM dbanon.release l, (SELECT min(valid_from) AS valid_from FROM published.taxi_k5) v
WHERE l.name = 'taxi_k5' AND l.withdrawn_at IS NULL
"""
END = "-- that was the block --"
TOO_LATE = "to cancel"  # the page says so: it may have ended


NAMES = "olga", "wanda", "anna", "arno", "otto", "auditors", "officers"


@pytest.fixture
def names(city_url: str) -> dict[str, str]:
    """Roles belong to the whole server: names of this test's own."""
    return {name: f"dbanon_{name}_{secrets.token_hex(3)}" for name in NAMES}


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


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_every_block_of_a_page_is_typed_or_of_a_kind_that_says_why_not(page: Path) -> None:
    text = page.read_text()
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(pages.split(text))
    if page.stem not in SESSION:
        assert [kind for kind in list_kinds(page) if not is_left_out(page.stem, kind)] == []


@pytest.mark.parametrize(("page", "kind"), ELSEWHERE)
def test_the_blocks_that_another_test_types_are_there_and_it_names_their_page(page: str, kind: str) -> None:
    assert kind in list_kinds(FOLDER / f"{page}.md")
    assert re.search(rf"\b{page}\b", (pages.ROOT / ELSEWHERE[page, kind]).read_text())


@pytest.mark.parametrize("kind", NOT_TYPED)
def test_a_kind_that_is_not_typed_is_in_use_and_the_test_beside_it_is_there(kind: str) -> None:
    assert any(kind in list_kinds(page) and (page.stem, kind) not in ELSEWHERE for page in FOLDER.glob("*.md"))
    assert all((pages.ROOT / path).is_file() for path in re.findall(r"tests/[\w/]+\.py", NOT_TYPED[kind]))


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
            made = "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)"
            for (name,) in owner.execute(made, [list(names.values())]).fetchall():
                owner.execute(f"DROP OWNED BY {name}")
                owner.execute(f"DROP ROLE {name}")


def play(url: str, names: dict[str, str], tmp_path: Path) -> None:
    def named(text: str) -> str:
        return re.sub(rf"\b({'|'.join(NAMES)})\b", lambda match: names[match[0]], text)

    def login(name: str) -> str:
        return server.format_uri({**server.parse(url), "user": names[name], "password": "change me"})

    whole = True
    kind, first = BLOCKS[0]
    assert kind == "superuser"
    assert {kind for kind, _ in BLOCKS} == {"", "anna", "arno", "console", "refused", "superuser"}
    with ExitStack() as stack:
        superuser = stack.enter_context(Psql(url))
        assert find_errors(superuser.type(named(first))) == []
        stack.enter_context(workers.keep_up(login("wanda"), tmp_path / "log", "--jobs", "2", count=2))
        sessions = {"superuser": superuser}
        for kind, block in BLOCKS[1:]:
            if kind == "console":
                for command, _ in pages.split_typed(block):
                    done = run_typed(url, tmp_path, command)
                    assert done.code == 0, command + done.stderr
                continue
            who = "olga" if kind in ("", "refused") else kind
            if who not in sessions:
                sessions[who] = stack.enter_context(Psql(login(who)))
            answer = sessions[who].type(named(block))
            if kind == "refused":
                assert find_errors(answer)
                assert re.search(r"\b(taxi_k5|taxi_k20|sign_run)\b", answer)  # what is in the way
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

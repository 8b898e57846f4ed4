"""The administrator's session in ``docs/howto/administrator.md``, typed into psql by the logins it names."""

import re
import secrets
import subprocess
from pathlib import Path

import psycopg
import pytest

from dbanon import _postgres, server
from tests import wholeness
from tests.acceptance import workers

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "administrator.md"
BLOCKS = re.findall(r"^```sql ?(\w*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
RAW = """
CREATE TABLE public.requests AS SELECT subject, sent_at AS t, content ->> 'poi' AS poi FROM dbanon.request;
"""


@pytest.fixture
def names(city_url: str) -> dict[str, str]:
    """Roles belong to the whole server: names of this test's own."""
    return {name: f"dbanon_{name}_{secrets.token_hex(3)}" for name in ("olga", "wanda", "anna")}


def typed(url: str, statements: str) -> subprocess.CompletedProcess[str]:
    psql = _postgres.find_binaries().bindir / "psql"
    command = [str(psql), "--no-psqlrc", "--set", "ON_ERROR_STOP=1", url]
    return subprocess.run(command, input=statements, capture_output=True, text=True, check=False)


def test_the_session_goes_from_a_raw_table_to_releases_and_back(
    city_url: str, names: dict[str, str], tmp_path: Path
) -> None:
    with psycopg.connect(city_url, autocommit=True) as owner:
        owner.execute(RAW)
        owner.execute("DELETE FROM dbanon.run")
        owner.execute("ALTER TABLE dbanon.run ALTER run_id RESTART")
        try:
            play(city_url, names, tmp_path)
        finally:
            for name in names.values():
                owner.execute(f"DROP OWNED BY {name}")
                owner.execute(f"DROP ROLE {name}")


def play(url: str, names: dict[str, str], tmp_path: Path) -> None:
    def named(text: str) -> str:
        return re.sub(r"\b(olga|wanda|anna)\b", lambda match: names[match[0]], text)

    def login(name: str) -> str:
        return server.uri({**server.parse(url), "user": names[name], "password": "change me"})

    whole = True
    kind, first = BLOCKS[0]
    assert kind == "superuser"
    done = typed(url, named(first))
    assert done.returncode == 0, done.stderr
    with workers.up(login("wanda"), tmp_path / "log", "--jobs", "2", count=2):
        for kind, block in BLOCKS[1:]:
            done = typed(login(kind if kind in names else "olga"), named(block))
            if kind == "refused":
                assert done.returncode != 0
                assert "taxi_k5" in done.stderr
            else:
                assert done.returncode == 0, block + done.stdout + done.stderr
            whole = whole and "forget_subject" not in block  # which leaves less than was loaded
            settle(url, whole=whole)
    with psycopg.connect(login("anna")) as analyst:
        assert analyst.execute("SELECT count(*) > 0 FROM published.taxi_k5").fetchone() == (True,)


def settle(url: str, *, whole: bool) -> None:
    """Read on when what was queued is done, as an administrator would."""
    with psycopg.connect(url, autocommit=True) as owner:
        counted = "SELECT count(*) FROM dbanon.run WHERE todo IS NOT NULL"
        workers.until(lambda: owner.execute(counted).fetchone() == (0,), 60)
        if whole:
            assert [rule for rule in wholeness.broken(owner) if "advisory locks" not in rule] == []  # the workers' own

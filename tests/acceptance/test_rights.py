"""A login that lacks the right for a command is told so in one sentence, and nothing is left of what it tried."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from dbanon.postgres import server
from tests import wholeness
from tests.acceptance.commands import call, shift_rows
from tests.facts import demand_refused

pytestmark = pytest.mark.db

LOAD = ("load", "trajectories", "{trajectories}", "--dataset", "second", "--x", "lon", "--y", "lat")
REPLACE = ("load", "trajectories", "{trajectories}", "--dataset", "city", "--x", "lon", "--y", "lat", "--append")
REQUESTS = ("load", "requests", "{requests}", "--dataset", "city", "--columns", "poi")
IMPORT = ("import", "public.gps", "--dataset", "second", "--subject", "subject", "--time", "t", "--geom", "position")
SYNTH = ("synth", "--dataset", "second", "--objects", "40", "--blocks", "4")
RUN = ("run", "tp-aware", "--dataset", "city")
VERIFY, PUBLISH, UNPUBLISH, RUNS = ("verify", "1"), ("publish", "1", "mine"), ("unpublish", "city_k5"), ("runs",)
MAY_NOT = {
    "dbanon_analyst": (LOAD, REPLACE, IMPORT, SYNTH, REQUESTS, RUN, VERIFY, PUBLISH, UNPUBLISH, RUNS),
    "dbanon_operator": (RUN, VERIFY),
    "dbanon_worker": (LOAD, REPLACE, IMPORT, SYNTH, REQUESTS, PUBLISH, UNPUBLISH),
}


@pytest.mark.many
@pytest.mark.parametrize(
    ("role", "arguments"), [(role, arguments) for role, refused in MAY_NOT.items() for arguments in refused]
)
def test_a_login_without_the_right_is_told_so_and_leaves_nothing(
    city_url: str, city_files: tuple[Path, Path], login: Callable[[str], str], role: str, arguments: tuple[str, ...]
) -> None:
    url = server.format_uri({**server.parse(login(role)), "dbname": server.parse(city_url)["dbname"]})
    assert call(city_url, "publish", "1", "city_k5").code == 0
    words = [word.format(trajectories=city_files[0], requests=shift_rows(city_files[1])) for word in arguments]

    done = call(url, *words)

    demand_refused(done, 1, "rights", "dbanon_operator", "dbanon_worker", "dbanon_admin")
    with psycopg.connect(city_url, autocommit=True) as connection:
        assert wholeness.find_broken(connection) == []
        counted = "SELECT (SELECT count(*) FROM dbanon.load), (SELECT count(*) FROM dbanon.run)"
        assert connection.execute(counted).fetchone() == (2, 1)
        assert connection.execute("SELECT count(*) FROM dbanon.release WHERE withdrawn_at IS NULL").fetchone() == (1,)

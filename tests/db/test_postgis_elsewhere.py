"""PostGIS in a schema of its own: the statements of the pages for analysts, and what their pages say first."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from dbanon import schema
from dbanon.testing import database_url, logins, shared_database
from tests import pages
from tests.db.conftest import RUN, VERIFY

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

PAGES = [f"docs/analysts/{name}.md" for name in ("read-a-release", "ten-questions", "dashboards")]
# Stand-ins for the releases of the pages. A statement may ask for a time that they lack.
STAND_INS = """
SELECT dbanon.publish(1, unnest(ARRAY['city_k5', 'cabs_k5',
    'cabs_mob', 'cabs_groups', 'cabs_semantic', 'pickups_clinics']));
CREATE VIEW published.city_0810 AS SELECT *, false AS cloaked FROM published.city_k5;
GRANT SELECT ON published.city_0810 TO dbanon_analyst"""
SAYS = re.compile(r"`(?:ALTER ROLE anna )?(SET search_path = public, (\w+);)`")


@pytest.fixture(scope="module")
def analyst(dbanon_server: "Target") -> Iterator[str]:
    """URL of an analyst of a database with PostGIS in the schema ``extensions``."""

    def fill(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("DROP EXTENSION IF EXISTS postgis CASCADE")
            owner.execute("CREATE SCHEMA extensions; CREATE EXTENSION postgis SCHEMA extensions")
            schema.upgrade(url, share_roles=True)
            owner.execute("GRANT USAGE ON SCHEMA extensions TO PUBLIC")
            owner.execute("SET search_path = public, extensions")
            owner.execute(RUN)
            owner.execute(VERIFY, [True])
            for statement in STAND_INS.split(";"):
                owner.execute(statement)  # type: ignore[arg-type]

    with (
        shared_database(dbanon_server, "elsewhere", fill) as name,
        logins(database_url(dbanon_server.url, dbname=name)) as login,
    ):
        yield login("dbanon_analyst")


def list_statements(page: str) -> list[str]:
    kinds = {kind for kind, _ in pages.split((pages.ROOT / page).read_text()) if kind.startswith("sql")}
    return [
        statement
        for _, block in pages.list_blocks(page, *kinds)
        for statement in pages.fill_in_times(block).split(";\n")
        if statement.strip() and not statement.startswith("\\")
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_statements_of_a_page_find_postgis_as_it_says(analyst: str, page: str) -> None:
    [(said, example)] = SAYS.findall((pages.ROOT / page).read_text())
    before = (pages.ROOT / page).read_text().partition(said)[0]
    assert not re.search(r"ST_[A-Z]\w+\(", before)
    lost = []
    with psycopg.connect(analyst, autocommit=True) as reader:
        with pytest.raises(psycopg.errors.UndefinedFunction):
            reader.execute("SELECT ST_MakeEnvelope(0, 0, 1, 1, 4326)")
        reader.execute(said.replace(example, "extensions"))  # type: ignore[arg-type]
        for statement in list_statements(page):
            try:
                reader.execute(statement)  # type: ignore[arg-type]
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith("DA"):
                    lost.append(f"{error.sqlstate} {error}: {statement}")
    assert lost == []

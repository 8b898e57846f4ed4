"""A small generated city, loaded and verified once; every test gets a database of its own."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dbanon import synth
from dbanon.database import Database, open_database
from dbanon.postgres.programs import find_installations
from dbanon.postgres.server import Target
from dbanon.results.figures import Answers, Evaluation, Figure, Questions
from dbanon.testing import cloned_database, database_url, logins, shared_database
from tests.acceptance import commands

REAL_DATA = Path(__file__).parents[3] / "shared" / "data"
CHROMIUM = Path("/usr/bin/chromium")
# Real data are not part of the repository; where they lie beside it, they are tested. So are pg_cron,
# Chromium, and the programs of QGIS and GDAL, of which the former is as large as all else together: .ci/run installs
# them where it may. Tests of images run where tests shall run in containers.
collect_ignore = (
    []
    if REAL_DATA.is_dir()
    else [
        "test_benchmarked_figures.py",
        "test_dashboards.py",
        "test_load_pages.py",
        "test_networks.py",
        "test_pickups.py",
        "test_places_of_san_francisco.py",
        "test_taxis.py",
    ]
)
if not (Path("/usr/lib/python3/dist-packages/qgis").is_dir() and shutil.which("ogr2ogr")):
    collect_ignore.append("test_gis.py")
if not any(
    Path(f"/usr/share/postgresql/{p.major}/extension/pg_cron.control").is_file() for p in find_installations()[:1]
):
    collect_ignore.append("test_cron.py")
if not CHROMIUM.is_file():
    collect_ignore.append("test_browser.py")
if os.environ.get("DBANON_TEST_SERVER") != "container":  # whoever asks for containers has an engine
    collect_ignore += ["test_from_nothing.py", "test_worker_image.py"]


@pytest.fixture(scope="session")
def city_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return synth.write_demo(tmp_path_factory.mktemp("city"))


@pytest.fixture(scope="session")
def city_template(
    dbanon_server: Target, dbanon_template: str, city_files: tuple[Path, Path]
) -> Iterator[tuple[str, int]]:
    """Name of a database with a loaded city and one verified run, to be cloned, and the run's id."""

    def fill(url: str) -> None:
        with open_database(url) as database:
            database.load_trajectories([city_files[0]], dataset="city", **synth.CSV_COLUMNS)
            database.load_requests(city_files[1], dataset="city", columns=["poi"])
            database.run("tp-aware", dataset="city", params={"k": 5, "guests": False}, seed=7).require_verified()
            database.connection.execute(
                "CREATE TABLE public.gps AS SELECT subject, t, position FROM dbanon.fix; "
                "GRANT SELECT ON public.gps TO PUBLIC"
            )
            database.connection.execute("ANALYZE")  # servers of tests have no autovacuum

    with shared_database(dbanon_server, "city", fill, template=dbanon_template) as name:
        yield name, 1


@pytest.fixture
def city_url(dbanon_server: Target, city_template: tuple[str, int]) -> Iterator[str]:
    """URL of a database of the test's own with a loaded city and a verified run."""
    with cloned_database(dbanon_server, city_template[0]) as clone:
        yield clone


@pytest.fixture
def verified_city(city_url: str, city_template: tuple[str, int]) -> Iterator[tuple[Database, int]]:
    """An open database with a verified run, and the run's id."""
    with open_database(city_url) as database:
        yield database, city_template[1]


@pytest.fixture(scope="session")
def releases_template(
    dbanon_server: Target, city_template: tuple[str, int], city_files: tuple[Path, Path]
) -> Iterator[str]:
    """Name of a database with two releases, to be cloned: city_k5 has requests, city_sites has exact rows."""

    def fill(url: str) -> None:
        with open_database(url) as database:
            database.publish(city_template[1], "city_k5")
            places = {"x": "lon", "y": "lat", "name": "name"}
            database.load_sites(commands.write_sites(city_files[0]), dataset="city", **places)
            result = database.run("sensitive-sites", dataset="city", params={"k": 4, "at": "2026-01-05T08:10:00Z"})
            database.publish(result.run_id, "city_sites", allow_overlap=True, reason="a test of files")

    with shared_database(dbanon_server, "releases", fill, template=city_template[0]) as name:
        yield name


@pytest.fixture(scope="session")
def city(dbanon_server: Target, releases_template: str) -> Iterator[str]:
    """URL of a clone of `releases_template` that all tests read: while they do, it cannot be cloned itself."""
    with shared_database(dbanon_server, "read", lambda url: None, template=releases_template) as name:
        yield database_url(dbanon_server.url, dbname=name)


@pytest.fixture(scope="session")
def anna(city: str) -> Iterator[str]:
    """URL of an analyst's login to that database."""
    with logins(city) as login:
        yield login("analyst")


@pytest.fixture(scope="session")
def measured() -> Evaluation:
    """An evaluation as private pages show it: making a true one takes ten seconds."""
    sides = np.array([500.0, 1000.0, 2000.0, 4000.0])
    at = np.repeat(1_767_600_600.0, 8)
    figures = [
        Figure(name="usable_resolution_m", value=1234.0, low=1100.0, high=1400.0),
        *(
            Figure(name="count_error", value=0.1 + 400 / side, low=0.1, high=0.1 + 600 / side, side_m=side, asked=asked)
            for side in sides.tolist()
            for asked in ("moment", "span")
        ),
    ]
    zero = np.zeros(8)
    return Evaluation(
        run_id=1,
        source="run 1",
        dataset="city",
        against="published",
        queries=400,
        seed=1,
        figures=tuple(figures),
        questions=Questions(side_m=np.tile(sides, 2), x=zero, y=zero, since=at, until=at),
        true=np.arange(1.0, 9.0),
        answers=Answers(at_least=zero, expected=np.arange(1.0, 9.0) + 1, at_most=np.arange(1.0, 9.0) + 5),
        notes=("A note.",),
    )

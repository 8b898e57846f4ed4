"""What the installed package carries beside its modules."""

import hashlib
import inspect
import os
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import dbanon
from dbanon import schema, testing
from dbanon.base.extras import PACKAGES
from dbanon.database import Database

ROOT = Path(__file__).parents[2]
EPOCH = "1767225600"
VERBS = [member for name, member in inspect.getmembers(Database, inspect.isfunction) if not name.startswith("_")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A wheel of the repository, made at `EPOCH`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        [built] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return built


@pytest.fixture(scope="module")
def archive(built: str) -> Iterator[zipfile.ZipFile]:
    """What is in it."""
    with zipfile.ZipFile(built) as opened:
        yield opened


@pytest.fixture(scope="module")
def wheel(archive: zipfile.ZipFile) -> set[str]:
    """Names of the files in it."""
    return set(archive.namelist())


def test_the_wheel_carries_the_script_that_psql_runs(archive: zipfile.ZipFile) -> None:
    assert archive.read("dbanon/dbanon.sql").decode() == schema.write_script()


def test_the_image_carries_the_script_that_is_in_the_wheel() -> None:
    assert "!hatch_build.py" in (ROOT / ".dockerignore").read_text().splitlines()
    made = (ROOT / "docker" / "programs.Dockerfile").read_text()
    assert "site-packages/dbanon/dbanon.sql /opt/dbanon/share/dbanon.sql" in made


def test_the_wheel_has_the_mark_of_a_typed_package(wheel: set[str]) -> None:
    assert "dbanon/py.typed" in wheel


def test_the_wheel_has_the_package_alone_and_no_algorithm_of_benchmarks(wheel: set[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in wheel} == {"dbanon"}
    papers = {file.relative_to(ROOT / "benchmarks/papers") for file in (ROOT / "benchmarks/papers").glob("*/[!_]*.py")}
    assert papers
    assert not {f"dbanon/methods/{file.parent}/{mark}{file.name}" for file in papers for mark in ("", "_")} & wheel


def test_the_wheel_carries_sql_migrations_and_the_image(wheel: set[str]) -> None:
    for folder, inside in (("sql", "_sql"), ("migrations", "_migrations"), ("docker", "_docker")):
        files = [file for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        assert files
        assert {f"dbanon/{inside}/{file.relative_to(ROOT / folder)}" for file in files} <= wheel


@pytest.mark.stress
def test_the_same_sources_make_the_same_bytes_elsewhere_and_later(
    built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources are those of the source archive, which is therefore whole; nothing else is the same."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    [archive] = SdistBuilder(str(ROOT)).build(directory=str(tmp_path / "one"), versions=["standard"])
    with tarfile.open(archive) as packed:
        assert {item.mtime for item in packed} == {int(EPOCH)}
        packed.extractall(tmp_path / "elsewhere", filter="data")
    [sources] = (tmp_path / "elsewhere").iterdir()
    for file in sources.rglob("*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    before = os.umask(0o077)
    try:
        [second] = WheelBuilder(str(sources)).build(directory=str(tmp_path / "two"), versions=["standard"])
        (sources / "PKG-INFO").unlink()  # it is made again
        [again] = SdistBuilder(str(sources)).build(directory=str(tmp_path / "two"), versions=["standard"])
    finally:
        os.umask(before)
    assert _digest(archive) == _digest(again)
    assert _digest(built) == _digest(second)


def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def test_the_parts_are_the_extras_and_nothing_of_them_is_installed_always() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: _list_imported(project["optional-dependencies"][name]) for name in PACKAGES}
    assert {name: set(packages) for name, packages in PACKAGES.items()} == {
        name: packages - {"dbanon"} for name, packages in extras.items()
    }
    assert not set().union(*extras.values()) & _list_imported(project["dependencies"])


def test_the_two_commands_of_the_readme_and_the_image_for_trying_out_install_all_parts() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (extras["dev"][0], extras["all"]) == ("dbanon[all,testing]", ["dbanon[dask,files]"])
    assert extras["dask"][0] == "dbanon[compute]"
    assert "--editable '.[dev]'" in (ROOT / "dev").read_text()
    assert '"/needs[all]"' in (ROOT / "docker" / "programs.Dockerfile").read_text()


def _list_imported(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[>]", one)[0].replace("-", "_") for one in requirements}


@pytest.mark.parametrize("verb", [*VERBS, dbanon.connect, testing.postgis_container], ids=lambda verb: verb.__name__)
def test_a_public_function_names_its_arguments_and_their_types(verb: object) -> None:
    parameters = inspect.signature(verb).parameters.values()
    assert [p.name for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)] == []
    assert [p.name for p in parameters if p.annotation is p.empty and p.name != "self"] == []
    assert inspect.getdoc(verb)

"""What the extension's files hold: one version, a script from each earlier one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dbanon.postgres.programs import find_installations
from dbanon.schema import _text
from tests.upgrade.extension_files import ROOT, build

pgxs = pytest.mark.skipif(
    shutil.which("make") is None or not find_installations(),
    reason="no make, or no PostgreSQL programs on this machine",
)


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make(folder: Path, *words: str) -> None:
    run("make", "-s", "-C", folder, f"PG_CONFIG={find_installations()[0].bindir / 'pg_config'}", *words)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder of the sources, where nothing made stays behind."""
    shutil.copytree(ROOT / "extension", tmp_path / "extension", ignore=shutil.ignore_patterns("dbanon-*", "*.deb"))
    for name in ("LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path / "extension"


def test_the_version_is_that_of_the_project_in_every_file() -> None:
    version = build().VERSION
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text()
    files = build().files(version, [])
    assert sorted(files) == [f"dbanon--{version}.sql", "dbanon.control"]
    assert f"default_version = '{version}'" in files["dbanon.control"]
    for name in ("Makefile", "README.md", "build.py", "dbanon.control.in", "setup.sql"):
        assert version not in (ROOT / "extension" / name).read_text(), name


def test_each_version_that_was_released_has_a_script_to_this_one() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"(?m)^## (\S+)", changes)
    assert headings[0] == build().VERSION
    assert build().earlier() == headings[1:]
    files = build().files("2.0.0", ["0.1.0", "1.0.0"])
    assert {"dbanon--0.1.0--2.0.0.sql", "dbanon--1.0.0--2.0.0.sql", "dbanon--2.0.0.sql"} < set(files)
    # All do the same; the first line says which statement loads them.
    assert len({text.partition("\n")[2] for name, text in files.items() if name.endswith(".sql")}) == 1


def test_the_extension_is_never_trusted_and_needs_postgis() -> None:
    control = build().files("1.0.0", [])["dbanon.control"]
    words = dict(re.findall(r"(?m)^(\w+) = '?([^'\n]*)'?$", control))
    assert (words["trusted"], words["superuser"], words["requires"]) == ("false", "true", "postgis")
    assert (words["relocatable"], words["schema"]) == ("false", "pg_catalog")


def test_the_installer_runs_with_the_rights_of_its_caller_and_leaves_open_what_is_asked() -> None:
    text = build().files("1.0.0", [])["dbanon--1.0.0.sql"]
    before, marked, after = text.split("$dbanon_text$")
    assert "SECURITY DEFINER" not in before + after
    asked = {f"'{mark}'" for mark in set(re.findall(r"@\w+@", marked))}
    roles = {f"'@{role}@'" for role in ("admin", "operator", "worker", "analyst")}
    assert {word for word in asked if word not in after} == roles  # which it makes of the purposes
    assert "$dbanon_setup$" not in marked
    assert marked.count("-- ---- sql/") == len(list(_text.locate_folder("sql").rglob("*.sql")))


@pgxs
@pytest.mark.stress
def test_make_installs_the_files_and_takes_back_what_it_made(copied: Path, tmp_path: Path) -> None:
    python = f"WITH_DBANON={sys.executable}"
    make(copied, python, f"DESTDIR={tmp_path / 'server'}", "install")
    installed = sorted(file.name for file in (tmp_path / "server").rglob("*.*"))
    assert installed == [f"dbanon--{build().VERSION}.sql", "dbanon.control"]
    make(copied, python, "clean")
    assert list(copied.glob("dbanon[.-][!c]*")) == []

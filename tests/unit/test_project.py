"""The files by which strangers take part: they name what is there, and run what `./dev` has."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTACTS.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DEV = re.findall(r"^  ([a-z]+)\) ", (ROOT / "dev").read_text(), re.MULTILINE)


def read_contacts() -> dict[str, str]:
    """Return the address for each purpose."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (ROOT / "CONTACTS.md").read_text(), re.MULTILINE)
    return dict(rows[2:] if set(rows[1][0]) == {"-"} else rows[1:])


@pytest.mark.xfail(
    strict=True, reason="CONTACTS.md: the maintainer has not filled in every address; then delete this line"
)
def test_every_contact_has_an_address() -> None:
    assert [purpose for purpose, address in read_contacts().items() if "@" not in address] == []


def test_contacts_stand_in_one_place() -> None:
    assert set(read_contacts()) == {"security reports", "code of conduct"}
    for file in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        text = (ROOT / file).read_text()
        assert "](CONTACTS.md)" in text
        assert not re.search(r"\w@\w", text)


@pytest.mark.parametrize("file", FILES)
def test_a_page_for_contributors_fits_on_a_page(file: str) -> None:
    assert len((ROOT / file).read_text().split()) < {"CONTRIBUTING.md": 1200}.get(file, 700)


@pytest.mark.parametrize(
    "file", [*WORKFLOWS, ROOT / "CONTRIBUTING.md", ROOT / ".pre-commit-config.yaml"], ids=lambda file: file.name
)
def test_it_calls_what_dev_has(file: Path) -> None:
    called = re.findall(r"\./dev (\w+)", file.read_text())
    assert called
    assert set(called) <= set(DEV)


@pytest.mark.parametrize("file", ["CONTRIBUTING.md", "docs/developers/release.md"])
def test_it_names_files_that_are_there(file: str) -> None:
    named = re.findall(
        r"(?<![\w/.])((?:dbanon|sql|tests|migrations|docs|docker|extension|\.github|\.ci)/[\w./-]+)",
        (ROOT / file).read_text(),
    )
    assert named
    assert [
        path
        for path in named
        if "REVISION" not in path and not (ROOT / path).exists() and not list(ROOT.glob(f"{path}*"))
    ] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_whole(file: Path) -> None:
    flow = yaml.safe_load(file.read_text())
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert job["steps"][0]["uses"].startswith("actions/checkout@")


def test_the_images_that_a_release_builds_are_targets() -> None:
    made = (ROOT / "docker" / "programs.Dockerfile").read_text()
    for target in re.findall(r"--target (\w+)", (ROOT / ".github" / "workflows" / "release.yml").read_text()):
        assert re.search(rf"^FROM \S+ AS {target}$", made, re.MULTILINE)


def test_commits_are_checked_as_dev_checks() -> None:
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == ["./dev check"]

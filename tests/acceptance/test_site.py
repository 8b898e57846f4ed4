"""`./dev docs`: every page is on the site, with its pictures, and can be searched."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.stress  # 12 s of CPU
def test_every_page_is_on_the_site(tmp_path: Path) -> None:
    builder = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs",
        "-d",
        str(tmp_path / "doctrees"),
    ]
    done = subprocess.run(
        [*builder, ".", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    contents = (tmp_path / "site" / "docs" / "index.html").read_text()
    index = (tmp_path / "site" / "searchindex.js").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT).with_suffix("")
        assert page.name == "index.md" or f'href="{path.relative_to("docs")}.html"' in contents
        assert f'"{path}"' in index
        built = (tmp_path / "site" / path).with_suffix(".html").read_text()
        pictures = re.findall(r"!\[[^]]*\]\((?:[^)]*/)?([\w-]+\.svg)\)", page.read_text())
        assert [picture for picture in pictures if f"_images/{picture}" not in built] == []
        outside = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', built)
        assert outside == []

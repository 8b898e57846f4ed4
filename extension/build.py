"""Makes the files of the extension.

`build.py FOLDER` writes them there and names the scripts; `build.py --dist FOLDER` packs what PGXN takes.
"""

import importlib.metadata
import re
import sys
import zipfile
from pathlib import Path

from dbanon import schema

HERE = Path(__file__).resolve().parent
VERSION = importlib.metadata.version("dbanon")


def earlier() -> list[str]:
    """List the versions that were released before this one, which the extension brings to it."""
    changes = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    return [version for version in re.findall(r"(?m)^## (\S+) - \d", changes) if version != VERSION]


def files(version: str, before: list[str]) -> dict[str, str]:
    """Make the texts by the names of their files."""
    made = {
        name: (HERE / f"{name}.in").read_text(encoding="utf-8").replace("@version@", version)
        for name in ("META.json", "dbanon.control")
    }
    setup = schema.make_installer((HERE / "setup.sql").read_text(encoding="utf-8"))
    scripts = {
        version: "CREATE EXTENSION dbanon",
        **{f"{old}--{version}": "ALTER EXTENSION dbanon UPDATE" for old in before},
    }
    for name, statement in scripts.items():
        made[f"dbanon--{name}.sql"] = f'\\echo Use "{statement}" to load this file. \\quit\n{setup}'
    return made


def pack(folder: Path) -> None:
    """Write the archive for PGXN; the same sources make the same bytes."""
    beside = {
        file.name: file.read_text(encoding="utf-8")
        for file in (HERE / "Makefile", HERE / "README.md", HERE.parent / "LICENSE")
    }
    with zipfile.ZipFile(folder / f"dbanon-{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted({**files(VERSION, earlier()), **beside}.items()):
            archive.writestr(zipfile.ZipInfo(f"dbanon-{VERSION}/{name}"), text, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    target = Path(sys.argv[-1])
    if "--dist" in sys.argv:
        pack(target)
    else:
        for name, text in files(VERSION, earlier()).items():
            (target / name).write_text(text, encoding="utf-8")
            if name.endswith(".sql"):
                print(name)

"""Makes the files of the extension: `build.py FOLDER` writes them there and names the scripts."""

import importlib.metadata
import re
import sys
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
    control = (HERE / "dbanon.control.in").read_text(encoding="utf-8")
    made = {"dbanon.control": control.replace("@version@", version)}
    setup = schema.make_installer((HERE / "setup.sql").read_text(encoding="utf-8"))
    scripts = {
        version: "CREATE EXTENSION dbanon",
        **{f"{old}--{version}": "ALTER EXTENSION dbanon UPDATE" for old in before},
    }
    for name, statement in scripts.items():
        made[f"dbanon--{name}.sql"] = f'\\echo Use "{statement}" to load this file. \\quit\n{setup}'
    return made


if __name__ == "__main__":
    target = Path(sys.argv[-1])
    for name, text in files(VERSION, earlier()).items():
        (target / name).write_text(text, encoding="utf-8")
        if name.endswith(".sql"):
            print(name)

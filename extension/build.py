"""Writes the scripts of the extension: `build.py 0.1.0` that of this version, and from each of EARLIER to it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import standin  # noqa: E402

from dbanon import schema  # noqa: E402

EARLIER: list[str] = []
QUOTE = "$dbanon_text$"


def members(parts: dict[str, str], revision: str) -> str:
    """The functions of the extension; `parts`: head, a part for each revision, body, tail."""
    for text in parts.values():
        assert QUOTE not in text
    cases = "\n    || ".join(
        f"CASE WHEN coalesce(from_revision, '') < '{name.removeprefix('revision ')}' THEN {QUOTE}{text}{QUOTE} ELSE '' END"
        if name.startswith("revision ")
        else f"{QUOTE}{text}{QUOTE}"
        for name, text in parts.items()
    )
    setup = (HERE / "setup.sql").read_text(encoding="utf-8")
    setup = setup.replace("@revision@", revision).replace("@lock@", str(schema._UPGRADE_LOCK))
    return f"""
CREATE OR REPLACE FUNCTION dbanon_setup.marked(from_revision text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
SELECT {cases}
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.marked(text) IS
'The text that makes dbanon, with marks for the names of roles and of the schema of PostGIS.';

{setup}"""


def parts_of(revisions: dict[str, str], body: str) -> tuple[dict[str, str], str]:
    last = max(revisions)
    named = {f"revision {name}": text for name, text in revisions.items()}
    return {"head": standin.head() + standin.start(), **named, "body": body, "tail": standin.tail(last)}, last


def write(version: str, text: str, earlier: list[str], folder: Path) -> None:
    warning = '\\echo Use "{} EXTENSION dbanon{}" to load this file. \\quit\n'
    (folder / f"dbanon--{version}.sql").write_text(
        warning.format("CREATE", "") + "CREATE SCHEMA dbanon_setup;\n"
        "COMMENT ON SCHEMA dbanon_setup IS 'Makes dbanon in this database, and brings it up to date.';\n" + text,
        encoding="utf-8",
    )
    for old in earlier:
        (folder / f"dbanon--{old}--{version}.sql").write_text(
            warning.format("ALTER", f" UPDATE TO '{version}'") + text, encoding="utf-8"
        )


if __name__ == "__main__":
    parts, last = parts_of(standin.revisions(), standin.body())
    write(sys.argv[1], members(parts, last), EARLIER, Path(sys.argv[2]) if len(sys.argv) > 2 else HERE)

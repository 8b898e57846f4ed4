"""Writes the scripts of the extension: `build.py 0.1.0 [FOLDER]` that of this version, and from EARLIER ones to it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import standin  # noqa: E402

EARLIER: list[str] = []  # versions whose extension can be brought to this one
QUOTE = "$dbanon_text$"
# Whatever signatures the functions of an earlier version have: nothing depends on them.
ANEW = """
DO $$
DECLARE
    old text;
BEGIN
    FOR old IN SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'dbanon_setup'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
END
$$;
"""


def members(text: str, revision: str) -> str:
    """Write the functions of the extension, which hold the text that makes dbanon, its marks open."""
    if QUOTE in text:
        raise ValueError(f"the text must not contain {QUOTE}")
    setup = (HERE / "setup.sql").read_text(encoding="utf-8")
    setup = setup.replace("@revision@", revision).replace("@purpose@", standin.literal(standin.ADMIN))
    return f"""
CREATE OR REPLACE FUNCTION dbanon_setup.marked() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
SELECT {QUOTE}{text}{QUOTE}
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.marked() IS
'The text that makes dbanon, with marks for the names of roles, for the schema of PostGIS and for what is asked for.';

{setup}"""


def write(version: str, text: str, earlier: list[str], folder: Path) -> None:
    """Write the script that makes the extension, and those that bring earlier versions to it."""
    warning = '\\echo Use "{} EXTENSION dbanon{}" to load this file. \\quit\n'
    (folder / f"dbanon--{version}.sql").write_text(
        warning.format("CREATE", "") + "CREATE SCHEMA dbanon_setup;\n"
        "COMMENT ON SCHEMA dbanon_setup IS 'Makes dbanon in this database, and brings it up to date.';\n" + text,
        encoding="utf-8",
    )
    for old in earlier:
        (folder / f"dbanon--{old}--{version}.sql").write_text(
            warning.format("ALTER", f" UPDATE TO '{version}'") + ANEW + text, encoding="utf-8"
        )


if __name__ == "__main__":
    revisions = standin.revisions()
    made = members(standin.text(revisions, standin.body()), max(revisions))
    write(sys.argv[1], made, EARLIER, Path(sys.argv[2]) if len(sys.argv) > 2 else HERE)

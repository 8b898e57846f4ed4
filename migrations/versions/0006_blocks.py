"""Functions that gave something else, verdicts with digests of before, and the longest row of a release."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.copy_release(bigint, bigint, integer, tstzrange),
    dbanon_internal.finish_table(text, tstzrange);
-- Verdicts that are there have digests that no run gets any more.
ALTER TABLE dbanon.verification ADD COLUMN outdated boolean NOT NULL DEFAULT true;
ALTER TABLE dbanon.verification ALTER COLUMN outdated SET DEFAULT false;
-- Of a release that was published before it is not known.
ALTER TABLE dbanon.release ADD COLUMN longest_s double precision;
"""

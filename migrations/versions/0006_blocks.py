"""Functions that gave something else, verdicts with digests of before, the longest row of a release, and an index."""

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
-- People at one place at one time have one code. A lookup of one person's code does not read those of all people.
DROP INDEX dbanon.fix_code_code_idx;
CREATE INDEX fix_code_code_idx ON dbanon.fix_code (code, dataset_id, person);
"""

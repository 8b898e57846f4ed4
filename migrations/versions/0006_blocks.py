"""Functions that took or gave something else, verdicts with digests of before, and the longest row of a release."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.run_digest(bigint), dbanon_internal.run_content(bigint),
    dbanon_internal.region_evidence(bigint), dbanon_internal.request_evidence(bigint),
    dbanon_internal.membership_evidence(bigint), dbanon_internal.check_publishable(bigint),
    dbanon_internal.judge(bigint, bigint), dbanon_internal.measure(bigint, bigint),
    dbanon_internal.check_overlap(bigint, bigint, boolean), dbanon_internal.run_says(bigint),
    dbanon_internal.site_evidence(bigint), dbanon_internal.shown_regions(bigint),
    dbanon_internal.copy_release(bigint, bigint, integer, tstzrange), dbanon_internal.finish_table(text, tstzrange);
-- Functions that have another name now. A view calls the last of them, so that one is renamed.
DROP FUNCTION IF EXISTS dbanon_internal.release_run(dbanon.run, boolean), dbanon_internal.run_news(bigint, text),
    dbanon_internal.refused_commit(), dbanon_internal.one_spelling(text),
    dbanon_internal.intrusions(bigint, bigint, bytea);
DO $$
BEGIN
    IF to_regprocedure('dbanon_internal.went_away()') IS NOT NULL THEN
        ALTER FUNCTION dbanon_internal.went_away() RENAME TO worker_lost_message;
    END IF;
END
$$;
-- Verdicts that are there have digests that no run gets any more.
ALTER TABLE dbanon.verification ADD COLUMN outdated boolean NOT NULL DEFAULT true;
ALTER TABLE dbanon.verification ALTER COLUMN outdated SET DEFAULT false;
-- Of a release that was published before it is not known.
ALTER TABLE dbanon.release ADD COLUMN longest_s double precision;
"""

"""What restores and changed promises are noticed by, what releases tell together, and jobs that have parts measured."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS published.refuse_system(integer), dbanon_internal.list_releases_of_other_cells(bigint, bigint),
    dbanon_internal.raise_reading_error(text, text), dbanon_internal.list_run_warnings(bigint, bigint),
    dbanon_internal.set_period(bigint, tstzrange, jsonb),
    dbanon.add_job(
        text, regclass, jsonb, text, jsonb, text, text, jsonb, interval, text, timestamptz, interval, interval,
        double precision, jsonb, interval, interval, text[], interval, integer, text, text, boolean);
-- The upgrade fills these in.
ALTER TABLE dbanon.installation ADD COLUMN mark text, ADD COLUMN methods_digest bytea;
CREATE UNLOGGED TABLE dbanon.unbroken (place text NOT NULL);
ALTER TABLE dbanon.release ADD COLUMN promise jsonb CHECK (jsonb_typeof(promise) = 'object'),
    ADD COLUMN promise_hash bigint;
-- Null where the dataset is gone.
ALTER TABLE dbanon.published_cell ADD COLUMN pois jsonb;
-- Null in rows that are there, of which it is not known: in how many windows people were in a group with a content.
ALTER TABLE dbanon.asked ADD COLUMN windows bigint, ADD COLUMN present bigint, ADD COLUMN met bigint;
-- Runs know the data of their own time again.
ALTER TABLE dbanon.run ADD COLUMN data_digest bytea;
ALTER TABLE dbanon.run DROP CONSTRAINT run_todo_check,
    ADD CONSTRAINT run_todo_check CHECK (todo IN ('compute', 'verify', 'evaluate'));
ALTER TABLE dbanon.job ADD COLUMN evaluate boolean NOT NULL DEFAULT false;
-- What is no SQLSTATE is what somebody wrote by a function that trusted them.
UPDATE dbanon.job_period SET sqlstate = NULL WHERE sqlstate !~ '^[0-9A-Z]{5}$';
ALTER TABLE dbanon.job_period ADD CONSTRAINT job_period_sqlstate_check CHECK (sqlstate ~ '^[0-9A-Z]{5}$'),
    DROP CONSTRAINT job_period_state_check,
    ADD CONSTRAINT job_period_state_check
        CHECK (state IN ('load', 'run', 'compute', 'publish', 'evaluate', 'retain', 'done', 'skipped', 'held'));
"""

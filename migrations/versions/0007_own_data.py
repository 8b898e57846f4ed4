"""Runs know the data of their own time again, and jobs may have their parts measured."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
ALTER TABLE dbanon.run ADD COLUMN data_digest bytea;
ALTER TABLE dbanon.run DROP CONSTRAINT run_todo_check,
    ADD CONSTRAINT run_todo_check CHECK (todo IN ('compute', 'verify', 'evaluate'));
ALTER TABLE dbanon.job ADD COLUMN evaluate boolean NOT NULL DEFAULT false;
ALTER TABLE dbanon.job_period DROP CONSTRAINT job_period_state_check,
    ADD CONSTRAINT job_period_state_check
        CHECK (state IN ('load', 'run', 'compute', 'publish', 'evaluate', 'retain', 'done', 'skipped', 'held'));
DROP FUNCTION IF EXISTS dbanon.add_job(
    text, regclass, jsonb, text, jsonb, text, text, jsonb, interval, text, timestamptz, interval, interval,
    double precision, jsonb, interval, interval, text[], interval, integer, text, text, boolean);
"""

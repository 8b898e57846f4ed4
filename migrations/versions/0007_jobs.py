"""Columns of jobs that hold no words of others, and functions that take more."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
-- What is no SQLSTATE is what somebody wrote by a function that trusted them.
UPDATE dbanon.job_period SET sqlstate = NULL WHERE sqlstate !~ '^[0-9A-Z]{5}$';
ALTER TABLE dbanon.job_period ADD CONSTRAINT job_period_sqlstate_check CHECK (sqlstate ~ '^[0-9A-Z]{5}$');
DROP FUNCTION IF EXISTS dbanon_internal.raise_reading_error(text, text);
"""

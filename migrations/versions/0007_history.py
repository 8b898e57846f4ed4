"""The mark by which a restore is noticed, what each release promises, and what the upgrade wrote into dbanon.method."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
-- None yet: the upgrade writes both at its end.
ALTER TABLE dbanon.installation ADD COLUMN mark text, ADD COLUMN methods_digest bytea;
CREATE UNLOGGED TABLE dbanon.unbroken (place text NOT NULL);
-- Of releases that are there the upgrade fills it in.
ALTER TABLE dbanon.release ADD COLUMN promise jsonb CHECK (jsonb_typeof(promise) = 'object'),
    ADD COLUMN promise_hash bigint;
"""

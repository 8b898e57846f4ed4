"""The mark by which restores are noticed, what releases promise, the digest of dbanon.method. Upgrades fill them in."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
ALTER TABLE dbanon.installation ADD COLUMN mark text, ADD COLUMN methods_digest bytea;
CREATE UNLOGGED TABLE dbanon.unbroken (place text NOT NULL);
ALTER TABLE dbanon.release ADD COLUMN promise jsonb CHECK (jsonb_typeof(promise) = 'object'),
    ADD COLUMN promise_hash bigint;
"""

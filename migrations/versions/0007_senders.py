"""In how many windows of a part each person was in a group with a content."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
-- Null in rows that are there, of which it is not known.
ALTER TABLE dbanon.asked ADD COLUMN windows bigint, ADD COLUMN present bigint, ADD COLUMN met bigint;
"""

"""Columns of jobs that hold no words of others, and functions that take more."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.raise_reading_error(text, text);
"""

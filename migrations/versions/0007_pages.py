"""Functions that are asked for more: the figures that a run's notices are made of, and the least that they tell."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.list_run_warnings(bigint, bigint);
"""

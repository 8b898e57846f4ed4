"""The points of interest of each cell of a release."""

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.list_releases_of_other_cells(bigint, bigint);
-- Releases that are there get theirs by sql/95_after; null where their dataset is gone.
ALTER TABLE dbanon.published_cell ADD COLUMN pois jsonb;
"""

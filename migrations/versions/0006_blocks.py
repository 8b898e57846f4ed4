"""Functions that took or gave something else before."""

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SCRIPT = """
DROP FUNCTION IF EXISTS dbanon_internal.run_digest(bigint), dbanon_internal.run_content(bigint),
    dbanon_internal.region_evidence(bigint), dbanon_internal.request_evidence(bigint),
    dbanon_internal.membership_evidence(bigint);
"""

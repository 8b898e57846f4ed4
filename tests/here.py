"""Conditions in SQL by which a test sees the sessions and locks of its own database, and not those of other tests.

The processes of a test run share a server.
"""

import os

SESSIONS = "datname = current_database()"
LOCKS = f"pid IN (SELECT pid FROM pg_stat_activity WHERE {SESSIONS})"
ROLES = f"t{os.environ.get('PYTEST_XDIST_WORKER', '')}x"  # with which names of roles of this process begin

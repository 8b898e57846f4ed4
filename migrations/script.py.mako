"""${message}."""

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

# Part of the one text that installs dbanon and upgrades it; forward only.
SCRIPT = """
"""

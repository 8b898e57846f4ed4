"""${message}."""

from alembic import context

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

SCRIPT = """
"""


def upgrade() -> None:
    context.config.attributes["script"](SCRIPT)


def downgrade() -> None:
    raise NotImplementedError("Revisions of dbanon go forward only; restore a dump instead.")

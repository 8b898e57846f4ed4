-- By this comment a program knows that an upgrade would change nothing.

COMMENT ON TABLE dbanon.alembic_version IS @stamp@;

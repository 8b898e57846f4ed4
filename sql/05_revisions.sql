-- Tables and types, revision by revision (migrations/versions); those that the database has are skipped.

CREATE TABLE IF NOT EXISTS dbanon.alembic_version (
    version_num varchar(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

@revisions@

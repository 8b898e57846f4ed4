"""The SQL workflow: the queue and its workers, parameters, groupings of releases, the audit, other families' inputs."""

from alembic import context

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCRIPT = """
-- They take other arguments, or return other columns now; sql/ makes them anew.
DROP FUNCTION IF EXISTS dbanon.publish(bigint, text);
DROP FUNCTION IF EXISTS dbanon.unpublish(text);
DROP FUNCTION IF EXISTS dbanon.show_release(bigint, bigint, text);

-- The queue.
ALTER TABLE dbanon.run
    ADD todo text CHECK (todo IN ('compute', 'verify')),
    ADD attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    ADD most_attempts integer NOT NULL DEFAULT 3,
    ADD worker text,
    ADD stage text,
    ADD stage_done bigint,
    ADD stage_total bigint,
    ADD rows bigint CHECK (rows >= 0),
    ADD error_kind text CHECK (error_kind IN ('parameter', 'data', 'infeasible', 'store', 'other')),
    ADD cancel_requested_at timestamptz,
    ADD cancel_requested_by text;
UPDATE dbanon.run SET todo = 'compute' WHERE status IN ('queued', 'running', 'computed');
UPDATE dbanon.run SET worker = 'unknown', attempts = most_attempts WHERE status IN ('running', 'computed');
CREATE INDEX run_todo_idx ON dbanon.run (run_id) WHERE todo IS NOT NULL;

CREATE TABLE dbanon.worker (
    worker_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    lock_key bigint NOT NULL
        DEFAULT ('x' || encode(substr(uuid_send(gen_random_uuid()), 1, 8), 'hex'))::bit(64)::bigint,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by text NOT NULL DEFAULT session_user
);

-- The registry.
ALTER TABLE dbanon.method
    ADD paper text NOT NULL DEFAULT '',
    ADD adversary text NOT NULL DEFAULT '',
    ADD row_meaning text NOT NULL DEFAULT '',
    ADD left_out text NOT NULL DEFAULT '',
    ADD parameters jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(parameters) = 'array');

ALTER TABLE dbanon.verification ADD clauses jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(clauses) = 'array');

-- Who was hidden with whom in a release: known to an adversary for ever, whatever becomes of run and data.
CREATE TABLE dbanon.grouping (
    release_id bigint NOT NULL REFERENCES dbanon.release,
    period tstzrange NOT NULL CHECK (NOT isempty(period)),
    alone boolean NOT NULL,
    subjects text[] NOT NULL CHECK (cardinality(subjects) > 0)
);
CREATE INDEX grouping_release_idx ON dbanon.grouping (release_id);
ALTER TABLE dbanon.release
    ADD overlap jsonb CHECK (jsonb_typeof(overlap) = 'object'),
    ADD overlap_reason text CHECK (overlap_reason <> '');
-- A member whose trajectory was deleted since stands there as somebody unknown.
INSERT INTO dbanon.grouping (release_id, period, alone, subjects)
SELECT l.release_id, s.period, false, array_agg(DISTINCT coalesce(t.subject, gen_random_uuid()::text) COLLATE "C")
FROM dbanon.release l
JOIN dbanon.run r ON r.run_id = l.run_id AND r.method = 'tp-aware'
CROSS JOIN LATERAL (SELECT c.record_id, tstzrange(min(lower(c.period)), max(upper(c.period))) AS period
                    FROM dbanon.cloak c WHERE c.run_id = l.run_id GROUP BY c.record_id) s
JOIN dbanon.membership m ON m.run_id = l.run_id AND m.record_id = s.record_id
LEFT JOIN dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = r.dataset_id
GROUP BY l.release_id, s.record_id, s.period;
INSERT INTO dbanon.grouping (release_id, period, alone, subjects)
SELECT l.release_id, tstzrange(lower(c.period) - h.look_back, upper(c.period)), c.crowd = 1,
    array_agg(DISTINCT coalesce(t.subject, gen_random_uuid()::text) COLLATE "C")
FROM dbanon.release l
JOIN dbanon.run r ON r.run_id = l.run_id AND r.method = 'sensitive-sites'
CROSS JOIN LATERAL (SELECT CASE WHEN r.params ->> 'at' IS NOT NULL
                                THEN coalesce((r.params ->> 'max_gap_s')::integer, 604800) * interval '1 s'
                                ELSE interval '0' END AS look_back) h
JOIN dbanon.cloak c ON c.run_id = l.run_id
JOIN dbanon.membership m ON m.run_id = l.run_id AND m.record_id = c.record_id
LEFT JOIN dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = r.dataset_id
GROUP BY l.release_id, c.period, h.look_back, c.crowd = 1, CASE WHEN c.crowd > 1 THEN c.region::bytea END;

-- Who did what; holds no subject and no coordinate.
CREATE TABLE dbanon.audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    login text NOT NULL DEFAULT session_user,
    action text NOT NULL CHECK (action <> ''),
    dataset text,
    run_id bigint,
    release text,
    detail jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(detail) = 'object')
);

-- No histogram of where people are: PostGIS's functions show it to every login that may call them.
ALTER TABLE dbanon.trajectory ALTER COLUMN path SET STATISTICS 0, ALTER COLUMN shape SET STATISTICS 0;
ALTER TABLE dbanon.cloak ALTER COLUMN region SET STATISTICS 0;
ALTER TABLE dbanon.site ALTER COLUMN geom SET STATISTICS 0;

-- What other families read beside trajectories.
CREATE TABLE dbanon.poi (
    poi_id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    dataset_id bigint NOT NULL,
    category text NOT NULL CHECK (category <> ''),
    geom @postgis@.geometry NOT NULL CHECK (NOT @postgis@.ST_IsEmpty(geom))
);
CREATE INDEX poi_dataset_idx ON dbanon.poi (dataset_id, poi_id);
CREATE INDEX poi_geom_idx ON dbanon.poi USING gist (geom);

CREATE TABLE dbanon.cell (
    cell_id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    dataset_id bigint NOT NULL,
    name text,
    geom @postgis@.geometry NOT NULL CHECK (
        @postgis@.GeometryType(geom) IN ('POLYGON', 'MULTIPOLYGON')
        AND @postgis@.ST_Area(geom) > 0 AND @postgis@.ST_Area(geom) < 'Infinity')
);
CREATE INDEX cell_dataset_idx ON dbanon.cell (dataset_id, cell_id);
CREATE INDEX cell_geom_idx ON dbanon.cell USING gist (geom);

CREATE TABLE dbanon.quasi_identifier (
    quasi_identifier_id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    dataset_id bigint NOT NULL,
    subject text NOT NULL CHECK (subject <> ''),
    at timestamptz NOT NULL CHECK (isfinite(at))
);
CREATE INDEX quasi_identifier_dataset_idx ON dbanon.quasi_identifier (dataset_id, subject, at);
"""


def upgrade() -> None:
    context.config.attributes["script"](SCRIPT)


def downgrade() -> None:
    raise NotImplementedError("Revisions of dbanon go forward only; restore a dump instead.")

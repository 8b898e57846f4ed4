"""How times and names of a source are read, arguments that need no quotes, and guests of groups."""

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SCRIPT = """
-- What the functions for analysts call, which lay among them.
DO $$
DECLARE
    inner_one regprocedure;
BEGIN
    FOR inner_one IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'published'::regnamespace AND proname = ANY ('{
            about_rows, checked_area, covered_share, demand_rows, first_from, fitted_area, fitted_line, fitted_region,
            fitted_span, in_slots, in_system, known_system, phase_of, projected, refuse_projection, spoken_s,
            surroundings}')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET SCHEMA published_inner', inner_one);
    END LOOP;
    FOR inner_one IN  -- which have other arguments or answers now
        SELECT oid FROM pg_proc WHERE pronamespace = 'published'::regnamespace
            AND proname = ANY ('{
            count_inside, count_inside_of, crossings, density, density_of, dwell, dwell_of, fitted_zones, flows,
            flows_of}')
    LOOP
        EXECUTE format('DROP FUNCTION %s', inner_one);
    END LOOP;
END
$$;
DROP FUNCTION IF EXISTS
    dbanon.import_trajectories(
        regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text,
        double precision[], boolean, double precision, boolean, text, integer, text, text, text, timestamptz,
        timestamptz),
    dbanon.import_requests(regclass, text, text[], text, text, text, text, text, timestamptz, timestamptz),
    dbanon.import_quasi_identifiers(
        regclass, text, text, text, text, text, boolean, text, text, timestamptz, timestamptz),
    dbanon.submit_run(text, text, jsonb, text, bigint), dbanon.plan_run(text, text, jsonb, text),
    dbanon.add_job(
        text, regclass, jsonb, text, jsonb, text, text, jsonb, interval, text, timestamptz, interval, interval,
        double precision, jsonb, interval, interval, text[], interval, integer, text, boolean, text, boolean);
DROP PROCEDURE IF EXISTS dbanon.anonymize(
    text, text, jsonb, text, text, bigint, boolean, boolean, text, boolean, text[], boolean, bigint, text, bigint);
ALTER TABLE dbanon.job ADD COLUMN allow_no_requests boolean NOT NULL DEFAULT false;
ALTER TYPE dbanon_internal.loading RENAME ATTRIBUTE "time" TO time_column;
ALTER TYPE dbanon_internal.loading ADD ATTRIBUTE time_format text, ADD ATTRIBUTE time_unit text,
    ADD ATTRIBUTE nulls text[], ADD ATTRIBUTE allow_future boolean;
ALTER TABLE dbanon.load ADD COLUMN newest timestamptz;
-- A row stands for guests as well, who are no part of a crowd.
ALTER TABLE dbanon.region DROP CONSTRAINT region_crowd_check,
    ADD CONSTRAINT region_crowd_check CHECK (subjects >= 1 AND crowd >= 1);
ALTER TABLE dbanon.release ADD COLUMN guest_presence double precision NOT NULL DEFAULT 0;
ALTER TABLE dbanon.grouping ADD COLUMN members integer CHECK (members > 0 AND members < cardinality(people));
ALTER TABLE dbanon.grouping ADD COLUMN contents bigint[];
ALTER TABLE dbanon.grouping ALTER COLUMN contents SET STATISTICS 0;
-- Intensities of square cells, as sums over all cells below and to the left of each corner, row by row. Edges are
-- multiples of cell_m.
CREATE TYPE published_inner.surface AS (
    cell_m double precision, left_column integer, bottom_row integer, columns integer, rows integer,
    speed_mps double precision, sums integer[]);
ALTER TABLE dbanon.verification ADD COLUMN surface published_inner.surface;
ALTER TABLE dbanon.release ADD COLUMN verification_id bigint REFERENCES dbanon.verification ON DELETE RESTRICT,
    ADD COLUMN people bigint CHECK (people >= 0),
    ADD COLUMN interval_factor double precision CHECK (interval_factor IN (0.7, 1, 1.5, 2, 3, 6));
CREATE TABLE dbanon.policy (
    one boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
    methods text[],
    least_k integer CHECK (least_k > 0),
    longest_window_s integer CHECK (longest_window_s > 0),
    largest_error double precision CHECK (largest_error >= 0 AND largest_error < 'Infinity'),
    signers text,
    signatures integer NOT NULL DEFAULT 0 CHECK (signatures >= 0 AND (signatures = 0 OR signers IS NOT NULL))
);
INSERT INTO dbanon.policy DEFAULT VALUES;
CREATE TABLE dbanon.signature (
    run_id bigint NOT NULL REFERENCES dbanon.run ON DELETE CASCADE,
    digest bytea NOT NULL,
    login text NOT NULL DEFAULT session_user,
    signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, digest, login)
);
ALTER TABLE dbanon.release ADD COLUMN policy jsonb;
DROP INDEX dbanon.quarantine_load_idx;
CREATE INDEX quarantine_load_idx ON dbanon.quarantine (load_id, at);
UPDATE dbanon.job SET load = load - 'time' || jsonb_build_object('time_column', load -> 'time') WHERE load ? 'time';
UPDATE dbanon.job SET further = (
    SELECT jsonb_agg(
        CASE WHEN one ? 'time' THEN one - 'time' || jsonb_build_object('time_column', one -> 'time') ELSE one END
        ORDER BY nth)
    FROM jsonb_array_elements(further) WITH ORDINALITY ele (one, nth)) WHERE jsonb_path_exists(further, '$[*].time');
"""

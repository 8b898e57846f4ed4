-- What an attack is given: the stored rows of a run, in bulk, as plain numbers. The functions but the last are single
-- SELECTs without settings of their own, so that the planner inlines them; their names are bound when they are made.

CREATE OR REPLACE FUNCTION dbanon_internal.gather_region_evidence(run_id bigint) RETURNS TABLE (
    region_no integer, xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    rectangle boolean, srid integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT
        reg.region_no,
        -- Box3D is what ST_XMin takes: a call that needs no cast cannot be caught by another login's ST_XMin(geometry).
        @postgis@.ST_XMin(@postgis@.Box3D(reg.region)), @postgis@.ST_YMin(@postgis@.Box3D(reg.region)),
        @postgis@.ST_XMax(@postgis@.Box3D(reg.region)), @postgis@.ST_YMax(@postgis@.Box3D(reg.region)),
        -- In the order of corners that dbanon writes, counter-clockwise: another order would mark a row among its like.
        @postgis@.GeometryType(reg.region) = 'POLYGON' AND @postgis@.ST_CoordDim(reg.region) = 2
            AND @postgis@.ST_OrderingEquals(reg.region, @postgis@.ST_Reverse(@postgis@.ST_Envelope(reg.region))),
        @postgis@.ST_SRID(reg.region)
    FROM ONLY dbanon.region reg
    WHERE reg.run_id = gather_region_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.gather_region_evidence IS 'The shapes of a run''s regions as numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_period_evidence(run_id bigint) RETURNS TABLE (
    period_no integer, lower_s double precision, upper_s double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT p.period_no, pg_catalog.date_part('epoch', pg_catalog.lower(p.period)), pg_catalog.date_part('epoch', pg_catalog.upper(p.period))
    FROM ONLY dbanon.period p
    WHERE p.run_id = gather_period_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.gather_period_evidence IS 'The distinct periods of a run.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_record_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, length integer, periods bytea, regions bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- What is sent of an array is a header of 20 bytes, then the length of each element and the element, 4 bytes each.
    SELECT d.record_id, pg_catalog.cardinality(d.regions), pg_catalog.substr(pg_catalog.array_send(d.periods), 21),
        pg_catalog.substr(pg_catalog.array_send(d.regions), 21)
    FROM ONLY dbanon.record d
    WHERE d.run_id = gather_record_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.gather_record_evidence IS 'The rows of a run''s records, in bulk.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_hiding_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, lower_s double precision, upper_s double precision, length integer, others bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT h.record_id,
        CASE WHEN h.period IS NOT NULL THEN coalesce(pg_catalog.date_part('epoch', pg_catalog.lower(h.period)), '-Infinity') ELSE 'NaN' END,
        CASE WHEN h.period IS NOT NULL THEN coalesce(pg_catalog.date_part('epoch', pg_catalog.upper(h.period)), 'Infinity') ELSE 'NaN' END,
        pg_catalog.cardinality(h.others), pg_catalog.substr(pg_catalog.array_send(h.others), 21)
    FROM ONLY dbanon.hiding h
    WHERE h.run_id = gather_hiding_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.gather_hiding_evidence IS 'The records that each record of a run is hidden among, where sets overlap.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_cloaked_evidence(run_id bigint) RETURNS TABLE (region_no integer, cloaked smallint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT g.region_no, (CASE g.extra -> 'cloaked' WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE -1 END)::smallint
    FROM ONLY dbanon.region g
    WHERE g.run_id = gather_cloaked_evidence.run_id AND g.extra ? 'cloaked';
END;
COMMENT ON FUNCTION dbanon_internal.gather_cloaked_evidence IS 'Which regions of a run say that they are no exact places.';

-- What an attack is given: the stored rows of a run, in bulk, as plain numbers. The functions but the last are single
-- SELECTs without settings of their own, so that the planner inlines them; their names are bound when they are made.

CREATE OR REPLACE FUNCTION dbanon_internal.cloak_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, seq integer, lower_s double precision, upper_s double precision,
    xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    rectangle boolean, srid integer, crowd integer, subjects integer, other_keys integer, cloaked smallint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT
        c.record_id, c.seq,
        pg_catalog.date_part('epoch', pg_catalog.lower(c.period)),
        pg_catalog.date_part('epoch', pg_catalog.upper(c.period)),
        -- Box3D is what ST_XMin takes: a call that needs no cast cannot be caught by somebody's own ST_XMin(geometry).
        @postgis@.ST_XMin(@postgis@.Box3D(c.region)), @postgis@.ST_YMin(@postgis@.Box3D(c.region)),
        @postgis@.ST_XMax(@postgis@.Box3D(c.region)), @postgis@.ST_YMax(@postgis@.Box3D(c.region)),
        -- In the order of corners that dbanon writes, counter-clockwise: another order would mark a row among its like.
        @postgis@.GeometryType(c.region) = 'POLYGON' AND @postgis@.ST_CoordDim(c.region) = 2
            AND @postgis@.ST_OrderingEquals(c.region, @postgis@.ST_Reverse(@postgis@.ST_Envelope(c.region))),
        @postgis@.ST_SRID(c.region), c.crowd, c.subjects,
        CASE WHEN c.extra IS NULL THEN 0
             ELSE (SELECT pg_catalog.count(*)::integer FROM pg_catalog.jsonb_object_keys(c.extra - own.names)) END,
        (CASE c.extra -> 'cloaked' WHEN 'true' THEN 1 WHEN 'false' THEN 0
             ELSE CASE WHEN c.extra ? 'cloaked' THEN -1 ELSE 0 END END)::smallint
    FROM (
        SELECT r.run_id, ARRAY(SELECT k ->> 'name' FROM pg_catalog.jsonb_array_elements(m.columns) k) AS names
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.method m ON m.name = r.method
        WHERE r.run_id = cloak_evidence.run_id
    ) own
    JOIN ONLY dbanon.cloak c ON c.run_id = own.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.cloak_evidence(bigint) IS
'The cloaks of a run as numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.membership_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, trajectory_id bigint, whole boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT m.record_id, m.trajectory_id, m.period IS NULL
    FROM ONLY dbanon.membership m
    WHERE m.run_id = membership_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.membership_evidence(bigint) IS
'Whose data each record of a run carries.';

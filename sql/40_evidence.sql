-- What an attack is given: the stored rows of a run, in bulk, as plain numbers. The functions are single SELECTs without
-- settings of their own, so that the planner inlines them.

CREATE OR REPLACE FUNCTION dbanon.cloak_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, seq integer, lower_s double precision, upper_s double precision,
    xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    rectangle boolean, srid integer, crowd integer, subjects integer, other_keys integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT
        c.record_id, c.seq,
        pg_catalog.date_part('epoch', pg_catalog.lower(c.period)),
        pg_catalog.date_part('epoch', pg_catalog.upper(c.period)),
        -- Box3D is what ST_XMin takes: a call that needs no cast cannot be caught by somebody's own ST_XMin(geometry).
        @postgis@.ST_XMin(@postgis@.Box3D(c.region)), @postgis@.ST_YMin(@postgis@.Box3D(c.region)),
        @postgis@.ST_XMax(@postgis@.Box3D(c.region)), @postgis@.ST_YMax(@postgis@.Box3D(c.region)),
        -- The order of corners that dbanon writes (counter-clockwise) first; any other order is normalised.
        @postgis@.GeometryType(c.region) = 'POLYGON' AND @postgis@.ST_CoordDim(c.region) = 2
            AND (@postgis@.ST_OrderingEquals(c.region, @postgis@.ST_Reverse(@postgis@.ST_Envelope(c.region)))
                 OR (@postgis@.ST_NPoints(c.region) = 5 AND @postgis@.ST_OrderingEquals(
                         @postgis@.ST_Normalize(c.region), @postgis@.ST_Normalize(@postgis@.ST_Envelope(c.region))))),
        @postgis@.ST_SRID(c.region), c.crowd, c.subjects,
        CASE WHEN c.extra IS NULL THEN 0
             ELSE (SELECT pg_catalog.count(*)::integer FROM pg_catalog.jsonb_object_keys(c.extra - own.names)) END
    FROM (
        SELECT r.run_id, ARRAY(SELECT k ->> 'name' FROM pg_catalog.jsonb_array_elements(m.columns) k) AS names
        FROM dbanon.run r
        JOIN dbanon.method m ON m.name = r.method
        WHERE r.run_id = cloak_evidence.run_id
    ) own
    JOIN dbanon.cloak c ON c.run_id = own.run_id
$$;
COMMENT ON FUNCTION dbanon.cloak_evidence(bigint) IS
'The cloaks of a run as numbers. Takes: run_id. Returns: for each cloak its record_id, seq, period in unix seconds (lower_s,
upper_s), bounds in metres, rectangle (the region is exactly its own envelope), srid, crowd, subjects, and other_keys: how
many keys of extra are no columns of the method; in no order. Raises: nothing. Example:
SELECT count(*) FROM dbanon.cloak_evidence(1) WHERE NOT rectangle.';

CREATE OR REPLACE FUNCTION dbanon.membership_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, trajectory_id bigint, whole boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT m.record_id, m.trajectory_id, m.period IS NULL
    FROM dbanon.membership m
    WHERE m.run_id = membership_evidence.run_id
$$;
COMMENT ON FUNCTION dbanon.membership_evidence(bigint) IS
'Whose data each record of a run carries. Takes: run_id. Returns: record_id, trajectory_id, and whole: true where the
trajectory belongs to the record for all its time; in no order, duplicates included. Raises: nothing. Example:
SELECT record_id, count(*) FROM dbanon.membership_evidence(1) GROUP BY record_id.';

CREATE OR REPLACE FUNCTION dbanon.request_evidence(run_id bigint) RETURNS TABLE (
    published boolean, record_id bigint, seq integer, subject text, t double precision, content text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT true, o.record_id, o.seq, NULL::text, NULL::double precision, o.content
    FROM (SELECT c.record_id, c.seq, e.value::text AS content
    FROM dbanon.cloak c
    -- A value that is no array becomes an array inside an array: no request looks like that, so the attack refuses it.
    CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(
        CASE pg_catalog.jsonb_typeof(c.extra -> 'requests')
            WHEN 'array' THEN c.extra -> 'requests'
            ELSE pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array(c.extra -> 'requests'))
        END) WITH ORDINALITY e
    WHERE c.run_id = request_evidence.run_id AND c.extra ? 'requests'
    ORDER BY c.record_id, c.seq, e.ordinality) o  -- the attack looks at the order within a row
    UNION ALL
    SELECT false, NULL, NULL, q.subject, pg_catalog.date_part('epoch', q.sent_at), q.content::text
    FROM dbanon.run r
    JOIN dbanon.request q ON q.dataset_id = r.dataset_id
    WHERE r.run_id = request_evidence.run_id
$$;
COMMENT ON FUNCTION dbanon.request_evidence(bigint) IS
'The requests a run would publish beside those its dataset holds. Takes: run_id. Returns: published true: one row for each
element of extra -> requests, with record_id, seq and content; published false: one row for each request of the dataset,
with subject, t in unix seconds and content (a JSON text in the database''s own form); duplicates included. Raises: nothing.
Example: SELECT published, count(*) FROM dbanon.request_evidence(1) GROUP BY published.';

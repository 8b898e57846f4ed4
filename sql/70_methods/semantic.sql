-- What PostGIS gathers for semantic alone: what its published polygons are, and what lies in them.

CREATE OR REPLACE FUNCTION dbanon_internal.polygon_evidence(run_id bigint) RETURNS TABLE (
    region_no integer, several boolean, valid boolean, area_m2 double precision, parts integer, holes integer,
    least_m2 double precision, categories integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    SELECT g.region_no, p.kind = 'MULTIPOLYGON', p.kind <> '' AND @postgis@.ST_IsValid(g.region), @postgis@.ST_Area(g.region),
        @postgis@.ST_NumGeometries(g.region),
        CASE WHEN p.kind = '' THEN 0 ELSE @postgis@.ST_NRings(g.region) - @postgis@.ST_NumGeometries(g.region) END,
        CASE WHEN p.kind = '' THEN 0
             WHEN @postgis@.ST_NRings(g.region) = 1 THEN @postgis@.ST_Area(g.region)
             ELSE (SELECT least(min(@postgis@.ST_Area(d.geom)), min(@postgis@.ST_Area(r.geom)))
                   FROM @postgis@.ST_Dump(g.region) d CROSS JOIN LATERAL @postgis@.ST_DumpRings(d.geom) r) END,
        -- What is no small whole number is none.
        CASE WHEN g.extra IS NULL OR NOT g.extra ? 'categories' THEN 0
             WHEN jsonb_typeof(g.extra -> 'categories') = 'number' AND g.extra ->> 'categories' ~ '^[0-9]{1,9}$'
             THEN (g.extra ->> 'categories')::integer
             ELSE -1 END
    FROM ONLY dbanon.region g
    CROSS JOIN LATERAL (SELECT CASE WHEN @postgis@.ST_CoordDim(g.region) = 2 AND @postgis@.GeometryType(g.region) IN ('POLYGON', 'MULTIPOLYGON')
                                    THEN @postgis@.GeometryType(g.region) ELSE '' END AS kind) p
    WHERE g.run_id = polygon_evidence.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.polygon_evidence(bigint) IS
'What the regions of a run are: whether a MultiPolygon, valid, area, parts and holes, the least area of one of these, and the categories
that a row says it has (-1: no number).';

CREATE OR REPLACE FUNCTION dbanon_internal.cell_evidence(run_id bigint) RETURNS TABLE (cell_id bigint, outline bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.cell_id, @postgis@.ST_AsBinary(@postgis@.ST_ForcePolygonCCW(c.geom), 'NDR')
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.cell c ON c.dataset_id = r.dataset_id
    WHERE r.run_id = cell_evidence.run_id
    ORDER BY c.cell_id
$$;
COMMENT ON FUNCTION dbanon_internal.cell_evidence(bigint) IS
'The cells of a run''s dataset, their outlines counter-clockwise, holes clockwise.';

CREATE OR REPLACE FUNCTION dbanon_internal.outline_evidence(run_id bigint) RETURNS TABLE (region_no integer, outline bytea, cells bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- What is sent of an array is a header of 20 bytes, then the length of each element, 4 bytes, and the element, 8 bytes.
    SELECT g.region_no, @postgis@.ST_AsBinary(@postgis@.ST_ForcePolygonCCW(g.region), 'NDR'), substr(array_send(g.cells), 21)
    FROM ONLY dbanon.region g
    WHERE g.run_id = outline_evidence.run_id AND g.cells IS NOT NULL
        AND @postgis@.ST_CoordDim(g.region) = 2 AND @postgis@.GeometryType(g.region) IN ('POLYGON', 'MULTIPOLYGON')
$$;
COMMENT ON FUNCTION dbanon_internal.outline_evidence(bigint) IS
'The regions of a run that are polygons said to be made of cells: their outlines, directed as those of the cells, and these cells, in bulk.';

CREATE OR REPLACE FUNCTION dbanon_internal.held_evidence(run_id bigint, asked integer[]) RETURNS TABLE (
    region_no integer, cell_id bigint, held boolean, split boolean, complete boolean, category integer, pois integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- The rows were just written and no statistics know of them. What is LATERAL asks an index in a loop whatever is switched off here;
-- all else is hashed, and in the order it is written in, so that what is asked of one polygon comes in a row: PostGIS prepares it once.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_sort = off
SET enable_hashjoin = on
SET enable_indexscan = on
SET join_collapse_limit = 1
SET from_collapse_limit = 1
SET jit = off
SET work_mem = '256MB'
AS $$
    WITH run AS MATERIALIZED (
        SELECT r.run_id, r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = held_evidence.run_id
    ), located AS MATERIALIZED (
        -- The points of interest that lie in a cell, each with the least one that covers it.
        SELECT l.cell_id, p.category, a.geom
        FROM run
        JOIN ONLY dbanon.poi p ON p.dataset_id = run.dataset_id
        CROSS JOIN LATERAL (SELECT @postgis@.ST_PointOnSurface(p.geom) AS geom OFFSET 0) a
        CROSS JOIN LATERAL (SELECT min(c.cell_id) AS cell_id FROM ONLY dbanon.cell c
            WHERE c.geom OPERATOR(@postgis@.&&) a.geom AND c.dataset_id + 0 = p.dataset_id AND @postgis@.ST_Covers(c.geom, a.geom)) l
        WHERE l.cell_id IS NOT NULL
    ), category AS MATERIALIZED (
        SELECT d.category, row_number() OVER (ORDER BY d.category COLLATE "C")::integer AS no
        FROM (SELECT DISTINCT l.category FROM located l) d
    ), cell AS MATERIALIZED (
        -- A point inside, and some near the corners, a centimetre inside: a union of whole cells has all or none of a cell's.
        SELECT c.cell_id, c.geom AS shape, s.place, @postgis@.ST_Collect(ARRAY[s.place] || ARRAY(
            SELECT d.geom
            FROM (SELECT @postgis@.ST_Buffer(c.geom, -0.01, 'join=mitre') AS geom OFFSET 0) b
            CROSS JOIN LATERAL (SELECT v.geom, row_number() OVER () AS no, count(*) OVER () AS number
                                FROM @postgis@.ST_DumpPoints(b.geom) v) d
            WHERE d.no % greatest(d.number / 3, 1) = 0)) AS witnesses
        FROM run
        JOIN ONLY dbanon.cell c ON c.dataset_id = run.dataset_id
        CROSS JOIN LATERAL (SELECT @postgis@.ST_PointOnSurface(c.geom) AS place OFFSET 0) s
    ), batch AS MATERIALIZED (
        SELECT c.cell_id, c.shape, c.place, c.witnesses, @postgis@.ST_CollectionExtract(@postgis@.ST_Collect(c.witnesses, n.pois), 1) AS points
        FROM cell c
        LEFT JOIN (SELECT l.cell_id, @postgis@.ST_Collect(l.geom) AS pois FROM located l GROUP BY l.cell_id) n ON n.cell_id = c.cell_id
    ), polygon AS MATERIALIZED (
        SELECT g.region_no
        FROM ONLY dbanon.region g
        WHERE g.run_id = held_evidence.run_id AND g.region_no = ANY (asked)
            AND @postgis@.GeometryType(g.region) IN ('POLYGON', 'MULTIPOLYGON')
    ), met AS MATERIALIZED (
        -- Whether a region has a cell and all of these points of it, or only some.
        SELECT f.region_no, f.cell_id, @postgis@.ST_Covers(f.region, f.points) AND @postgis@.ST_Covers(f.region, f.shape) AS complete
        FROM (
            SELECT g.region_no, b.cell_id, g.region, b.points, b.shape
            FROM polygon o
            CROSS JOIN LATERAL (SELECT r.region_no, @postgis@.ST_Force2D(r.region) AS region FROM ONLY dbanon.region r
                WHERE r.run_id = held_evidence.run_id AND r.region_no = o.region_no OFFSET 0) g
            CROSS JOIN LATERAL (SELECT c.cell_id FROM ONLY dbanon.cell c WHERE c.geom OPERATOR(@postgis@.&&) g.region OFFSET 0) c
            JOIN batch b ON b.cell_id = c.cell_id
            WHERE b.points OPERATOR(@postgis@.&&) g.region
            OFFSET 0
        ) f
        WHERE @postgis@.ST_Intersects(f.region, f.points)
    ), doubtful AS MATERIALIZED (
        SELECT m.region_no, m.cell_id, g.region, @postgis@.ST_Covers(g.region, b.place) AS held,
            -- A cell whose witnesses are all there may lack the rest; outlines that differ by a millimetre split nothing.
            CASE WHEN @postgis@.ST_Covers(g.region, b.witnesses)
                 THEN @postgis@.ST_Area(@postgis@.ST_Difference(b.shape, g.region)) > 0.001 * (1 + @postgis@.ST_Perimeter(b.shape))
                 ELSE @postgis@.ST_Intersects(g.region, b.witnesses) END AS split
        FROM met m
        JOIN batch b ON b.cell_id = m.cell_id
        CROSS JOIN LATERAL (SELECT r.region FROM ONLY dbanon.region r
            WHERE r.run_id = held_evidence.run_id AND r.region_no = m.region_no OFFSET 0) g
        WHERE NOT m.complete
    )
    SELECT m.region_no, m.cell_id, true, false, true, 0, 0 FROM met m WHERE m.complete
    UNION ALL
    SELECT d.region_no, d.cell_id, d.held, d.split, false, 0, 0 FROM doubtful d
    UNION ALL
    -- On the outline, which is that of the cells to the millimetre, a point counts where its cell does.
    SELECT d.region_no, d.cell_id, d.held, d.split, false, k.no, count(*)::integer
    FROM doubtful d
    JOIN located l ON l.cell_id = d.cell_id
    JOIN category k ON k.category = l.category
    WHERE CASE WHEN d.held THEN @postgis@.ST_DWithin(d.region, l.geom, 0.001)
               ELSE @postgis@.ST_Contains(d.region, l.geom)
                    AND NOT @postgis@.ST_DWithin(@postgis@.ST_Boundary(d.region), l.geom, 0.001) END
    GROUP BY d.region_no, d.cell_id, d.held, d.split, k.no
$$;
COMMENT ON FUNCTION dbanon_internal.held_evidence(bigint, integer[]) IS
'Which cells these published polygons of a run hold, by a point inside each, whether they split one, and whether all points of interest of
the cell lie in them (complete); where not, rows with a category, from 1 in the order of their bytes, count those that do.';

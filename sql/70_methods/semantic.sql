-- What PostGIS gathers for semantic alone: what its published polygons are, and what lies in them.

CREATE OR REPLACE FUNCTION dbanon_internal.gather_polygon_evidence(run_id bigint) RETURNS TABLE (
    region_no integer, several boolean, valid boolean, area_m2 double precision, parts integer, holes integer,
    least_m2 double precision, categories integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT reg.region_no, kind.kind = 'MULTIPOLYGON', kind.kind <> '' AND @postgis@.ST_IsValid(reg.region), @postgis@.ST_Area(reg.region),
        @postgis@.ST_NumGeometries(reg.region),
        CASE WHEN kind.kind = '' THEN 0 ELSE @postgis@.ST_NRings(reg.region) - @postgis@.ST_NumGeometries(reg.region) END,
        CASE WHEN kind.kind = '' THEN 0
             WHEN @postgis@.ST_NRings(reg.region) = 1 THEN @postgis@.ST_Area(reg.region)
             ELSE (SELECT least(min(@postgis@.ST_Area(poly.geom)), min(@postgis@.ST_Area(ring.geom)))
                   FROM @postgis@.ST_Dump(reg.region) poly CROSS JOIN LATERAL @postgis@.ST_DumpRings(poly.geom) ring) END,
        -- What is no small whole number is none.
        CASE WHEN reg.extra IS NULL OR NOT reg.extra ? 'categories' THEN 0
             WHEN jsonb_typeof(reg.extra -> 'categories') = 'number' AND reg.extra ->> 'categories' ~ '^[0-9]{1,9}$'
             THEN (reg.extra ->> 'categories')::integer
             ELSE -1 END
    FROM ONLY dbanon.region reg
    CROSS JOIN LATERAL (SELECT CASE WHEN @postgis@.ST_CoordDim(reg.region) = 2 AND @postgis@.GeometryType(reg.region) IN ('POLYGON', 'MULTIPOLYGON')
                                    THEN @postgis@.GeometryType(reg.region) ELSE '' END AS kind) kind
    WHERE reg.run_id = gather_polygon_evidence.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.gather_polygon_evidence IS
'What the regions of a run are: whether a MultiPolygon, valid, area, parts and holes, the least area of one of these, and the categories
that a row says it has (-1: no number).';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_cell_evidence(run_id bigint) RETURNS TABLE (cell_id bigint, outline bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.cell_id, @postgis@.ST_AsBinary(@postgis@.ST_ForcePolygonCCW(c.geom), 'NDR')
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.cell c ON c.dataset_id = r.dataset_id
    WHERE r.run_id = gather_cell_evidence.run_id
    ORDER BY c.cell_id
$$;
COMMENT ON FUNCTION dbanon_internal.gather_cell_evidence IS 'The cells of a run''s dataset, their outlines counter-clockwise, holes clockwise.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_outline_evidence(run_id bigint) RETURNS TABLE (region_no integer, outline bytea, cells bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- What is sent of an array is a header of 20 bytes, then the length of each element, 4 bytes, and the element, 8 bytes.
    SELECT g.region_no, @postgis@.ST_AsBinary(@postgis@.ST_ForcePolygonCCW(g.region), 'NDR'), substr(array_send(g.cells), 21)
    FROM ONLY dbanon.region g
    WHERE g.run_id = gather_outline_evidence.run_id AND g.cells IS NOT NULL
        AND @postgis@.ST_CoordDim(g.region) = 2 AND @postgis@.GeometryType(g.region) IN ('POLYGON', 'MULTIPOLYGON')
$$;
COMMENT ON FUNCTION dbanon_internal.gather_outline_evidence IS
'The regions of a run that are polygons said to be made of cells: their outlines, directed as those of the cells, and these cells, in bulk.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_held_evidence(run_id bigint, asked integer[]) RETURNS TABLE (
    region_no integer, cell_id bigint, split boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- Each region asks the index on the cells' geometry, whatever the planner takes the tables for.
SET enable_seqscan = off SET jit = off AS $$
    SELECT reg.region_no, ele.cell_id, cut.split
    FROM ONLY dbanon.run run
    CROSS JOIN LATERAL (SELECT reg.region_no, reg.region FROM ONLY dbanon.region reg
        WHERE reg.run_id = run.run_id AND reg.region_no = ANY (asked)
            AND @postgis@.ST_CoordDim(reg.region) = 2 AND @postgis@.GeometryType(reg.region) IN ('POLYGON', 'MULTIPOLYGON') OFFSET 0) reg
    -- A region comes with all of its cells in a row: PostGIS prepares its polygon once.
    CROSS JOIN LATERAL (
        SELECT array_agg(cel.cell_id) AS cells, @postgis@.ST_Union(cel.geom) AS united
        FROM ONLY dbanon.cell cel
        WHERE cel.geom OPERATOR(@postgis@.&&) reg.region AND cel.dataset_id + 0 = run.dataset_id
            AND @postgis@.ST_Covers(reg.region, @postgis@.ST_PointOnSurface(cel.geom))) cov
    -- A region may run straight across the mouth of a crack between cells of up to two millimetres.
    CROSS JOIN LATERAL (SELECT @postgis@.ST_Buffer(@postgis@.ST_Boundary(cov.united), 0.0012) AS outline OFFSET 0) lin
    -- Away from the cells' outline the region has no outline either, so there it has all of what that encloses, or nothing:
    -- of a part of a cell or a gap between cells, to the square metre that unions leave out, the areas say which.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN NOT @postgis@.ST_IsValid(reg.region) OR NOT @postgis@.ST_Covers(lin.outline, @postgis@.ST_Boundary(reg.region)) THEN true
                    ELSE @postgis@.ST_Area(@postgis@.ST_Difference(@postgis@.ST_SymDifference(reg.region, cov.united), lin.outline)) >= 1
               END AS split OFFSET 0) cut
    CROSS JOIN LATERAL unnest(cov.cells) ele (cell_id)
    WHERE run.run_id = gather_held_evidence.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.gather_held_evidence IS
'Which cells these published polygons of a run hold, by a point inside each, and whether they are split: are not the union of these cells,
to the millimetre along its outline.';

CREATE OR REPLACE FUNCTION dbanon_internal.gather_atom_evidence(run_id bigint) RETURNS TABLE (cell_id bigint, atom integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.cell_id, a.atom FROM ONLY dbanon.atom a WHERE a.run_id = gather_atom_evidence.run_id ORDER BY a.cell_id
$$;
COMMENT ON FUNCTION dbanon_internal.gather_atom_evidence IS 'The atom that a run says each cell is in.';

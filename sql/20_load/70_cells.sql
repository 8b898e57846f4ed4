-- What methods that work on cells read of them, gathered by PostGIS. A point on an edge that cells share belongs to the one with the least
-- cell_id; a point outside all of them to none.

CREATE OR REPLACE FUNCTION dbanon_internal.cell_pois(dataset_id bigint) RETURNS TABLE (
    cell_id bigint, area_m2 double precision, category text, pois bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- Each point asks the index on the cells' geometry, whatever the planner takes the tables for; `+ 0` keeps the index on dataset_id out of it.
SET enable_seqscan = off
SET jit = off
AS $$
    WITH counted AS MATERIALIZED (
        SELECT l.cell_id, p.category, count(*) AS pois
        FROM ONLY dbanon.poi p
        CROSS JOIN LATERAL (SELECT @postgis@.ST_PointOnSurface(p.geom) AS geom OFFSET 0) a
        CROSS JOIN LATERAL (SELECT min(c.cell_id) AS cell_id FROM ONLY dbanon.cell c
            WHERE c.geom OPERATOR(@postgis@.&&) a.geom AND c.dataset_id + 0 = p.dataset_id AND @postgis@.ST_Covers(c.geom, a.geom)) l
        WHERE p.dataset_id = cell_pois.dataset_id
        GROUP BY l.cell_id, p.category
    )
    SELECT c.cell_id, @postgis@.ST_Area(c.geom), n.category, coalesce(n.pois, 0)
    FROM ONLY dbanon.cell c LEFT JOIN counted n ON n.cell_id = c.cell_id
    WHERE c.dataset_id = cell_pois.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.cell_pois(bigint) IS
'Gives each cell of a dataset its area and, in a row each, the categories of the points of interest in it with their number; one row
without a category where it holds none.';

CREATE OR REPLACE FUNCTION dbanon_internal.cell_neighbours(dataset_id bigint) RETURNS TABLE (cell_id bigint, neighbour_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
    -- To the millimetre: cells that were clipped or reprojected one by one meet only nearly.
    SELECT a.cell_id, b.cell_id
    FROM (SELECT c.cell_id, c.geom, @postgis@.ST_Expand(c.geom, 0.001) AS near FROM ONLY dbanon.cell c
          WHERE c.dataset_id = cell_neighbours.dataset_id OFFSET 0) a
    JOIN ONLY dbanon.cell b ON b.geom OPERATOR(@postgis@.&&) a.near AND b.dataset_id + 0 = cell_neighbours.dataset_id AND b.cell_id > a.cell_id
    WHERE @postgis@.ST_Length(@postgis@.ST_Intersection(@postgis@.ST_Boundary(a.geom), @postgis@.ST_Boundary(b.geom), 0.001)) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.cell_neighbours(bigint) IS
'Gives the pairs of cells of a dataset that share an edge, not only a corner; the lesser cell_id first.';

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

CREATE OR REPLACE FUNCTION dbanon_internal.cell_shape(geom @postgis@.geometry) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sha256(@postgis@.ST_AsEWKB(geom, 'NDR'))
$$;
COMMENT ON FUNCTION dbanon_internal.cell_shape(@postgis@.geometry) IS
'By what a cell is known again when it is loaded anew or into another dataset: a hash of its polygon, byte by byte, and SRID.';

CREATE OR REPLACE FUNCTION dbanon_internal.stored_atoms(dataset_id bigint, l double precision, t double precision) RETURNS TABLE (cell_id bigint, atom integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET enable_nestloop = off
SET jit = off
AS $$
    WITH told AS MATERIALIZED (
        -- Of all releases, withdrawn ones too: what was published stays known.
        SELECT c.cell_id, p.release_id, p.atom
        FROM ONLY dbanon.cell c
        JOIN ONLY dbanon.published_cell p ON p.shape = dbanon_internal.cell_shape(c.geom) AND p.atom IS NOT NULL
        WHERE c.dataset_id = stored_atoms.dataset_id
    ), ranked AS MATERIALIZED (
        -- Releases that everybody knows first, since all others are compared with them; then those whose atoms promise enough, as atoms that
        -- are merged for more are seldom those of another release; then those that know most of these cells; then the newest.
        SELECT l.release_id, row_number() OVER (ORDER BY l.readers IS NULL DESC,
            coalesce(r.params ->> 'atom_l', r.params ->> 'l', '0')::double precision >= stored_atoms.l
                AND coalesce(r.params ->> 'atom_t', r.params ->> 't', 'Infinity')::double precision <= stored_atoms.t DESC,
            n.cells DESC, l.release_id DESC) AS place
        FROM (SELECT t.release_id, count(*) AS cells FROM told t GROUP BY t.release_id) n
        JOIN ONLY dbanon.release l ON l.release_id = n.release_id
        JOIN ONLY dbanon.run r ON r.run_id = l.run_id
        JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE d.population_id = (SELECT o.population_id FROM ONLY dbanon.dataset o WHERE o.dataset_id = stored_atoms.dataset_id)
    )
    SELECT b.cell_id, (dense_rank() OVER (ORDER BY b.best) - 1)::integer
    FROM (SELECT t.cell_id, min(k.place << 32 | t.atom) AS best
          FROM told t JOIN ranked k ON k.release_id = t.release_id GROUP BY t.cell_id) b
    ORDER BY b.cell_id
$$;
COMMENT ON FUNCTION dbanon_internal.stored_atoms(bigint, double precision, double precision) IS
'Gives the cells of a dataset that a release of its population gave an atom, with that atom: of those that everybody knows, of these those that promise
l and t, of these those that know most of these cells, of these the newest; no row where there is none.';

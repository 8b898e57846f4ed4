-- What methods that work on cells read of them, gathered by PostGIS. A point on an edge that cells share belongs to the one with the least
-- cell_id; a point outside all of them to none.

CREATE OR REPLACE FUNCTION dbanon_internal.count_cell_pois(dataset_id bigint) RETURNS TABLE (
    cell_id bigint, area_m2 double precision, category text, pois bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- Each point asks the index on the cells' geometry, whatever the planner takes the tables for; `+ 0` keeps the index on dataset_id out of it.
SET enable_seqscan = off SET jit = off AS $$
    WITH counted AS MATERIALIZED (
        SELECT hit.cell_id, poi.category, count(*) AS pois
        FROM ONLY dbanon.poi poi
        CROSS JOIN LATERAL (SELECT @postgis@.ST_PointOnSurface(poi.geom) AS geom OFFSET 0) spot
        CROSS JOIN LATERAL (SELECT min(cel.cell_id) AS cell_id FROM ONLY dbanon.cell cel
            WHERE cel.geom OPERATOR(@postgis@.&&) spot.geom AND cel.dataset_id + 0 = poi.dataset_id AND @postgis@.ST_Covers(cel.geom, spot.geom)) hit
        WHERE poi.dataset_id = count_cell_pois.dataset_id
        GROUP BY hit.cell_id, poi.category
    )
    SELECT cel.cell_id, @postgis@.ST_Area(cel.geom), counted.category, coalesce(counted.pois, 0)
    FROM ONLY dbanon.cell cel LEFT JOIN counted ON counted.cell_id = cel.cell_id
    WHERE cel.dataset_id = count_cell_pois.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.count_cell_pois IS
'Gives each cell of a dataset its area and, in a row each, the categories of the points of interest in it with their number; one row
without a category where it holds none.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_cell_neighbours(dataset_id bigint) RETURNS TABLE (cell_id bigint, neighbour_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    -- To the millimetre: cells that were clipped or reprojected one by one meet only nearly.
    SELECT a.cell_id, b.cell_id
    FROM (SELECT c.cell_id, c.geom, @postgis@.ST_Expand(c.geom, 0.001) AS near FROM ONLY dbanon.cell c
          WHERE c.dataset_id = find_cell_neighbours.dataset_id OFFSET 0) a
    JOIN ONLY dbanon.cell b ON b.geom OPERATOR(@postgis@.&&) a.near AND b.dataset_id + 0 = find_cell_neighbours.dataset_id AND b.cell_id > a.cell_id
    WHERE @postgis@.ST_Length(@postgis@.ST_Intersection(@postgis@.ST_Boundary(a.geom), @postgis@.ST_Boundary(b.geom), 0.001)) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.find_cell_neighbours IS
'Gives the pairs of cells of a dataset that share an edge, not only a corner; the lesser cell_id first.';

CREATE OR REPLACE FUNCTION dbanon_internal.hash_cell(geom @postgis@.geometry) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(@postgis@.ST_AsEWKB(geom, 'NDR'))
$$;
COMMENT ON FUNCTION dbanon_internal.hash_cell IS
'By what a cell is known again when it is loaded anew or into another dataset: a hash of its polygon, byte by byte, and SRID.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_stored_atoms(dataset_id bigint, l double precision, t double precision)
RETURNS TABLE (cell_id bigint, atom integer)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET work_mem = '256MB' SET enable_nestloop = off
SET jit = off AS $$
    WITH told AS MATERIALIZED (
        -- Of all releases, withdrawn ones too: what was published stays known.
        SELECT cel.cell_id, pub.release_id, pub.atom
        FROM ONLY dbanon.cell cel
        JOIN ONLY dbanon.published_cell pub ON pub.shape = dbanon_internal.hash_cell(cel.geom) AND pub.atom IS NOT NULL
        WHERE cel.dataset_id = find_stored_atoms.dataset_id
    ), ranked AS MATERIALIZED (
        -- Releases that everybody knows first, since all others are compared with them; then those whose atoms promise enough, as atoms that
        -- are merged for more are seldom those of another release; then those that know most of these cells; then the newest.
        SELECT rel.release_id, row_number() OVER (ORDER BY rel.readers IS NULL DESC,
            coalesce(run.params ->> 'atom_l', run.params ->> 'l', '0')::double precision >= find_stored_atoms.l
                AND coalesce(run.params ->> 'atom_t', run.params ->> 't', 'Infinity')::double precision <= find_stored_atoms.t DESC,
            size.cells DESC, rel.release_id DESC) AS place
        FROM (SELECT told.release_id, count(*) AS cells FROM told GROUP BY told.release_id) size
        JOIN ONLY dbanon.release rel ON rel.release_id = size.release_id
        JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        WHERE dat.population_id = (SELECT dat.population_id FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = find_stored_atoms.dataset_id)
    )
    SELECT best.cell_id, (dense_rank() OVER (ORDER BY best.best) - 1)::integer
    FROM (SELECT told.cell_id, min(ranked.place << 32 | told.atom) AS best
          FROM told JOIN ranked ON ranked.release_id = told.release_id GROUP BY told.cell_id) best
    ORDER BY best.cell_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_stored_atoms IS
'Gives the cells of a dataset that a release of its population gave an atom, with that atom: of those that everybody knows, of these those that promise
l and t, of these those that know most of these cells, of these the newest; no row where there is none.';

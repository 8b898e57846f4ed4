-- Composition of places: what releases that are made of cells tell of a place together.
--
-- Who knows that somebody was at one place in several releases learns what their regions have in common. That is made of classes: cells
-- that no region of any release tells apart. Of those that a run splits off, each must keep the categories (l) and the divergence (t) that
-- the weaker of the releases in question promises. Places stay what they are, so this holds whatever the time between releases. A class
-- that earlier releases tell apart already is not told anew: it is let through, also where points of interest have changed since.

CREATE OR REPLACE FUNCTION dbanon_internal.store_cells(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
AS $$
DECLARE
    dataset CONSTANT bigint := (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = store_cells.run_id);
BEGIN
    WITH used AS MATERIALIZED (
        SELECT DISTINCT e.region_no FROM ONLY dbanon.record d CROSS JOIN LATERAL unnest(d.regions) e (region_no) WHERE d.run_id = store_cells.run_id
    ), told AS MATERIALIZED (
        -- Equal for cells in the same regions. The number of the release keeps classes of several releases apart.
        SELECT c.cell_id, bit_xor(hashint8extended(c.region_no, store_cells.release_id)) AS class
        FROM (SELECT g.region_no, unnest(g.cells) AS cell_id
              FROM used u JOIN ONLY dbanon.region g ON g.region_no = u.region_no WHERE g.run_id = store_cells.run_id) c
        GROUP BY c.cell_id
    )
    INSERT INTO dbanon.published_cell (release_id, shape, atom, class)
        SELECT store_cells.release_id, dbanon_internal.cell_shape(c.geom), a.atom, t.class
        FROM ONLY dbanon.cell c
        LEFT JOIN ONLY dbanon.atom a ON a.run_id = store_cells.run_id AND a.cell_id = c.cell_id
        LEFT JOIN told t ON t.cell_id = c.cell_id
        WHERE c.dataset_id = dataset AND (a.atom IS NOT NULL OR EXISTS (SELECT FROM told));
    IF NOT EXISTS (SELECT FROM ONLY dbanon.atom a WHERE a.run_id = store_cells.run_id) THEN
        RETURN;
    END IF;
    -- The next run takes these atoms, and analysts see them: they must be what the regions are made of.
    IF EXISTS (SELECT FROM ONLY dbanon.published_cell p WHERE p.release_id = store_cells.release_id
               GROUP BY p.atom HAVING count(DISTINCT coalesce(p.class, 0)) > 1 OR p.atom IS NULL) THEN
        RAISE EXCEPTION 'The regions of a run must be made of whole atoms, as they are stored. The regions of run % are not. Run it again.', run_id
            USING ERRCODE = 'DA005';
    END IF;
    INSERT INTO dbanon.published_atom (release_id, atom, region, area_m2, categories, pois)
        SELECT store_cells.release_id, u.atom, u.region, u.area_m2, coalesce(n.categories, 0), coalesce(n.pois, 0)
        FROM (SELECT a.atom, @postgis@.ST_Multi(dbanon_internal.unite_cells(@postgis@.ST_Collect(c.geom ORDER BY c.cell_id))) AS region,
                  sum(@postgis@.ST_Area(c.geom)) AS area_m2
              FROM ONLY dbanon.atom a JOIN ONLY dbanon.cell c ON c.cell_id = a.cell_id AND c.dataset_id = dataset
              WHERE a.run_id = store_cells.run_id GROUP BY a.atom) u
        LEFT JOIN (SELECT a.atom, count(DISTINCT p.category)::integer AS categories, sum(p.pois)::bigint AS pois
                   FROM dbanon_internal.cell_pois(dataset) p
                   JOIN ONLY dbanon.atom a ON a.run_id = store_cells.run_id AND a.cell_id = p.cell_id
                   GROUP BY a.atom) n ON n.atom = u.atom;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_cells(bigint, bigint) IS
'Stores under the number of a release which cells the regions of a run tell apart, the atom of each, and the atoms; nothing where they are not made of cells.';

CREATE OR REPLACE FUNCTION dbanon_internal.cells_sum(release_id bigint, dataset_id bigint) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(sum(dbanon_internal.row_code(k.key, p.shape, ARRAY[p.atom, p.class])), 0)
    FROM (SELECT dbanon_internal.groups_key('published_cell', cells_sum.release_id, cells_sum.dataset_id) OFFSET 0) k (key)
    CROSS JOIN (SELECT c.shape, c.atom, c.class FROM ONLY dbanon.published_cell c WHERE c.release_id = cells_sum.release_id) p
$$;
COMMENT ON FUNCTION dbanon_internal.cells_sum(bigint, bigint) IS
'The sum of keyed hashes of what is stored of the cells that a release tells apart, as it is now.';

CREATE OR REPLACE FUNCTION dbanon_internal.pois_at(release_id bigint, dataset_id bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT o.loaded_at
    FROM (SELECT p.load_id FROM ONLY dbanon.poi p WHERE p.dataset_id = pois_at.dataset_id ORDER BY p.poi_id DESC LIMIT 1) p
    JOIN ONLY dbanon.load o ON o.load_id = p.load_id
    WHERE EXISTS (SELECT FROM ONLY dbanon.published_cell c WHERE c.release_id = pois_at.release_id)
$$;
COMMENT ON FUNCTION dbanon_internal.pois_at(bigint, bigint) IS
'When the newest point of interest of a dataset was loaded, for a release that is made of cells; null where it was inserted by hand.';

CREATE OR REPLACE FUNCTION dbanon_internal.cell_releases(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, is_new boolean, is_known boolean, l double precision, t double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.release_id, w.is_new, w.is_known, coalesce(r.params ->> 'atom_l', r.params ->> 'l', '0')::double precision,
        coalesce(r.params ->> 'atom_t', r.params ->> 't', 'Infinity')::double precision
    FROM (SELECT cell_releases.new_release AS release_id, cell_releases.run_id AS run_id, true AS is_new, false AS is_known
          UNION ALL
          -- What some readers alone were given, others do not know.
          SELECT l.release_id, l.run_id, false, l.readers IS NULL FROM ONLY dbanon.release l) w
    JOIN ONLY dbanon.run r ON r.run_id = w.run_id
    JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    WHERE d.population_id = (SELECT o.population_id FROM ONLY dbanon.run s JOIN ONLY dbanon.dataset o ON o.dataset_id = s.dataset_id
                             WHERE s.run_id = cell_releases.run_id)
        AND EXISTS (SELECT FROM ONLY dbanon.published_cell c WHERE c.release_id = w.release_id)
$$;
COMMENT ON FUNCTION dbanon_internal.cell_releases(bigint, bigint) IS
'A run under the number of the release it is about to be and the releases of its population that are made of cells, withdrawn ones too: whether
everybody may know it, and what it promises of each class of cells.';

CREATE OR REPLACE FUNCTION dbanon_internal.failing_classes(run_id bigint, new_release bigint, l double precision, t double precision) RETURNS TABLE (
    classes bigint, failing bigint, releases bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
#variable_conflict use_column
DECLARE
    dataset CONSTANT bigint := (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = failing_classes.run_id);
BEGIN
    RETURN QUERY
    WITH said AS MATERIALIZED (
        -- Who reads releases that promise at least this was promised it of all of them; weaker ones tell more, and are held to less.
        SELECT p.shape, p.class, o.release_id, o.is_new, o.is_known
        FROM dbanon_internal.cell_releases(failing_classes.run_id, failing_classes.new_release) o
        JOIN ONLY dbanon.published_cell p ON p.release_id = o.release_id AND p.class IS NOT NULL
        WHERE o.l >= failing_classes.l AND o.t <= failing_classes.t
    ), cell AS MATERIALIZED (
        SELECT s.shape, bit_xor(s.class) AS class, bit_xor(s.class) FILTER (WHERE s.is_known) AS before,
            bool_or(s.is_new) AND NOT bool_and(s.is_new) AS shared
        FROM said s GROUP BY s.shape
    ), class AS MATERIALIZED (
        -- Those that the run makes, of cells that it and an earlier release speak of: all others were told before, or by the run alone.
        SELECT n.*
        FROM (SELECT c.class, c.before, count(*) AS cells FROM cell c WHERE c.shared GROUP BY c.class, c.before) n
        LEFT JOIN (SELECT c.before, count(*) AS cells FROM cell c WHERE c.before IS NOT NULL GROUP BY c.before) b ON b.before = n.before
        WHERE b.cells IS DISTINCT FROM n.cells
    ), poi AS MATERIALIZED (
        SELECT p.cell_id, p.category, p.pois FROM dbanon_internal.cell_pois(dataset) p
        WHERE p.pois > 0 AND EXISTS (SELECT FROM class)
    ), city AS (
        SELECT p.category, sum(p.pois) / sum(sum(p.pois)) OVER () AS share FROM poi p GROUP BY p.category
    ), counted AS (
        SELECT k.class, p.category, sum(p.pois) / sum(sum(p.pois)) OVER (PARTITION BY k.class) AS share
        FROM class k
        JOIN cell c ON c.class = k.class
        JOIN (SELECT dbanon_internal.cell_shape(o.geom) AS shape, o.cell_id FROM ONLY dbanon.cell o WHERE o.dataset_id = dataset
                  AND EXISTS (SELECT FROM class)) g ON g.shape = c.shape
        JOIN poi p ON p.cell_id = g.cell_id
        GROUP BY k.class, p.category
    ), measured AS (
        SELECT n.class, count(*) AS categories, sum(n.share::double precision * ln((n.share / y.share)::double precision)) AS divergence
        FROM counted n JOIN city y ON y.category = n.category GROUP BY n.class
    ), failing AS MATERIALIZED (
        -- As the attack compares: without any point of interest the divergence is infinite.
        SELECT k.class FROM class k LEFT JOIN measured m ON m.class = k.class
        WHERE coalesce(m.categories, 0) < failing_classes.l OR coalesce(m.divergence, 'Infinity') > failing_classes.t + 1e-9
    )
    SELECT (SELECT count(*) FROM class), (SELECT count(*) FROM failing),
        ARRAY(SELECT DISTINCT s.release_id FROM failing f JOIN cell c ON c.class = f.class JOIN said s ON s.shape = c.shape AND NOT s.is_new
              ORDER BY 1);
END
$$;
COMMENT ON FUNCTION dbanon_internal.failing_classes(bigint, bigint, double precision, double precision) IS
'How many classes of cells a run makes that earlier releases do not tell apart, of those that promise l and t; how many of them lack these, counted
with the points of interest of its dataset now, and beside which releases.';

CREATE OR REPLACE FUNCTION dbanon_internal.extent_shape(extent double precision[], srid integer) RETURNS @postgis@.geometry
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT @postgis@.ST_Transform(@postgis@.ST_MakeEnvelope(extent[1], extent[2], extent[3], extent[4], srid), 4326)
$$;
COMMENT ON FUNCTION dbanon_internal.extent_shape(double precision[], integer) IS
'The box around a release in degrees, to compare it with one in another reference system.';

CREATE OR REPLACE FUNCTION dbanon_internal.releases_of_other_cells(run_id bigint, new_release bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
DECLARE
    others bigint[];
BEGIN
    -- Cells of a dataset do not overlap. So it is enough that all cells that one of the two speaks of are among those of the other.
    WITH own AS MATERIALIZED (
        SELECT p.shape, p.class FROM ONLY dbanon.published_cell p WHERE p.release_id = releases_of_other_cells.new_release
    )
    SELECT array_agg(x.release_id) INTO others
        FROM (SELECT o.release_id
              FROM dbanon_internal.cell_releases(releases_of_other_cells.run_id, releases_of_other_cells.new_release) o
              JOIN ONLY dbanon.published_cell p ON p.release_id = o.release_id
              LEFT JOIN own w ON w.shape = p.shape
              WHERE NOT o.is_new
              GROUP BY o.release_id
              HAVING count(*) FILTER (WHERE p.class IS NOT NULL AND w.shape IS NULL) > 0
                  AND count(w.class) < (SELECT count(n.class) FROM own n)) x;
    IF others IS NOT NULL THEN  -- those of other towns are no matter
        SELECT array_agg(l.release_id ORDER BY l.release_id) INTO others
            FROM ONLY dbanon.run r
            JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
            CROSS JOIN LATERAL dbanon_internal.extent_shape(dbanon_internal.run_extent(r.run_id), d.srid) e
            JOIN ONLY dbanon.release l ON l.release_id = ANY (others)
            JOIN ONLY dbanon.run s ON s.run_id = l.run_id
            JOIN ONLY dbanon.dataset t ON t.dataset_id = s.dataset_id
            WHERE r.run_id = releases_of_other_cells.run_id
                AND @postgis@.ST_Intersects(e, dbanon_internal.extent_shape(l.extent, t.srid)) IS NOT FALSE;
    END IF;
    RETURN others;
END
$$;
COMMENT ON FUNCTION dbanon_internal.releases_of_other_cells(bigint, bigint) IS
'Which earlier releases of the same area are made of other polygons than a run; null where none is.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_known_cells(run_id bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed dbanon.release;
BEGIN
    SELECT l.* INTO changed
        FROM ONLY dbanon.release l
        JOIN ONLY dbanon.run r ON r.run_id = l.run_id
        JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE d.population_id = (SELECT o.population_id FROM ONLY dbanon.run s JOIN ONLY dbanon.dataset o ON o.dataset_id = s.dataset_id
                                 WHERE s.run_id = check_known_cells.run_id)
            AND l.cells_sum <> dbanon_internal.cells_sum(l.release_id, r.dataset_id)
        ORDER BY l.release_id LIMIT 1;
    IF changed.release_id IS NOT NULL THEN
        RAISE EXCEPTION 'The stored cells of a release must be as they were at its publication, for run % to be compared with it. The cells of % '
            '(number %) were changed since.', check_known_cells.run_id, changed.name, changed.release_id
            USING ERRCODE = 'DA005', DETAIL = 'Its cells, or the key of its population, do not match its keyed hash.',
                  HINT = 'Restore its rows of dbanon.published_cell, and the key in dbanon.population, from a backup.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_known_cells(bigint) IS
'Refuses to compare the cells of a run with a release of whose cells not the same is stored as when it was published.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_classes(run_id bigint, new_release bigint, allow_overlap boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    dataset CONSTANT bigint := (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = check_classes.run_id);
    others text[];
    found record;
    beside text;
    counted text;
BEGIN
    -- Most runs are not made of cells.
    IF NOT EXISTS (SELECT FROM ONLY dbanon.published_cell c WHERE c.release_id = new_release) THEN
        RETURN '{}';
    END IF;
    PERFORM dbanon_internal.check_known_cells(run_id);
    IF (SELECT count(*) < 2 FROM dbanon_internal.cell_releases(run_id, new_release)) THEN
        RETURN '{}';
    END IF;
    others := dbanon_internal.release_titles(dbanon_internal.releases_of_other_cells(run_id, new_release), dataset, NULL);
    IF others IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A run must be made of the same cells as earlier releases of the same people and area, or have a reason to be published. '
                        'Run % has other polygons than %.', run_id, dbanon_internal.name_some(others)
            USING ERRCODE = 'DA010', DETAIL = 'Where cells differ, the common parts of regions cannot be compared.',
                  HINT = 'Load the cells of that release, and start another run. If you accept this, use allow_overlap => true with reason => '
                      '''...''.';
    END IF;
    -- The weaker promise of the run and of each earlier release: of the sets that fail, the most.
    SELECT c.* INTO STRICT found
        FROM (SELECT DISTINCT least(o.l, n.l) AS l, greatest(o.t, n.t) AS t
              FROM dbanon_internal.cell_releases(run_id, new_release) o, dbanon_internal.cell_releases(run_id, new_release) n
              WHERE n.is_new AND NOT o.is_new) p
        CROSS JOIN LATERAL dbanon_internal.failing_classes(run_id, new_release, p.l, p.t) c
        ORDER BY c.failing DESC, c.classes DESC LIMIT 1;
    beside := dbanon_internal.name_some(dbanon_internal.release_titles(found.releases, dataset, NULL));
    counted := dbanon_internal.counted(found.failing, 'set of cells', 'sets of cells');
    IF found.failing > 0 AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'The common parts of regions of several releases must keep l categories and t. Run % read together with % leaves % without '
            'them.', run_id, beside, counted
            USING ERRCODE = 'DA010', DETAIL = format('For %s that the run separates and earlier releases do not.',
                                                     dbanon_internal.counted(found.classes, 'set of cells', 'sets of cells')),
                  HINT = 'Where the cells are the same, run it again without new_atoms, so that it takes the atoms of that release. If you accept '
                      'this, use allow_overlap => true with reason => ''...''.';
    ELSIF found.failing > 0 THEN
        RAISE NOTICE 'Overridden: the common parts of regions of this and of % leave % without l categories or t.', beside, counted;
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('classes', nullif(found.failing, 0), 'other_cells', others));
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_classes(bigint, bigint, boolean) IS
'Refuses a run whose cells are stored under a number if, beside earlier releases, it tells sets of cells apart that lack l or t, or if it is made
of other cells than they are; returns how many sets, and which releases.';

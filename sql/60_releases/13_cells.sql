-- Composition of places: what releases that are made of cells tell of a place together.
--
-- Who knows that somebody was at one place in several releases learns what their regions have in common. That is made of classes: cells
-- that no region of any release tells apart. Of those that a run splits off, each must keep the categories (l) and the divergence (t) that
-- the weaker of the releases in question promises. Places stay what they are, so this holds whatever the time between releases. A class
-- that earlier releases tell apart already is not told anew: it is let through, also where points of interest have changed since.
-- Each release promised t against the city of its dataset: so each keeps the points of interest of its cells, and the worst decides. In a
-- quarter of clinics clinics are ordinary: a run of that quarter alone would be let through otherwise, though it singles clinics out of the city.

CREATE OR REPLACE FUNCTION dbanon_internal.list_cell_mixes(dataset_id bigint) RETURNS TABLE (cell_id bigint, shape bytea, pois jsonb)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET jit = off
AS $$
    SELECT cel.cell_id, dbanon_internal.hash_cell(cel.geom), cnt.pois
    FROM ONLY dbanon.cell cel
    JOIN (SELECT poi.cell_id, coalesce(jsonb_object_agg(poi.category, poi.pois) FILTER (WHERE poi.pois > 0), '{}') AS pois
          FROM dbanon_internal.count_cell_pois(list_cell_mixes.dataset_id) poi GROUP BY poi.cell_id) cnt ON cnt.cell_id = cel.cell_id
    WHERE cel.dataset_id = list_cell_mixes.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.list_cell_mixes IS
'Gives each cell of a dataset the hash by which releases know it, and how many points of interest it has by category.';

CREATE OR REPLACE FUNCTION dbanon_internal.store_cells(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
AS $$
DECLARE
    dataset CONSTANT bigint := (SELECT run.dataset_id FROM ONLY dbanon.run run WHERE run.run_id = store_cells.run_id);
BEGIN
    WITH used AS MATERIALIZED (
        SELECT DISTINCT ele.region_no FROM ONLY dbanon.record rec CROSS JOIN LATERAL unnest(rec.regions) ele (region_no)
        WHERE rec.run_id = store_cells.run_id AND EXISTS (SELECT FROM ONLY dbanon.cell cel WHERE cel.dataset_id = dataset)
    ), told AS MATERIALIZED (
        -- Equal for cells in the same regions. The number of the release keeps classes of several releases apart.
        SELECT shown.cell_id, bit_xor(hashint8extended(shown.region_no, store_cells.release_id)) AS class
        FROM (SELECT reg.region_no, unnest(reg.cells) AS cell_id
              FROM used JOIN ONLY dbanon.region reg ON reg.region_no = used.region_no WHERE reg.run_id = store_cells.run_id) shown
        GROUP BY shown.cell_id
    )
    INSERT INTO dbanon.published_cell (release_id, shape, atom, class, pois)
        SELECT store_cells.release_id, mix.shape, atom.atom, told.class, mix.pois
        FROM dbanon_internal.list_cell_mixes(dataset) mix
        LEFT JOIN ONLY dbanon.atom atom ON atom.run_id = store_cells.run_id AND atom.cell_id = mix.cell_id
        LEFT JOIN told ON told.cell_id = mix.cell_id
        WHERE EXISTS (SELECT FROM told) OR EXISTS (SELECT FROM ONLY dbanon.atom atom WHERE atom.run_id = store_cells.run_id);
    IF NOT EXISTS (SELECT FROM ONLY dbanon.atom atom WHERE atom.run_id = store_cells.run_id) THEN
        RETURN;
    END IF;
    -- The next run takes these atoms, and analysts see them: they must be what the regions are made of.
    IF EXISTS (SELECT FROM ONLY dbanon.published_cell pub WHERE pub.release_id = store_cells.release_id
               GROUP BY pub.atom HAVING count(DISTINCT coalesce(pub.class, 0)) > 1 OR pub.atom IS NULL) THEN
        RAISE EXCEPTION 'The regions of a run must be made of whole atoms, as they are stored. The regions of run % are not. Run it again.', run_id
            USING ERRCODE = 'DA005';
    END IF;
    INSERT INTO dbanon.published_atom (release_id, atom, region, area_m2, categories, pois)
        SELECT store_cells.release_id, uni.atom, uni.region, uni.area_m2, coalesce(cnt.categories, 0), coalesce(cnt.pois, 0)
        FROM (SELECT atom.atom, @postgis@.ST_Multi(dbanon_internal.unite_cells(@postgis@.ST_Collect(cel.geom ORDER BY cel.cell_id))) AS region,
                  sum(@postgis@.ST_Area(cel.geom)) AS area_m2
              FROM ONLY dbanon.atom atom JOIN ONLY dbanon.cell cel ON cel.cell_id = atom.cell_id AND cel.dataset_id = dataset
              WHERE atom.run_id = store_cells.run_id GROUP BY atom.atom) uni
        LEFT JOIN (SELECT pub.atom, count(DISTINCT pair.key)::integer AS categories, sum(pair.value::bigint)::bigint AS pois
                   FROM ONLY dbanon.published_cell pub CROSS JOIN LATERAL jsonb_each_text(pub.pois) pair
                   WHERE pub.release_id = store_cells.release_id GROUP BY pub.atom) cnt ON cnt.atom = uni.atom;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_cells IS
'Stores under the number of a release which cells the regions of a run tell apart, the atom of each, and the atoms; nothing where they are not made of
cells. Raises an error if a region is not made of whole atoms.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_cells_sum(release_id bigint, dataset_id bigint) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- The length of what is appended to a shape is hashed, too, so that no other shape stands for both.
    SELECT coalesce(sum(dbanon_internal.hash_row(k.key, p.shape || convert_to(coalesce(p.pois, ''), 'UTF8'),
        ARRAY[p.atom, p.class] || CASE WHEN p.pois IS NULL THEN '{}' ELSE ARRAY[octet_length(p.pois)::bigint] END)), 0)
    FROM (SELECT dbanon_internal.make_groups_key('published_cell', compute_cells_sum.release_id, compute_cells_sum.dataset_id) OFFSET 0) k (key)
    CROSS JOIN (SELECT c.shape, c.atom, c.class, c.pois::text FROM ONLY dbanon.published_cell c WHERE c.release_id = compute_cells_sum.release_id) p
$$;
COMMENT ON FUNCTION dbanon_internal.compute_cells_sum IS 'The sum of keyed hashes of what is stored of the cells that a release tells apart, as it is now.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_pois_at(release_id bigint, dataset_id bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT o.loaded_at
    FROM (SELECT p.load_id FROM ONLY dbanon.poi p WHERE p.dataset_id = find_pois_at.dataset_id ORDER BY p.poi_id DESC LIMIT 1) p
    JOIN ONLY dbanon.load o ON o.load_id = p.load_id
    WHERE EXISTS (SELECT FROM ONLY dbanon.published_cell c WHERE c.release_id = find_pois_at.release_id)
$$;
COMMENT ON FUNCTION dbanon_internal.find_pois_at IS
'When the newest point of interest of a dataset was loaded, for a release that is made of cells; null where it was inserted by hand.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_cell_releases(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, is_new boolean, is_known boolean, l double precision, t double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT rel.release_id, rel.is_new, rel.is_known, coalesce(rel.promise ->> 'l', '0')::double precision,
        coalesce(rel.promise ->> 't', 'Infinity')::double precision
    FROM (SELECT list_cell_releases.new_release AS release_id, list_cell_releases.run_id AS run_id, true AS is_new, false AS is_known,
              dbanon_internal.make_promise(list_cell_releases.run_id) AS promise
          UNION ALL
          -- What some readers alone were given, others do not know.
          SELECT rel.release_id, rel.run_id, false, rel.readers IS NULL, rel.promise FROM ONLY dbanon.release rel) rel
    JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
    JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
    WHERE dat.population_id = (SELECT dat.population_id FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
                               WHERE run.run_id = list_cell_releases.run_id)
        AND EXISTS (SELECT FROM ONLY dbanon.published_cell pub WHERE pub.release_id = rel.release_id)
$$;
COMMENT ON FUNCTION dbanon_internal.list_cell_releases IS
'A run under the number of the release it is about to be and the releases of its population that are made of cells, withdrawn ones too: whether
everybody may know it, and what it promises of each class of cells.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_failing_classes(
    run_id bigint, new_release bigint, l double precision, t double precision) RETURNS TABLE (
    classes bigint, failing bigint, releases bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH stated AS MATERIALIZED (
        -- Who reads releases that promise at least this was promised it of all of them; weaker ones tell more, and are held to less.
        SELECT pub.shape, pub.class, rel.release_id, rel.is_new, rel.is_known
        FROM dbanon_internal.list_cell_releases(count_failing_classes.run_id, count_failing_classes.new_release) rel
        JOIN ONLY dbanon.published_cell pub ON pub.release_id = rel.release_id AND pub.class IS NOT NULL
        WHERE rel.l >= count_failing_classes.l AND rel.t <= count_failing_classes.t
    ), cell AS MATERIALIZED (
        SELECT stated.shape, bit_xor(stated.class) AS class, bit_xor(stated.class) FILTER (WHERE stated.is_known) AS before,
            bool_or(stated.is_new) AND NOT bool_and(stated.is_new) AS shared
        FROM stated GROUP BY stated.shape
    ), class AS MATERIALIZED (
        -- Those that the run makes, of cells that it and an earlier release speak of: all others were told before, or by the run alone.
        SELECT now.*
        FROM (SELECT cell.class, cell.before, count(*) AS cells FROM cell WHERE cell.shared GROUP BY cell.class, cell.before) now
        LEFT JOIN (SELECT cell.before, count(*) AS cells FROM cell WHERE cell.before IS NOT NULL GROUP BY cell.before) bef ON bef.before = now.before
        WHERE bef.cells IS DISTINCT FROM now.cells
    ), mix AS MATERIALIZED (
        -- Points of interest as they were at each release. Where they are not known there are none here, and the class fails.
        SELECT class.class, pub.release_id, pair.key AS category, sum(pair.value::bigint) AS pois
        FROM class
        JOIN cell ON cell.class = class.class
        JOIN stated ON stated.shape = cell.shape
        JOIN ONLY dbanon.published_cell pub ON pub.release_id = stated.release_id AND pub.shape = stated.shape
        CROSS JOIN LATERAL jsonb_each_text(pub.pois) pair
        GROUP BY class.class, pub.release_id, pair.key
    ), city AS MATERIALIZED (
        SELECT pub.release_id, pair.key AS category, sum(pair.value::bigint) / sum(sum(pair.value::bigint)) OVER (PARTITION BY pub.release_id) AS share
        FROM (SELECT DISTINCT stated.release_id FROM stated WHERE EXISTS (SELECT FROM class)) rel
        JOIN ONLY dbanon.published_cell pub ON pub.release_id = rel.release_id
        CROSS JOIN LATERAL jsonb_each_text(pub.pois) pair
        GROUP BY pub.release_id, pair.key
    ), judged AS MATERIALIZED (
        -- What a class was at each release against that release's city; and what it is now against the cities of all that speak of it.
        SELECT DISTINCT class.class, stated.release_id AS city, mixed.release_id AS mix
        FROM class
        JOIN cell ON cell.class = class.class
        JOIN stated ON stated.shape = cell.shape
        CROSS JOIN LATERAL (VALUES (stated.release_id), (count_failing_classes.new_release)) mixed (release_id)
    ), counted AS (
        SELECT mix.*, mix.pois / sum(mix.pois) OVER (PARTITION BY mix.class, mix.release_id) AS share FROM mix
    ), measured AS (
        SELECT jud.class, count(cou.category) AS categories,
            sum(cou.share::double precision * coalesce(ln((cou.share / city.share)::double precision), 'Infinity')) AS divergence
        FROM judged jud
        LEFT JOIN counted cou ON cou.class = jud.class AND cou.release_id = jud.mix
        LEFT JOIN city ON city.release_id = jud.city AND city.category = cou.category
        GROUP BY jud.class, jud.city, jud.mix
    ), failing AS MATERIALIZED (
        -- As the attack compares: without any point of interest the divergence is infinite.
        SELECT DISTINCT mea.class FROM measured mea
        WHERE mea.categories < count_failing_classes.l OR coalesce(mea.divergence, 'Infinity') > count_failing_classes.t + 1e-9
    )
    SELECT (SELECT count(*) FROM class), (SELECT count(*) FROM failing),
        ARRAY(SELECT DISTINCT stated.release_id FROM failing fai JOIN cell ON cell.class = fai.class
              JOIN stated ON stated.shape = cell.shape AND NOT stated.is_new
              ORDER BY 1);
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_failing_classes IS
'How many classes of cells a run makes that earlier releases do not tell apart, of those that promise l and t; how many of them lack these, against
the city of any release that speaks of them, and beside which releases.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_extent_shape(extent double precision[], srid integer) RETURNS @postgis@.geometry
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT @postgis@.ST_Transform(@postgis@.ST_MakeEnvelope(extent[1], extent[2], extent[3], extent[4], srid), 4326)
$$;
COMMENT ON FUNCTION dbanon_internal.make_extent_shape IS 'The box around a release in degrees, to compare it with one in another reference system.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_releases_of_other_cells(
    run_id bigint, new_release bigint, OUT others bigint[], OUT larger bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
BEGIN
    -- Cells of a dataset do not overlap. So it is enough that all cells that one of the two speaks of are among those of the other.
    WITH own AS MATERIALIZED (
        SELECT pub.shape, pub.class FROM ONLY dbanon.published_cell pub WHERE pub.release_id = list_releases_of_other_cells.new_release
    )
    SELECT array_agg(oth.release_id) FILTER (WHERE oth.lacking > 0 AND oth.told < all_own.told),
            array_agg(oth.release_id ORDER BY oth.release_id) FILTER (WHERE oth.met = all_own.cells AND oth.cells > oth.met) INTO others, larger
        FROM (SELECT rel.release_id, count(*) AS cells, count(own.shape) AS met, count(own.class) AS told,
                  count(*) FILTER (WHERE pub.class IS NOT NULL AND own.shape IS NULL) AS lacking
              FROM dbanon_internal.list_cell_releases(list_releases_of_other_cells.run_id, list_releases_of_other_cells.new_release) rel
              JOIN ONLY dbanon.published_cell pub ON pub.release_id = rel.release_id
              LEFT JOIN own ON own.shape = pub.shape
              WHERE NOT rel.is_new
              GROUP BY rel.release_id) oth
        CROSS JOIN (SELECT count(*) AS cells, count(own.class) AS told FROM own) all_own;
    IF others IS NOT NULL THEN  -- those of other towns are no matter
        SELECT array_agg(rel.release_id ORDER BY rel.release_id) INTO others
            FROM ONLY dbanon.run run
            JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
            CROSS JOIN LATERAL dbanon_internal.make_extent_shape(dbanon_internal.find_run_extent(run.run_id), dat.srid) ext
            JOIN ONLY dbanon.release rel ON rel.release_id = ANY (others)
            JOIN ONLY dbanon.run other_run ON other_run.run_id = rel.run_id
            JOIN ONLY dbanon.dataset other_dat ON other_dat.dataset_id = other_run.dataset_id
            WHERE run.run_id = list_releases_of_other_cells.run_id
                AND @postgis@.ST_Intersects(ext, dbanon_internal.make_extent_shape(rel.extent, other_dat.srid)) IS NOT FALSE;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_releases_of_other_cells IS
'Which earlier releases of the same area are made of other polygons than a run, and which of all of its polygons and more; null where none is.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_unchanged_cells(run_id bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed dbanon.release;
BEGIN
    SELECT rel.* INTO changed
        FROM ONLY dbanon.release rel
        JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        WHERE dat.population_id = (SELECT dat.population_id FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
                                   WHERE run.run_id = demand_unchanged_cells.run_id)
            AND rel.cells_sum <> dbanon_internal.compute_cells_sum(rel.release_id, run.dataset_id)
        ORDER BY rel.release_id LIMIT 1;
    IF changed.release_id IS NOT NULL THEN
        RAISE EXCEPTION 'The stored cells of a release must be as they were at its publication, for run % to be compared with it. The cells of % '
            '(number %) were changed since.', demand_unchanged_cells.run_id, changed.name, changed.release_id
            USING ERRCODE = 'DA005', DETAIL = 'Its cells, or the key of its population, do not match its keyed hash.',
                  HINT = 'Restore its rows of dbanon.published_cell, and the key in dbanon.population, from a backup.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_unchanged_cells IS 'Refuses to compare a run with a release whose stored cells have changed since it was published.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_classes(run_id bigint, new_release bigint, allow_overlap boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dataset CONSTANT bigint := (SELECT run.dataset_id FROM ONLY dbanon.run run WHERE run.run_id = demand_classes.run_id);
    others text[];
    larger text[];
    found record;
    beside text;
    counted text;
BEGIN
    -- Most runs are not made of cells.
    IF NOT EXISTS (SELECT FROM ONLY dbanon.published_cell pub WHERE pub.release_id = new_release) THEN
        RETURN '{}';
    END IF;
    PERFORM dbanon_internal.demand_unchanged_cells(run_id);
    IF (SELECT count(*) < 2 FROM dbanon_internal.list_cell_releases(run_id, new_release)) THEN
        RETURN '{}';
    END IF;
    SELECT dbanon_internal.list_release_titles(oth.others, dataset, NULL), dbanon_internal.list_release_titles(oth.larger, dataset, NULL)
        INTO others, larger FROM dbanon_internal.list_releases_of_other_cells(run_id, new_release) oth;
    IF others IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A run must be made of the same cells as earlier releases of the same people and area, or have a reason to be published. '
                        'Run % has other polygons than %.', run_id, dbanon_internal.name_some(others)
            USING ERRCODE = 'DA010', DETAIL = 'Where cells differ, the common parts of regions cannot be compared.',
                  HINT = 'Load the cells of that release, and start another run. If you accept this, use allow_overlap => true with reason => '
                      '''...''.';
    END IF;
    IF larger IS NOT NULL THEN
        RAISE NOTICE 'This run has only some of the cells of %. It keeps t against the points of interest of these alone.',
            dbanon_internal.name_some(larger);
    END IF;
    -- The weaker promise of the run and of each earlier release: of the sets that fail, the most.
    SELECT fai.* INTO STRICT found
        FROM (SELECT DISTINCT least(theirs.l, ours.l) AS l, greatest(theirs.t, ours.t) AS t
              FROM dbanon_internal.list_cell_releases(run_id, new_release) theirs, dbanon_internal.list_cell_releases(run_id, new_release) ours
              WHERE ours.is_new AND NOT theirs.is_new) pair
        CROSS JOIN LATERAL dbanon_internal.count_failing_classes(run_id, new_release, pair.l, pair.t) fai
        ORDER BY fai.failing DESC, fai.classes DESC LIMIT 1;
    beside := dbanon_internal.name_some(dbanon_internal.list_release_titles(found.releases, dataset, NULL));
    counted := dbanon_internal.format_quantity(found.failing, 'set of cells', 'sets of cells');
    IF found.failing > 0 AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'The common parts of regions of several releases must keep l categories and t. Run % read together with % leaves % without '
            'them.', run_id, beside, counted
            USING ERRCODE = 'DA010', DETAIL = format('For %s that the run separates and earlier releases do not.',
                                                     dbanon_internal.format_quantity(found.classes, 'set of cells', 'sets of cells')),
                  HINT = 'Where the cells are the same, run it again without new_atoms, so that it takes the atoms of that release. If you accept '
                      'this, use allow_overlap => true with reason => ''...''.';
    ELSIF found.failing > 0 THEN
        RAISE NOTICE 'Overridden: the common parts of regions of this and of % leave % without l categories or t.', beside, counted;
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('classes', nullif(found.failing, 0), 'other_cells', others, 'fewer_cells', larger));
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_classes IS
'Refuses a run whose cells are stored under a number if, beside earlier releases, it tells sets of cells apart that lack l or t, or if it is made
of other cells than they are; returns how many sets, and which releases.';

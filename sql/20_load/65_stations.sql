-- Cells of base stations: made of the stations by nearest distance, and what is wrong with those that are there.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_no_cells(kind text, dataset dbanon.dataset, replace boolean) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cells bigint;
BEGIN
    IF kind <> 'stations' OR replace THEN RETURN; END IF;
    SELECT count(*) INTO cells FROM dbanon.cell cel WHERE cel.dataset_id = dataset.dataset_id;
    IF cells > 0 THEN
        RAISE EXCEPTION 'Stations must come all at once, since their cells divide one area. Dataset ''%'' has %.', dataset.name,
                dbanon_internal.format_quantity(cells, 'cell')
            USING ERRCODE = 'DA011', DETAIL = 'Cells of further stations would overlap those that are there.',
                  HINT = 'Give replace => true to delete the cells that are there first.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_no_cells IS 'Refuses stations for a dataset that has cells, unless these are replaced.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_area(area @postgis@.geometry, source_srid integer, target integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clip @postgis@.geometry;
    wrong text;
BEGIN
    IF area IS NULL THEN RETURN NULL; END IF;
    -- An area without a reference system is in that of the stations. What is wrong is looked for in the order of this list.
    clip := dbanon_internal.reproject(@postgis@.ST_Force2D(
        CASE @postgis@.ST_SRID(area) WHEN 0 THEN @postgis@.ST_SetSRID(area, source_srid) ELSE area END), target);
    wrong := CASE WHEN @postgis@.GeometryType(@postgis@.ST_Force2D(area)) NOT IN ('POLYGON', 'MULTIPOLYGON') THEN 'another kind of geometry'
        WHEN @postgis@.ST_IsEmpty(area) THEN 'an empty one'
        WHEN clip IS NULL OR dbanon_internal.is_endless(area) THEN format('one that SRID %s cannot show', target)
        WHEN NOT ((@postgis@.ST_IsValidDetail(clip, 0)).valid AND @postgis@.ST_Area(clip) > 0) THEN 'one that crosses itself or covers nothing' END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'The area must be one valid polygon or several. Got %.', wrong
            USING ERRCODE = 'DA012', DETAIL = 'The cells of the stations divide it among themselves.',
                  HINT = 'Correct it, for example with ST_MakeValid, or leave it out for the hull of the stations with a margin.';
    END IF;
    RETURN clip;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_area IS 'Refuses an area that cells cannot divide among themselves.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_hull_with_margin(stations @postgis@.geometry) RETURNS @postgis@.geometry
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- As wide as cells are apart: in a plane, the side of a square of the mean area; in a row, their mean distance. One alone gets 1 km.
    SELECT @postgis@.ST_Buffer(h.hull, CASE h.n WHEN 1 THEN 1000
        ELSE greatest(sqrt(@postgis@.ST_Area(h.hull) / h.n), sqrt(
            (@postgis@.ST_XMax(h.hull) - @postgis@.ST_XMin(h.hull)) ^ 2 + (@postgis@.ST_YMax(h.hull) - @postgis@.ST_YMin(h.hull)) ^ 2) / h.n) END)
    FROM (SELECT @postgis@.ST_ConvexHull(stations) AS hull, @postgis@.ST_NumGeometries(stations) AS n) h
$$;
COMMENT ON FUNCTION dbanon_internal.make_hull_with_margin IS 'Finds the area that stations serve where none is given.';

CREATE OR REPLACE FUNCTION dbanon_internal.cut_voronoi_faces(stations @postgis@.geometry, clip @postgis@.geometry) RETURNS SETOF @postgis@.geometry
LANGUAGE sql IMMUTABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Four guards, further from every place of the area than any station: no cell that counts is endless, so one station, two, or any
    -- number in a row are no special cases. What is nearest to a guard lies outside.
    WITH everything AS (SELECT @postgis@.Box3D(@postgis@.ST_Collect(stations, clip)) AS b),
    guards AS (
        SELECT @postgis@.ST_Points(@postgis@.ST_Expand(@postgis@.ST_Envelope(@postgis@.ST_Collect(stations, clip)), 3 * sqrt(
            (@postgis@.ST_XMax(b) - @postgis@.ST_XMin(b)) ^ 2 + (@postgis@.ST_YMax(b) - @postgis@.ST_YMin(b)) ^ 2))) AS corners
        FROM everything
    ),
    -- All edges at once, noded on a grid of a tenth of a millimetre: faces that meet share every corner of their common edge, so the cells
    -- leave no gap, overlap nowhere, and are nowhere thinner than that.
    edges AS (
        SELECT @postgis@.ST_UnaryUnion(@postgis@.ST_Collect(@postgis@.ST_Boundary(clip),
            @postgis@.ST_VoronoiLines(@postgis@.ST_Union(stations, guards.corners), 0::double precision)), 0.0001) AS noded
        FROM guards
    )
    SELECT poly.geom FROM edges CROSS JOIN LATERAL @postgis@.ST_Dump(@postgis@.ST_Polygonize(ARRAY[edges.noded])) poly
    WHERE @postgis@.ST_Intersects(clip, @postgis@.ST_PointOnSurface(poly.geom))
$$;
COMMENT ON FUNCTION dbanon_internal.cut_voronoi_faces IS 'Cuts an area along the lines that are equally far from two stations.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_cells(dataset dbanon.dataset, area @postgis@.geometry, source_srid integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stations @postgis@.geometry;
    clip @postgis@.geometry := dbanon_internal.demand_area(area, source_srid, dataset.srid);
BEGIN
    -- On a grid of a millimetre, ten times as wide as that of the edges: a station lies inside its cell, however near the next one is.
    UPDATE pg_temp.dbanon_staged SET geom = @postgis@.ST_SnapToGrid(geom, 0.001::double precision);
    UPDATE pg_temp.dbanon_staged sta SET reason = 'duplicate-station' FROM (
        SELECT sam.line, row_number() OVER (PARTITION BY @postgis@.ST_X(sam.geom), @postgis@.ST_Y(sam.geom) ORDER BY sam.line) AS nth
        FROM pg_temp.dbanon_staged sam) num WHERE num.line = sta.line AND num.nth > 1;
    PERFORM dbanon_internal.leave_out_marked('far-position');
    SELECT @postgis@.ST_Collect(sta.geom ORDER BY sta.line) INTO stations FROM pg_temp.dbanon_staged sta;
    -- Stations beside the area are usual and serve parts of it; with none near it, one of the two is somewhere else.
    IF NOT @postgis@.ST_Intersects(@postgis@.ST_ConvexHull(clip), stations) THEN
        RAISE EXCEPTION 'At least one station must stand within the hull of the area. Got %, none of which does.',
                dbanon_internal.format_quantity(@postgis@.ST_NumGeometries(stations), 'station')
            USING ERRCODE = 'DA012', DETAIL = 'The cells of the stations divide the area among themselves.',
                  HINT = 'Check the area and its reference system.';
    END IF;
    clip := coalesce(clip, dbanon_internal.make_hull_with_margin(stations));
    CREATE INDEX ON pg_temp.dbanon_staged USING gist (geom);
    -- A concave area, or one with holes, may cut a cell into several faces: each belongs to its nearest station.
    WITH face AS MATERIALIZED (SELECT face.geom FROM dbanon_internal.cut_voronoi_faces(stations, clip) face (geom)),
    owned AS (
        SELECT near.line, @postgis@.ST_UnaryUnion(@postgis@.ST_Collect(face.geom)) AS geom
        FROM face CROSS JOIN LATERAL (
            SELECT sta.line FROM pg_temp.dbanon_staged sta
            ORDER BY sta.geom OPERATOR(@postgis@.<->) @postgis@.ST_PointOnSurface(face.geom) LIMIT 1) near
        GROUP BY near.line
    )
    UPDATE pg_temp.dbanon_staged sta SET geom = owned.geom
    FROM pg_temp.dbanon_staged every LEFT JOIN owned ON owned.line = every.line
    WHERE every.line = sta.line;
    UPDATE pg_temp.dbanon_staged SET reason = 'outside-area' WHERE geom IS NULL;
    PERFORM dbanon_internal.leave_out_marked('far-position');
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_cells IS
'Makes cells of the staged stations; those where another stands, and those to which no place of the area is nearest, are left out. Raises an error if
cells cannot divide the area, or if no station stands within its hull.';

-- ---- what is wrong with cells

CREATE OR REPLACE FUNCTION dbanon_internal.count_outside_cells(dataset_id bigint) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    covered CONSTANT @postgis@.geometry := (SELECT @postgis@.ST_Union(c.geom) FROM dbanon.cell c WHERE c.dataset_id = count_outside_cells.dataset_id);
BEGIN
    -- Most trajectories lie inside as a whole; only the others are taken apart.
    RETURN (
        SELECT coalesce(sum((SELECT count(*) FILTER (WHERE NOT @postgis@.ST_Intersects(covered, p.geom))
                             FROM @postgis@.ST_DumpPoints(t.path) p)), 0)
        FROM dbanon.trajectory t
        WHERE t.dataset_id = count_outside_cells.dataset_id AND NOT @postgis@.ST_Covers(covered, t.path));
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_outside_cells IS 'Counts the fixes of a dataset that lie in none of its cells.';

CREATE OR REPLACE FUNCTION dbanon_internal.measure_cell_faults(
    dataset_id bigint, OUT overlap_m2 double precision, OUT gaps bigint, OUT gap_m2 double precision, OUT pieces bigint)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Less than a square metre is how finely borders are drawn; cells meet to the millimetre, as they do for those who look for neighbours.
    WITH every AS (
        -- Rounding to the millimetre closes cracks, and would count as overlap what it adds along the edges of large cells.
        SELECT @postgis@.ST_Union(cel.geom, 0.001::double precision) AS covered,
            sum(@postgis@.ST_Area(cel.geom)) - @postgis@.ST_Area(@postgis@.ST_Union(cel.geom)) AS twice
        FROM dbanon.cell cel WHERE cel.dataset_id = measure_cell_faults.dataset_id
    ), piece AS (
        SELECT poly.geom FROM every CROSS JOIN LATERAL @postgis@.ST_Dump(every.covered) poly
    ), hole AS (
        SELECT @postgis@.ST_Area(ring.geom) AS area
        FROM piece CROSS JOIN LATERAL @postgis@.ST_DumpRings(piece.geom) ring WHERE ring.path[1] > 0 AND @postgis@.ST_Area(ring.geom) >= 1
    )
    SELECT CASE WHEN every.twice >= 1 THEN every.twice ELSE 0 END,
        (SELECT count(*) FROM hole), (SELECT coalesce(sum(hole.area), 0) FROM hole), (SELECT count(*) FROM piece)
    FROM every
$$;
COMMENT ON FUNCTION dbanon_internal.measure_cell_faults IS 'Measures how far the cells of a dataset are from covering one area once.';

CREATE OR REPLACE FUNCTION dbanon_internal.report_cells(kind text, dataset_id bigint, quarantined jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    merged CONSTANT bigint := coalesce((quarantined ->> 'duplicate-station')::bigint, 0);
    beyond CONSTANT bigint := coalesce((quarantined ->> 'outside-area')::bigint, 0);
    outside CONSTANT bigint := dbanon_internal.count_outside_cells(dataset_id);
    faults record;
BEGIN
    IF merged > 0 THEN
        PERFORM dbanon_internal.raise_notice(format('Stations that stand where another does share its cell: %s.', dbanon_internal.format_count(merged)));
    END IF;
    IF beyond > 0 THEN
        PERFORM dbanon_internal.raise_notice(format('Stations to which no place of the area is nearest have no cell: %s.',
                                                    dbanon_internal.format_count(beyond)));
    END IF;
    IF kind = 'cells' THEN
        faults := dbanon_internal.measure_cell_faults(dataset_id);
        IF faults.overlap_m2 > 0 THEN
            PERFORM dbanon_internal.raise_notice(format('Cells overlap: %s m² are covered more than once. A place there belongs to the cell with the lowest '
                                       'cell_id.', dbanon_internal.format_count(round(faults.overlap_m2)::bigint)));
        END IF;
        IF faults.gaps > 0 THEN
            PERFORM dbanon_internal.raise_notice(format('Cells leave gaps: %s of together %s m² are enclosed by cells and belong to none.',
                                       dbanon_internal.format_count(faults.gaps), dbanon_internal.format_count(round(faults.gap_m2)::bigint)));
        END IF;
        IF faults.pieces > 1 THEN
            PERFORM dbanon_internal.raise_notice(format('The cells make %s that do not touch. Methods that let regions grow from cell to cell need '
                'one.',
                                       dbanon_internal.format_quantity(faults.pieces, 'area')));
        END IF;
    END IF;
    IF outside > 0 THEN
        PERFORM dbanon_internal.raise_notice(format('Fixes of the dataset that lie in no cell: %s. Methods that read cells leave them out and count them.',
                                   dbanon_internal.format_count(outside)));
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.report_cells IS
'Says in notices what is to be known of cells just stored: stations merged or without a cell, overlaps, gaps, and fixes outside.';

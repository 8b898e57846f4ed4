-- How many people there are where, on average over a span.

CREATE OR REPLACE FUNCTION published_inner.density_of(
    about published.releases, relation regclass, cell_m double precision, during tstzrange, by_hour boolean, even boolean, mask @postgis@.geometry,
    box @postgis@.geometry)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET work_mem = '64MB'
-- The planner takes a region for a thousand cells by a thousand, and the rows of the span for a few: it would sort all cells, or go
-- through them once for each row, instead of hashing.
SET enable_sort = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    most CONSTANT integer := 20000000;
    about CONSTANT published.releases := published_inner.about_rows(density_of.about, relation);
    span CONSTANT tstzrange := published_inner.fitted_span(about, during);
    side_m CONSTANT double precision := CASE WHEN cell_m >= 0.001 AND cell_m < 'Infinity' THEN cell_m END;
    -- The cells that are asked about: those that have a part of the box, or all, by numbers that fit into bigint.
    i_low CONSTANT bigint := floor(least(greatest(@postgis@.ST_XMin(box), -1e15), 1e15) / side_m);
    j_low CONSTANT bigint := floor(least(greatest(@postgis@.ST_YMin(box), -1e15), 1e15) / side_m);
    i_high CONSTANT bigint := ceil(greatest(least(@postgis@.ST_XMax(box), 1e15), -1e15) / side_m) - 1;
    j_high CONSTANT bigint := ceil(greatest(least(@postgis@.ST_YMax(box), 1e15), -1e15) / side_m) - 1;
    squares CONSTANT @postgis@.geometry := CASE WHEN box IS NOT NULL THEN
        @postgis@.ST_MakeEnvelope(i_low * cell_m, j_low * cell_m, (i_high + 1) * cell_m, (j_high + 1) * cell_m, about.srid) END;
    pieces double precision;
    by_edges boolean;
    surface published_inner.surface;
    -- Over instants all is summed; of records that hold at some time each counts once in a square, and surely those of one phase.
    person CONSTANT text := CASE about.holds
        WHEN 'instant' THEN '
            SELECT load.hour, piece.i, piece.j, CASE WHEN piece.covered THEN load.present END AS surely,
                load.expectedly * piece.even_share AS expectedly, load.people AS possibly
            FROM load JOIN piece ON piece.shape = load.shape'
        ELSE '
            SELECT phase.hour, phase.i, phase.j, max(phase.surely) FILTER (WHERE phase.phase IS NOT NULL) AS surely,
                sum(phase.expectedly) AS expectedly, sum(phase.possibly) AS possibly
            FROM (SELECT rec.hour, rec.i, rec.j, rec.phase, sum(rec.surely) AS surely, sum(rec.expectedly) AS expectedly,
                      sum(rec.possibly) AS possibly
                  FROM (SELECT load.hour, piece.i, piece.j, max(load.phase) AS phase,
                            max(load.subjects) FILTER (WHERE piece.covered AND load.whole) AS surely,
                            sum(load.expectedly * piece.even_share) AS expectedly, max(load.subjects) AS possibly
                        FROM load JOIN piece ON piece.shape = load.shape GROUP BY load.hour, piece.i, piece.j, load.record_id) rec
                  GROUP BY rec.hour, rec.i, rec.j, rec.phase) phase
            GROUP BY phase.hour, phase.i, phase.j'
        END;
BEGIN
    IF side_m IS NULL THEN
        RAISE EXCEPTION 'The side of a cell must be a number of metres, at least 0.001. Got %.', coalesce(cell_m::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Cells are squares.', HINT = 'Try 500.';
    END IF;
    IF about.holds = 'some time' AND by_hour IS NOT TRUE THEN  -- else it is a mean over instants
        PERFORM published_inner.report_windows(about, span);
    END IF;
    surface := published_inner.find_surface(about, relation, span, even, mask);
    EXECUTE format($query$
        SELECT sum(greatest(1 + least(floor(@postgis@.ST_XMax(clo.region) / $2), $6) - greatest(floor(@postgis@.ST_XMin(clo.region) / $2), $4), 0)
                   * greatest(1 + least(floor(@postgis@.ST_YMax(clo.region) / $2), $7) - greatest(floor(@postgis@.ST_YMin(clo.region) / $2), $5), 0))
        FROM %s clo WHERE clo.valid_from >= $3 AND clo.valid_from < upper($1) AND clo.valid_to > lower($1)
        $query$, relation) INTO pieces USING span, cell_m, published_inner.first_from(about, span), i_low, j_low, i_high, j_high;
    IF surface.sums IS NOT NULL AND pieces > 0 THEN  -- a cell of the surface may be cut into more than the regions that have a part of it
        SELECT greatest(pieces, one.squares),
            about.holds = 'instant' AND one.squares * CASE WHEN by_hour THEN extract(epoch FROM upper(span) - lower(span)) / 3600 + 1 ELSE 1 END <= pieces
            INTO pieces, by_edges
        FROM (SELECT greatest(least(ext.x1, i_high + 1) - greatest(ext.x0, i_low), 0) * greatest(least(ext.y1, j_high + 1) - greatest(ext.y0, j_low), 0) AS squares
              FROM (SELECT surface.left_column * surface.cell_m / cell_m AS x0, surface.bottom_row * surface.cell_m / cell_m AS y0,
                        (surface.left_column + surface.columns) * surface.cell_m / cell_m AS x1,
                        (surface.bottom_row + surface.rows) * surface.cell_m / cell_m AS y1) ext) one;
    END IF;
    IF pieces > most THEN
        RAISE EXCEPTION 'The side of a cell must be so large that the regions of the span have at most % cells in all. Got % m, which makes %.',
                most, cell_m, pieces
            USING ERRCODE = 'DA011', DETAIL = 'Each region is cut into the cells that it meets.',
                  HINT = format('Try %s, or a shorter span.', ceil(2 * cell_m * sqrt(pieces / most)));
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH given AS MATERIALIZED (
            SELECT $14 AS sums  -- once: each mention of a parameter is a copy
        ), bucket AS MATERIALIZED (
            SELECT cut.hour, cut.part, greatest(published_inner.spoken_s($6, cut.part), 0.000001) AS length_s
            FROM (SELECT hour, CASE WHEN $5 THEN published_inner.in_slots($6, tstzrange(hour, hour + interval '1 hour') * $1) ELSE $1 END AS part
                  FROM generate_series(CASE WHEN $5 THEN date_bin('1 hour', lower($1), 'epoch') END,
                                       CASE WHEN $5 THEN upper($1) END, interval '1 hour') hour
                  WHERE tstzrange(hour, hour + interval '1 hour') && $1
                  UNION ALL SELECT NULL, $1 WHERE NOT $5 AND NOT isempty($1)) cut
        ), hit AS MATERIALIZED (
            SELECT bucket.hour, 1e6 * bucket.length_s AS length_us, clo.record_id, clo.subjects, clo.crowd, least(clo.crowd, clo.subjects) AS present, clo.region,
                $3 = 'instant' OR clo.valid_from >= lower(bucket.part) AND clo.valid_to <= upper(bucket.part) AS whole,
                CASE WHEN $3 = 'some time' THEN published_inner.phase_of($6, clo.valid_from, clo.valid_to) END AS phase,
                -- The share of the instants at which a row holds; each record's one split over its rows where it holds at some time.
                CASE WHEN $3 = 'instant' THEN
                          greatest(extract(epoch FROM least(clo.valid_to, upper(bucket.part)) - greatest(clo.valid_from, lower(bucket.part))), 0.000001)::float8
                              / bucket.length_s
                     ELSE 1.0::float8 / count(*) OVER (PARTITION BY bucket.hour, clo.record_id) END AS weight
            FROM bucket JOIN %1$s clo ON clo.valid_from < upper(bucket.part) AND clo.valid_to > lower(bucket.part)
                AND clo.valid_from BETWEEN $7 AND upper($1) AND tstzrange(clo.valid_from, clo.valid_to) && $1
        ), form AS MATERIALIZED (
            -- Regions that rows have in common are cut once. A rectangle is made of half-open cells of the grid: no position is on its
            -- upper edges. Any other shape has its edges.
            SELECT row_number() OVER () AS shape, form.*, floor(form.x0 / $2)::bigint AS i0, floor(form.y0 / $2)::bigint AS j0,
                CASE WHEN form.plain THEN ceil(form.x1 / $2)::bigint - 1 ELSE floor(form.x1 / $2)::bigint END AS i1,
                CASE WHEN form.plain THEN ceil(form.y1 / $2)::bigint - 1 ELSE floor(form.y1 / $2)::bigint END AS j1
            FROM (SELECT box.*, @postgis@.GeometryType(box.region) = 'POLYGON' AND box.area = (box.x1 - box.x0) * (box.y1 - box.y0) AS plain
                  FROM (SELECT reg.region, reg.crowd, @postgis@.ST_XMin(reg.region) AS x0, @postgis@.ST_YMin(reg.region) AS y0,
                            @postgis@.ST_XMax(reg.region) AS x1, @postgis@.ST_YMax(reg.region) AS y1, @postgis@.ST_Area(reg.region) AS area
                        FROM (SELECT DISTINCT hit.region, hit.crowd FROM hit WHERE $12 IS NULL OR hit.region OPERATOR(@postgis@.&&) $12) reg) box) form
        ), shape AS MATERIALIZED (
            -- A region within one square is all in it. Others are spread by the surface, or where it says nothing evenly.
            SELECT one.* FROM given CROSS JOIN LATERAL (
            SELECT form.*, CASE WHEN form.plain AND (form.i0 < form.i1 OR form.j0 < form.j1) AND given.sums IS NOT NULL
                                THEN published_inner.find_factors(published_inner.take_sums(given.sums, own.corners), form.crowd) END AS factors, own.cells
            FROM form CROSS JOIN LATERAL (
                SELECT box.cells, published_inner.find_corners($15, box.cells) AS corners
                FROM (SELECT published_inner.find_box($13, form.region) AS cells OFFSET 0) box OFFSET 0) own OFFSET 0) one
        ), piece AS (
            SELECT shape.shape, col.i, lin.j, shape.i0 = shape.i1 AND shape.j0 = shape.j1 AS covered,
                (least(shape.x1, (col.i + 1) * $2) - greatest(shape.x0, col.i * $2))
                    * (least(shape.y1, (lin.j + 1) * $2) - greatest(shape.y0, lin.j * $2)) / shape.area * (shape.factors IS NULL)::integer AS even_share
            FROM shape CROSS JOIN LATERAL generate_series(greatest(shape.i0, $8), least(shape.i1, $10)) col (i)
            CROSS JOIN LATERAL generate_series(greatest(shape.j0, $9), least(shape.j1, $11)) lin (j)
            WHERE shape.plain AND (shape.factors IS NULL OR $16 IS NOT TRUE)
            UNION ALL
            SELECT shape.shape, col.i, lin.j, shape.i0 = shape.i1 AND shape.j0 = shape.j1,
                @postgis@.ST_Area(@postgis@.ST_Intersection(shape.region, cell.square)) / shape.area
            FROM shape CROSS JOIN LATERAL generate_series(greatest(shape.i0, $8), least(shape.i1, $10)) col (i)
            CROSS JOIN LATERAL generate_series(greatest(shape.j0, $9), least(shape.j1, $11)) lin (j)
            CROSS JOIN LATERAL (SELECT @postgis@.ST_MakeEnvelope(col.i * $2, lin.j * $2, (col.i + 1) * $2, (lin.j + 1) * $2, $4) AS square) cell
            WHERE NOT shape.plain AND @postgis@.ST_Intersects(shape.region, cell.square)
        ), load AS (
            SELECT hit.hour, hit.length_us, shape.shape, CASE WHEN $3 = 'some time' THEN hit.record_id END AS record_id, bool_or(hit.whole) AS whole,
                max(hit.phase) AS phase, sum(hit.subjects * hit.weight) AS people, sum(hit.present * hit.weight) AS present, max(hit.subjects)::float8 AS subjects,
                sum((hit.present + (hit.subjects - hit.present) * ($6).guest_presence) * hit.weight) AS expectedly
            FROM hit JOIN shape ON shape.region OPERATOR(@postgis@.=) hit.region AND shape.crowd = hit.crowd
            GROUP BY hit.hour, hit.length_us, shape.shape, 4
        ), person AS (%2$s
        ), change AS (
            SELECT load.hour, cor.x, cor.y, sum(load.expectedly * fac.factor) AS factor
            FROM load JOIN shape ON shape.shape = load.shape
            CROSS JOIN LATERAL unnest(shape.factors) WITH ORDINALITY fac (factor, n)
            CROSS JOIN LATERAL (SELECT (ARRAY[shape.cells[1], shape.cells[1] + 1, shape.cells[3] - 1, shape.cells[3]])[1 + (fac.n - 1) %% 4] AS x,
                                    (ARRAY[shape.cells[2], shape.cells[2] + 1, shape.cells[4] - 1, shape.cells[4]])[1 + (fac.n - 1) / 4] AS y) cor
            WHERE fac.factor <> 0 GROUP BY load.hour, cor.x, cor.y
        ), drawn AS (
            SELECT hou.hour, col.i, lin.j, cel.people
                * (least((cel.i + 1) * ($13)[1], (col.i + 1) * $2) - greatest(cel.i * ($13)[1], col.i * $2))
                * (least((cel.j + 1) * ($13)[1], (lin.j + 1) * $2) - greatest(cel.j * ($13)[1], lin.j * $2)) / ($13)[1] ^ 2 AS people
            FROM (SELECT cha.hour, array_agg(cha.x ORDER BY cha.y) AS xs, array_agg(cha.y ORDER BY cha.y) AS ys, array_agg(cha.factor ORDER BY cha.y) AS changes
                  FROM change cha GROUP BY cha.hour) hou
            CROSS JOIN LATERAL published_inner.spread_changes($13, $14, hou.xs, hou.ys, hou.changes) cel
            CROSS JOIN LATERAL generate_series(greatest(floor(cel.i * ($13)[1] / $2)::bigint, $8), least(ceil((cel.i + 1) * ($13)[1] / $2)::bigint - 1, $10)) col (i)
            CROSS JOIN LATERAL generate_series(greatest(floor(cel.j * ($13)[1] / $2)::bigint, $9), least(ceil((cel.j + 1) * ($13)[1] / $2)::bigint - 1, $11)) lin (j)
            WHERE $13 IS NOT NULL  -- else the planner would begin with series of all numbers
        ), edge AS (
            -- Over instants all who may be in a square are summed: those of a rectangle are as many from corner to corner, in whole microseconds,
            -- of which as many go as came.
            SELECT load.hour, load.length_us, cor.i, cor.j, sum(round(load.people * load.length_us) * cor.sign) AS people
            FROM load JOIN shape ON shape.shape = load.shape
            CROSS JOIN LATERAL (SELECT greatest(shape.i0, $8) AS i0, greatest(shape.j0, $9) AS j0, least(shape.i1, $10) + 1 AS i1, least(shape.j1, $11) + 1 AS j1) own
            CROSS JOIN LATERAL (VALUES (own.i0, own.j0, 1), (own.i1, own.j0, -1), (own.i0, own.j1, -1), (own.i1, own.j1, 1)) cor (i, j, sign)
            WHERE shape.factors IS NOT NULL AND $16 AND own.i0 < own.i1 AND own.j0 < own.j1 GROUP BY load.hour, load.length_us, cor.i, cor.j
        ), reached AS (
            SELECT hou.hour, cel.i, cel.j, cel.people / hou.length_us AS people
            FROM (SELECT one.hour, one.length_us, ARRAY[$2, min(one.i0), min(one.j0), max(one.i) - min(one.i0)] AS grid,
                      array_agg((one.i - one.i0)::integer ORDER BY one.j) AS xs, array_agg((one.j - one.j0)::integer ORDER BY one.j) AS ys,
                      array_agg(one.people::float8 ORDER BY one.j) AS changes
                  FROM (SELECT edge.*, min(edge.i) OVER w AS i0, min(edge.j) OVER w AS j0 FROM edge WINDOW w AS (PARTITION BY edge.hour)) one
                  GROUP BY one.hour, one.length_us) hou
            CROSS JOIN LATERAL published_inner.spread_changes(hou.grid, NULL, hou.xs, hou.ys, hou.changes) cel
        ), square AS (
            SELECT one.hour, one.i, one.j, coalesce(sum(one.surely), 0) AS surely, coalesce(sum(one.expectedly), 0) AS expectedly, coalesce(sum(one.possibly), 0) AS possibly
            FROM (SELECT per.hour, per.i, per.j, per.surely, per.expectedly, per.possibly FROM person per
                  UNION ALL SELECT dra.hour, dra.i, dra.j, NULL, dra.people, NULL FROM drawn dra
                  UNION ALL SELECT rea.hour, rea.i, rea.j, NULL, NULL, rea.people FROM reached rea) one
            GROUP BY one.hour, one.i, one.j
        ), room AS (
            -- A cell of the surface reaches beyond the edge of a region, into a square that has fewer people or none: they are where there is room.
            SELECT squ.*, least(squ.expectedly, squ.possibly) AS fitting, sum(greatest(squ.expectedly - squ.possibly, 0)) OVER w AS beyond,
                sum(greatest(squ.possibly - squ.expectedly, 0)) OVER w AS all_room
            FROM square squ WINDOW w AS (PARTITION BY squ.hour)
        )
        SELECT room.hour, @postgis@.ST_MakeEnvelope(room.i * $2, room.j * $2, (room.i + 1) * $2, (room.j + 1) * $2, $4), room.surely,
            room.fitting + (room.possibly - room.fitting) * coalesce(least(room.beyond / nullif(room.all_room, 0), 1), 0), room.possibly
        FROM room WHERE room.possibly > 0 ORDER BY room.hour, room.i, room.j
        $query$, relation, person) USING span, cell_m, about.holds, about.srid, by_hour IS TRUE, about, published_inner.first_from(about, span),
        i_low, j_low, i_high, j_high, squares, published_inner.grid_of(surface), surface.sums, ARRAY[0, 0, surface.columns, surface.rows], by_edges;
END
$$;
COMMENT ON FUNCTION published_inner.density_of IS
'The answer of published.density from a relation with rows and their row of published.releases. With a box it answers only for the squares that have
a part of it.';

CREATE OR REPLACE FUNCTION published.density(
    release regclass, cell_m double precision, during tstzrange, by_hour boolean DEFAULT false, even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published_inner.density_of(NULL, release, cell_m, during, by_hour, even, mask, NULL)
$$;
COMMENT ON FUNCTION published.density IS
'Counts the people of a release in each square of a grid, on average over the instants of a span that it speaks of. People left out of the release
are not added. A square holds its lower edges, not its upper ones. Squares without people are not listed. The expected numbers of all squares
sum to the mean number of people published. Where the release holds at some time (published.releases), at_least and at_most are people seen in the
square during the span, as in published.count_inside. There, expected splits each record evenly over its rows in the span. The squares then sum to the
records, each of a person, or of one in a window, day or part.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- cell_m: side of a square in metres. Edges are multiples of it.
- during: a span, of which the part that the release speaks of counts.
- by_hour: answer for each hour (of UTC) by itself.
- even: spread people evenly over their regions.
- mask: where people can be, such as streets.
Returns: one row a square, or one a square and hour.
- hour: the hour, NULL unless by_hour is true.
- cell: the square.
- at_least: the lower bound.
- expected: the number if people are where the release''s surface (published.surfaces) has them.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.density(''published.taxi_k5'', 500, ''[2026-01-05 08:00Z,2026-01-05 09:00Z)'').';

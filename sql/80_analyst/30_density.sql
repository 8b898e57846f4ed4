-- How many people there are where, on average over a span.

CREATE OR REPLACE FUNCTION published.density_of(
    about published.releases, relation regclass, cell_m double precision, during tstzrange, by_hour boolean, box @postgis@.geometry)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
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
    about CONSTANT published.releases := published.about_rows(density_of.about, relation);
    span CONSTANT tstzrange := published.fitted_span(about, during);
    side_m CONSTANT double precision := CASE WHEN cell_m >= 0.001 AND cell_m < 'Infinity' THEN cell_m END;
    -- The cells that are asked about: those that have a part of the box, or all, by numbers that fit into bigint.
    i_low CONSTANT bigint := floor(least(greatest(@postgis@.ST_XMin(box), -1e15), 1e15) / side_m);
    j_low CONSTANT bigint := floor(least(greatest(@postgis@.ST_YMin(box), -1e15), 1e15) / side_m);
    i_high CONSTANT bigint := ceil(greatest(least(@postgis@.ST_XMax(box), 1e15), -1e15) / side_m) - 1;
    j_high CONSTANT bigint := ceil(greatest(least(@postgis@.ST_YMax(box), 1e15), -1e15) / side_m) - 1;
    squares CONSTANT @postgis@.geometry := CASE WHEN box IS NOT NULL THEN
        @postgis@.ST_MakeEnvelope(i_low * cell_m, j_low * cell_m, (i_high + 1) * cell_m, (j_high + 1) * cell_m, about.srid) END;
    pieces double precision;
    -- Over instants all is summed; of records that hold at some time each counts once in a square, and surely those of one phase.
    person CONSTANT text := CASE about.holds
        WHEN 'instant' THEN '
            SELECT load.hour, piece.i, piece.j, CASE WHEN piece.covered THEN load.present END AS surely,
                (load.present + (load.people - load.present) * ($6).guest_presence) * piece.share AS expectedly, load.people AS possibly
            FROM load JOIN piece ON piece.shape = load.shape'
        ELSE '
            SELECT phase.hour, phase.i, phase.j, max(phase.surely) FILTER (WHERE phase.phase IS NOT NULL) AS surely,
                sum(phase.expectedly) AS expectedly, sum(phase.possibly) AS possibly
            FROM (SELECT rec.hour, rec.i, rec.j, rec.phase, sum(rec.surely) AS surely, sum(rec.expectedly) AS expectedly,
                      sum(rec.possibly) AS possibly
                  FROM (SELECT load.hour, piece.i, piece.j, max(load.phase) AS phase,
                            max(load.subjects) FILTER (WHERE piece.covered AND load.whole) AS surely,
                            sum(load.people * piece.share) AS expectedly, max(load.subjects) AS possibly
                        FROM load JOIN piece ON piece.shape = load.shape GROUP BY load.hour, piece.i, piece.j, load.record_id) rec
                  GROUP BY rec.hour, rec.i, rec.j, rec.phase) phase
            GROUP BY phase.hour, phase.i, phase.j'
        END;
BEGIN
    IF side_m IS NULL THEN
        RAISE EXCEPTION 'The side of a cell must be a number of metres, at least 0.001. Got %.', coalesce(cell_m::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Cells are squares.', HINT = 'Try 500.';
    END IF;
    EXECUTE format($query$
        SELECT sum(greatest(1 + least(floor(@postgis@.ST_XMax(clo.region) / $2), $6) - greatest(floor(@postgis@.ST_XMin(clo.region) / $2), $4), 0)
                   * greatest(1 + least(floor(@postgis@.ST_YMax(clo.region) / $2), $7) - greatest(floor(@postgis@.ST_YMin(clo.region) / $2), $5), 0))
        FROM %s clo WHERE clo.valid_from BETWEEN $3 AND upper($1) AND clo.period && $1
        $query$, relation) INTO pieces USING span, cell_m, published.first_from(about, span), i_low, j_low, i_high, j_high;
    IF pieces > most THEN
        RAISE EXCEPTION 'The side of a cell must be so large that the regions of the span have at most % cells in all. Got % m, which makes %.',
                most, cell_m, pieces
            USING ERRCODE = 'DA011', DETAIL = 'Each region is cut into the cells that it meets.',
                  HINT = format('Try %s, or a shorter span.', ceil(2 * cell_m * sqrt(pieces / most)));
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH bucket AS MATERIALIZED (
            SELECT cut.hour, cut.part, greatest(published.spoken_s($6, cut.part), 0.000001) AS length_s
            FROM (SELECT hour, CASE WHEN $5 THEN published.in_slots($6, tstzrange(hour, hour + interval '1 hour') * $1) ELSE $1 END AS part
                  FROM generate_series(CASE WHEN $5 THEN date_bin('1 hour', lower($1), 'epoch') END,
                                       CASE WHEN $5 THEN upper($1) END, interval '1 hour') hour
                  WHERE tstzrange(hour, hour + interval '1 hour') && $1
                  UNION ALL SELECT NULL, $1 WHERE NOT $5 AND NOT isempty($1)) cut
        ), hit AS MATERIALIZED (
            SELECT bucket.hour, clo.record_id, clo.subjects, least(clo.crowd, clo.subjects) AS present, clo.region, $3 = 'instant' OR clo.period <@ bucket.part AS whole,
                CASE WHEN $3 = 'some time' THEN published.phase_of($6, clo.valid_from, clo.valid_to) END AS phase,
                -- The share of the instants at which a row holds; each record's one split over its rows where it holds at some time.
                CASE WHEN $3 = 'instant' THEN
                          greatest(extract(epoch FROM upper(clo.period * bucket.part) - lower(clo.period * bucket.part)), 0.000001)::float8
                              / bucket.length_s
                     ELSE 1.0::float8 / count(*) OVER (PARTITION BY bucket.hour, clo.record_id) END AS weight
            FROM bucket JOIN %1$s clo ON clo.period && bucket.part AND clo.period && $1 AND clo.valid_from BETWEEN $7 AND upper($1)
        ), shape AS MATERIALIZED (
            -- Regions that rows have in common are cut once. A rectangle is made of half-open cells of the grid: no position is on its
            -- upper edges. Any other shape has its edges.
            SELECT row_number() OVER () AS shape, form.*, floor(form.x0 / $2)::bigint AS i0, floor(form.y0 / $2)::bigint AS j0,
                CASE WHEN form.plain THEN ceil(form.x1 / $2)::bigint - 1 ELSE floor(form.x1 / $2)::bigint END AS i1,
                CASE WHEN form.plain THEN ceil(form.y1 / $2)::bigint - 1 ELSE floor(form.y1 / $2)::bigint END AS j1
            FROM (SELECT box.*, @postgis@.GeometryType(box.region) = 'POLYGON' AND box.area = (box.x1 - box.x0) * (box.y1 - box.y0) AS plain
                  FROM (SELECT reg.region, @postgis@.ST_XMin(reg.region) AS x0, @postgis@.ST_YMin(reg.region) AS y0,
                            @postgis@.ST_XMax(reg.region) AS x1, @postgis@.ST_YMax(reg.region) AS y1, @postgis@.ST_Area(reg.region) AS area
                        FROM (SELECT DISTINCT hit.region FROM hit WHERE $12 IS NULL OR hit.region OPERATOR(@postgis@.&&) $12) reg) box) form
        ), piece AS (
            SELECT shape.shape, col.i, lin.j, shape.i0 = shape.i1 AND shape.j0 = shape.j1 AS covered,
                (least(shape.x1, (col.i + 1) * $2) - greatest(shape.x0, col.i * $2))
                    * (least(shape.y1, (lin.j + 1) * $2) - greatest(shape.y0, lin.j * $2)) / shape.area AS share
            FROM shape CROSS JOIN LATERAL generate_series(greatest(shape.i0, $8), least(shape.i1, $10)) col (i)
            CROSS JOIN LATERAL generate_series(greatest(shape.j0, $9), least(shape.j1, $11)) lin (j)
            WHERE shape.plain
            UNION ALL
            SELECT shape.shape, col.i, lin.j, shape.i0 = shape.i1 AND shape.j0 = shape.j1,
                @postgis@.ST_Area(@postgis@.ST_Intersection(shape.region, cell.square)) / shape.area
            FROM shape CROSS JOIN LATERAL generate_series(greatest(shape.i0, $8), least(shape.i1, $10)) col (i)
            CROSS JOIN LATERAL generate_series(greatest(shape.j0, $9), least(shape.j1, $11)) lin (j)
            CROSS JOIN LATERAL (SELECT @postgis@.ST_MakeEnvelope(col.i * $2, lin.j * $2, (col.i + 1) * $2, (lin.j + 1) * $2, $4) AS square) cell
            WHERE NOT shape.plain AND @postgis@.ST_Intersects(shape.region, cell.square)
        ), load AS (
            SELECT hit.hour, shape.shape, CASE WHEN $3 = 'some time' THEN hit.record_id END AS record_id, bool_or(hit.whole) AS whole,
                max(hit.phase) AS phase, sum(hit.subjects * hit.weight) AS people, sum(hit.present * hit.weight) AS present, max(hit.subjects)::float8 AS subjects
            FROM hit JOIN shape ON shape.region OPERATOR(@postgis@.=) hit.region GROUP BY hit.hour, shape.shape, 3
        ), person AS (%2$s
        )
        SELECT person.hour, @postgis@.ST_MakeEnvelope(person.i * $2, person.j * $2, (person.i + 1) * $2, (person.j + 1) * $2, $4),
            coalesce(sum(person.surely), 0), sum(person.expectedly), sum(person.possibly)
        FROM person GROUP BY person.hour, person.i, person.j ORDER BY person.hour, person.i, person.j
        $query$, relation, person) USING span, cell_m, about.holds, about.srid, by_hour IS TRUE, about, published.first_from(about, span),
        i_low, j_low, i_high, j_high, squares;
END
$$;
COMMENT ON FUNCTION published.density_of IS
'The answer of published.density from a relation with rows and their row of published.releases. With a box it answers only for the squares that have
a part of it.';

CREATE OR REPLACE FUNCTION published.density(
    release regclass, cell_m double precision, during tstzrange, by_hour boolean DEFAULT false)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published.density_of(NULL, release, cell_m, during, by_hour, NULL)
$$;
COMMENT ON FUNCTION published.density IS
'Counts the people of a release in each square of a grid, on average over the instants of a span that it speaks of. People left out of the release
are not added. A square holds its lower edges, not its upper ones. Squares without people are not listed. The expected numbers of all squares
sum to the mean number of people published. Where the release holds at some time (published.releases), at_least and at_most are people seen in the
square during the span, as in published.count_inside. There, expected splits each record evenly over its rows in the span. The squares then sum to the
records, each of a person or, where day_zone is set, of one day of a person.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- cell_m: side of a square in metres. Edges are multiples of it.
- during: a span, of which the part that the release speaks of counts.
- by_hour: answer for each hour (of UTC) by itself.
Returns: one row a square, or one a square and hour.
- hour: the hour, NULL unless by_hour is true.
- cell: the square.
- at_least: the lower bound.
- expected: the number if people were spread evenly over their regions, which is an assumption.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.density(''published.taxi_k5'', 500, ''[2026-01-05 08:00Z,2026-01-05 09:00Z)'').';

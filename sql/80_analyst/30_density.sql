-- How many people there are where, on average over a span.

CREATE OR REPLACE FUNCTION published.density_of(
    about published.releases, relation regclass, cell_m double precision, during tstzrange, by_hour boolean, box @postgis@.geometry)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
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
    span CONSTANT tstzrange := published.fitted_span(about, during);
    -- The cells that are asked about: all, or those that have a part of the box.
    i_low CONSTANT bigint := coalesce(floor(@postgis@.ST_XMin(box) / cell_m), -9e18);
    j_low CONSTANT bigint := coalesce(floor(@postgis@.ST_YMin(box) / cell_m), -9e18);
    i_high CONSTANT bigint := coalesce(ceil(@postgis@.ST_XMax(box) / cell_m) - 1, 9e18);
    j_high CONSTANT bigint := coalesce(ceil(@postgis@.ST_YMax(box) / cell_m) - 1, 9e18);
    squares CONSTANT @postgis@.geometry := CASE WHEN box IS NOT NULL THEN
        @postgis@.ST_MakeEnvelope(i_low * cell_m, j_low * cell_m, (i_high + 1) * cell_m, (j_high + 1) * cell_m, about.srid) END;
    pieces double precision;
    -- Over instants all is summed; of records that hold at some time each counts once in a square, and surely those of one phase.
    person CONSTANT text := CASE about.holds
        WHEN 'instant' THEN '
            SELECT l.hour, p.i, p.j, CASE WHEN p.covered THEN l.people END AS surely, l.people * p.share AS expectedly,
                l.people AS possibly
            FROM load l JOIN piece p ON p.shape = l.shape'
        ELSE '
            SELECT o.hour, o.i, o.j, max(o.surely) FILTER (WHERE o.phase IS NOT NULL) AS surely, sum(o.expectedly) AS expectedly, sum(o.possibly) AS possibly
            FROM (SELECT r.hour, r.i, r.j, r.phase, sum(r.surely) AS surely, sum(r.expectedly) AS expectedly, sum(r.possibly) AS possibly
                  FROM (SELECT l.hour, p.i, p.j, max(l.phase) AS phase, max(l.subjects) FILTER (WHERE p.covered AND l.whole) AS surely,
                            sum(l.people * p.share) AS expectedly, max(l.subjects) AS possibly
                        FROM load l JOIN piece p ON p.shape = l.shape GROUP BY l.hour, p.i, p.j, l.record_id) r
                  GROUP BY r.hour, r.i, r.j, r.phase) o
            GROUP BY o.hour, o.i, o.j'
        END;
BEGIN
    IF cell_m IS NULL OR NOT (cell_m >= 0.001 AND cell_m < 'Infinity') THEN
        RAISE EXCEPTION 'The side of a cell must be a number of metres, at least 0.001. Got %.', coalesce(cell_m::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Cells are squares.', HINT = 'Try 500.';
    END IF;
    EXECUTE format($query$
        SELECT sum(greatest(1 + least(floor(@postgis@.ST_XMax(c.region) / $2), $6) - greatest(floor(@postgis@.ST_XMin(c.region) / $2), $4), 0)
                   * greatest(1 + least(floor(@postgis@.ST_YMax(c.region) / $2), $7) - greatest(floor(@postgis@.ST_YMin(c.region) / $2), $5), 0))
        FROM %s c WHERE c.valid_from BETWEEN $3 AND upper($1) AND c.period && $1
        $query$, relation) INTO pieces USING span, cell_m, published.first_from(about, span), i_low, j_low, i_high, j_high;
    IF pieces > most THEN
        RAISE EXCEPTION 'The side of a cell must be so large that the regions of the span have at most % cells in all. Got % m, which makes %.',
                most, cell_m, pieces
            USING ERRCODE = 'DA011', DETAIL = 'Each region is cut into the cells that it meets.',
                  HINT = format('Try %s, or a shorter span.', ceil(2 * cell_m * sqrt(pieces / most)));
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH bucket AS MATERIALIZED (
            SELECT b.hour, b.part, greatest(published.spoken_s($6, b.part), 0.000001) AS length_s
            FROM (SELECT h AS hour, CASE WHEN $5 THEN published.in_slots($6, tstzrange(h, h + interval '1 hour') * $1) ELSE $1 END AS part
                  FROM generate_series(CASE WHEN $5 THEN date_bin('1 hour', lower($1), 'epoch') END,
                                       CASE WHEN $5 THEN upper($1) END, interval '1 hour') h
                  WHERE tstzrange(h, h + interval '1 hour') && $1
                  UNION ALL SELECT NULL, $1 WHERE NOT $5 AND NOT isempty($1)) b
        ), hit AS MATERIALIZED (
            SELECT b.hour, c.record_id, c.subjects, c.region, $3 = 'instant' OR c.period <@ b.part AS whole,
                CASE WHEN $3 = 'some time' THEN published.phase_of($6, c.valid_from, c.valid_to) END AS phase,
                -- The share of the instants at which a row holds; each record's one split over its rows where it holds at some time.
                CASE WHEN $3 = 'instant' THEN
                          greatest(extract(epoch FROM upper(c.period * b.part) - lower(c.period * b.part)), 0.000001)::float8 / b.length_s
                     ELSE 1.0::float8 / count(*) OVER (PARTITION BY b.hour, c.record_id) END AS weight
            FROM bucket b JOIN %1$s c ON c.period && b.part AND c.period && $1 AND c.valid_from BETWEEN $7 AND upper($1)
        ), shape AS MATERIALIZED (
            -- Regions that rows have in common are cut once. A rectangle is made of half-open cells of the grid: no position is on its
            -- upper edges. Any other shape has its edges.
            SELECT row_number() OVER () AS shape, k.*, floor(k.x0 / $2)::bigint AS i0, floor(k.y0 / $2)::bigint AS j0,
                CASE WHEN k.plain THEN ceil(k.x1 / $2)::bigint - 1 ELSE floor(k.x1 / $2)::bigint END AS i1,
                CASE WHEN k.plain THEN ceil(k.y1 / $2)::bigint - 1 ELSE floor(k.y1 / $2)::bigint END AS j1
            FROM (SELECT b.*, @postgis@.GeometryType(b.region) = 'POLYGON' AND b.area = (b.x1 - b.x0) * (b.y1 - b.y0) AS plain
                  FROM (SELECT r.region, @postgis@.ST_XMin(r.region) AS x0, @postgis@.ST_YMin(r.region) AS y0, @postgis@.ST_XMax(r.region) AS x1,
                            @postgis@.ST_YMax(r.region) AS y1, @postgis@.ST_Area(r.region) AS area
                        FROM (SELECT DISTINCT h.region FROM hit h WHERE $12 IS NULL OR h.region OPERATOR(@postgis@.&&) $12) r) b) k
        ), piece AS (
            SELECT s.shape, i, j, s.i0 = s.i1 AND s.j0 = s.j1 AS covered,
                (least(s.x1, (i + 1) * $2) - greatest(s.x0, i * $2)) * (least(s.y1, (j + 1) * $2) - greatest(s.y0, j * $2)) / s.area AS share
            FROM shape s CROSS JOIN LATERAL generate_series(greatest(s.i0, $8), least(s.i1, $10)) i
            CROSS JOIN LATERAL generate_series(greatest(s.j0, $9), least(s.j1, $11)) j
            WHERE s.plain
            UNION ALL
            SELECT s.shape, i, j, s.i0 = s.i1 AND s.j0 = s.j1, @postgis@.ST_Area(@postgis@.ST_Intersection(s.region, e.square)) / s.area
            FROM shape s CROSS JOIN LATERAL generate_series(greatest(s.i0, $8), least(s.i1, $10)) i
            CROSS JOIN LATERAL generate_series(greatest(s.j0, $9), least(s.j1, $11)) j
            CROSS JOIN LATERAL (SELECT @postgis@.ST_MakeEnvelope(i * $2, j * $2, (i + 1) * $2, (j + 1) * $2, $4) AS square) e
            WHERE NOT s.plain AND @postgis@.ST_Intersects(s.region, e.square)
        ), load AS (
            SELECT h.hour, s.shape, CASE WHEN $3 = 'some time' THEN h.record_id END AS record_id, bool_or(h.whole) AS whole,
                max(h.phase) AS phase, sum(h.subjects * h.weight) AS people, max(h.subjects)::float8 AS subjects
            FROM hit h JOIN shape s ON s.region OPERATOR(@postgis@.=) h.region GROUP BY h.hour, s.shape, 3
        ), person AS (%2$s
        )
        SELECT p.hour, @postgis@.ST_MakeEnvelope(p.i * $2, p.j * $2, (p.i + 1) * $2, (p.j + 1) * $2, $4),
            coalesce(sum(p.surely), 0), sum(p.expectedly), sum(p.possibly)
        FROM person p GROUP BY p.hour, p.i, p.j ORDER BY p.hour, p.i, p.j
        $query$, relation, person) USING span, cell_m, about.holds, about.srid, by_hour IS TRUE, about, published.first_from(about, span),
        i_low, j_low, i_high, j_high, squares;
END
$$;
COMMENT ON FUNCTION published.density_of(published.releases, regclass, double precision, tstzrange, boolean, @postgis@.geometry) IS
'The answer of published.density from a relation with rows and their row of published.releases. With a box it answers only for the squares that have
a part of it.';

CREATE OR REPLACE FUNCTION published.density(
    release regclass, cell_m double precision, during tstzrange, by_hour boolean DEFAULT false)
RETURNS TABLE (hour timestamptz, cell @postgis@.geometry, at_least double precision, expected double precision, at_most double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
BEGIN
    RETURN QUERY SELECT * FROM published.density_of(about, release, cell_m, during, by_hour, NULL);
END
$$;
COMMENT ON FUNCTION published.density(regclass, double precision, tstzrange, boolean) IS
'Counts the people of a release in each square of a grid, on average over the instants of a span that it speaks of. People left out of the release
are not added. A square holds its lower edges, not its upper ones. Squares without people are not listed. The expected numbers of all squares
sum to the mean number of people published. Where the release holds at some time (published.releases), at_least and at_most are people seen in the
square during the span, as in published.count_inside. There, expected splits each record evenly over its rows in the span. The squares then sum to the
records, each of a person or, where day_zone is set, of one day of a person.
Arguments:
- release: the view, such as ''published.cabs_june''.
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
Example: SELECT * FROM published.density(''published.ten'', 50, ''[2008-06-04 08:00Z,2008-06-04 09:00Z)'').';

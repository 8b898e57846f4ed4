-- Who is inside an area.
--
-- Functions that are put into a reader's statement have no search_path of their own: they name the schema of their operators.

CREATE OR REPLACE FUNCTION published_inner.fitted_region(region @postgis@.geometry, srid integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF region IS NULL OR @postgis@.ST_IsEmpty(region) THEN
        RETURN @postgis@.ST_SetSRID(region, srid);
    END IF;
    RETURN published_inner.projected(published_inner.checked_area(region), @postgis@.ST_Perimeter(region) / 100, srid, srid);
END
$$;
COMMENT ON FUNCTION published_inner.fitted_region IS
'A region in another coordinate system, its edges followed at short steps. It refuses what is no polygon or has no place there.';

CREATE OR REPLACE FUNCTION published_inner.in_system(region @postgis@.geometry, srid integer) RETURNS @postgis@.geometry
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT CASE WHEN @postgis@.ST_SRID(region) OPERATOR(pg_catalog.=) srid
                     AND @postgis@.GeometryType(region) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON'])
                     AND @postgis@.ST_Area(region) OPERATOR(pg_catalog.<) 'Infinity' THEN region
                ELSE published_inner.fitted_region(region, srid) END
$$;
COMMENT ON FUNCTION published_inner.in_system IS 'A region in another coordinate system. It refuses what is no polygon.';

CREATE OR REPLACE FUNCTION published_inner.covered_share(area @postgis@.geometry, region @postgis@.geometry) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    -- An area is clipped to a rectangle ten times as fast as two polygons are intersected.
    SELECT CASE WHEN NOT area OPERATOR(@postgis@.&&) region THEN 0  -- an empty area, too, of which clipping makes NULL
        WHEN @postgis@.ST_SRID(area) OPERATOR(pg_catalog.<>) @postgis@.ST_SRID(region)
            OR NOT (@postgis@.ST_Area(area) OPERATOR(pg_catalog.<) 'Infinity' AND @postgis@.ST_Area(region) OPERATOR(pg_catalog.<) 'Infinity'
                    AND @postgis@.GeometryType(area) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON'])
                    AND @postgis@.GeometryType(region) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON']))
        THEN @postgis@.ST_Area(published_inner.checked_area(area)) OPERATOR(pg_catalog.+) @postgis@.ST_Area(published_inner.checked_area(region))
            OPERATOR(pg_catalog.+) published_inner.refuse_projection(@postgis@.ST_SRID(region))::text::double precision  -- one of them refuses
        WHEN @postgis@.ST_Covers(area, region) THEN 1
        WHEN @postgis@.ST_Area(region) OPERATOR(pg_catalog.=) 0 THEN 0  -- a line or point, of which not all is covered
        WHEN region IS NOT NULL THEN least(0.999999999, CASE WHEN @postgis@.ST_Area(region) OPERATOR(pg_catalog.=) @postgis@.ST_Area(@postgis@.ST_Envelope(region))
                                  THEN @postgis@.ST_Area(@postgis@.ST_ClipByBox2D(area, region::@postgis@.box2d))
                                  WHEN @postgis@.ST_IsValid(region) THEN @postgis@.ST_Area(@postgis@.ST_Intersection(published_inner.checked_area(area), region))
                                  ELSE @postgis@.ST_Area(published_inner.checked_area(region)) END OPERATOR(pg_catalog./) @postgis@.ST_Area(region)) END
$$;
COMMENT ON FUNCTION published_inner.covered_share IS 'The share of a region that an area of the same system covers: 1 only where it covers all.';

CREATE OR REPLACE FUNCTION published_inner.find_rectangle(shape @postgis@.geometry) RETURNS double precision[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN @postgis@.ST_Area(shape) > 0 AND @postgis@.ST_Area(shape) < 'Infinity' AND @postgis@.ST_Area(shape) = @postgis@.ST_Area(@postgis@.ST_Envelope(shape))
            THEN ARRAY[@postgis@.ST_XMin(shape), @postgis@.ST_YMin(shape), @postgis@.ST_XMax(shape), @postgis@.ST_YMax(shape)] END;
COMMENT ON FUNCTION published_inner.find_rectangle IS 'The least and the greatest coordinates of a rectangle. NULL of any other shape.';

CREATE OR REPLACE FUNCTION published_inner.covered_rectangle(area double precision[], region double precision[]) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- An overlap of 1e-100 is none: PostgreSQL refuses products that are too small.
RETURN CASE WHEN area[1] <= region[1] AND area[2] <= region[2] AND area[3] >= region[3] AND area[4] >= region[4] THEN 1
            ELSE LEAST((GREATEST(LEAST(area[3], region[3]) - GREATEST(area[1], region[1]), 1e-100) - 1e-100)
                     * (GREATEST(LEAST(area[4], region[4]) - GREATEST(area[2], region[2]), 1e-100) - 1e-100)
                     / ((region[3] - region[1]) * (region[4] - region[2])), 0.999999999) END;
COMMENT ON FUNCTION published_inner.covered_rectangle IS 'What published_inner.covered_share gives for two rectangles (published_inner.find_rectangle), far faster.';

CREATE OR REPLACE FUNCTION published.possibly_inside(region @postgis@.geometry, area @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT @postgis@.ST_Intersects(published_inner.checked_area(area), published_inner.in_system(region, @postgis@.ST_SRID(area)))
$$;
COMMENT ON FUNCTION published.possibly_inside IS
'Tells whether people of a region may be inside an area. That is so if the area meets the region.
Arguments:
- region: the column region of a release.
- area: a polygon in any coordinate system.
Returns: true or false.
Raises: DA011.
Example: SELECT count(*) FROM published.taxi_k5 WHERE published.possibly_inside(region, public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632)).';

CREATE OR REPLACE FUNCTION published.definitely_inside(region @postgis@.geometry, area @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT @postgis@.ST_Covers(published_inner.checked_area(area), published_inner.in_system(region, @postgis@.ST_SRID(area)))
$$;
COMMENT ON FUNCTION published.definitely_inside IS
'Tells whether all people of a region are inside an area. That is so if the area covers the region.
Arguments:
- region: the column region of a release.
- area: a polygon in any coordinate system.
Returns: true or false.
Raises: DA011.
Example: SELECT count(*) FROM published.taxi_k5 WHERE published.definitely_inside(region, public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632)).';

CREATE OR REPLACE FUNCTION published.expected_inside(region @postgis@.geometry, area @postgis@.geometry) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT published_inner.covered_share(published_inner.checked_area(area), published_inner.in_system(region, @postgis@.ST_SRID(area)))
$$;
COMMENT ON FUNCTION published.expected_inside IS
'Computes the share of a region that lies in an area. That is how likely each person of the row is inside, if people were spread evenly over the
region. This is an assumption and no promise.
Arguments:
- region: the column region of a release.
- area: a polygon in any coordinate system.
Returns: a number from 0 to 1.
Raises: DA011.
Example: SELECT sum(subjects * published.expected_inside(region, public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632))) FROM published.taxi_k5 WHERE valid_from =
''2026-01-05 08:00Z''.';

CREATE OR REPLACE FUNCTION published_inner.count_inside_of(
    about published.releases, relation regclass, area @postgis@.geometry, at timestamptz, during tstzrange, even boolean, mask @postgis@.geometry,
    OUT at_least bigint, OUT expected double precision, OUT at_most bigint, OUT deviation double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_nestloop = off  -- rows would be compared with all regions
AS $$
DECLARE
    about CONSTANT published.releases := published_inner.about_rows(count_inside_of.about, relation);
    fitted CONSTANT @postgis@.geometry := published_inner.fitted_area(area, about);
    -- A moment of rows that hold at some time: each person is at the last position of the last minutes.
    is_near CONSTANT boolean := at IS NOT NULL AND about.holds = 'some time';
    span tstzrange;
    covered record;
BEGIN
    IF (at IS NULL) = (during IS NULL) THEN
        RAISE EXCEPTION 'Exactly one of at and during must be given. Got %.', CASE WHEN at IS NULL THEN 'none' ELSE 'both' END
            USING ERRCODE = 'DA011', DETAIL = 'at is a moment, during a span of time.',
                  HINT = 'Write at => ''2026-01-05 08:00Z'', or during => tstzrange(''2026-01-05 08:00Z'', ''2026-01-05 09:00Z'').';
    END IF;
    span := published_inner.fitted_span(about, coalesce(during, tstzrange(at, at, '[]')));
    IF is_near THEN
        span := tstzrange(at - make_interval(secs => published_inner.near_s()), at, '[]');
    ELSE
        PERFORM published_inner.report_windows(about, span);
    END IF;
    covered := published_inner.cover_rows(about, relation, span, fitted, even, mask);
    EXECUTE format($query$
        -- Boxes alone choose the rows: the planner would take exact comparison for so dear that it looked into all indexes to spare some.
        WITH given AS MATERIALIZED (
            SELECT $7 AS sums, $9 AS masses  -- once: each mention of a parameter is a copy
        ), hit AS MATERIALIZED (
            -- Guests, who are in no crowd, may be absent.
            SELECT clo.record_id, clo.seq, clo.subjects, least(clo.crowd, clo.subjects) AS present, clo.crowd, clo.region, clo.valid_from,
                greatest(extract(epoch FROM least(clo.valid_to, upper($2)) - greatest(clo.valid_from, lower($2))), 0)::double precision AS seconds,
                $4 = 'instant' OR tstzrange(clo.valid_from, clo.valid_to) <@ $2 AS whole,
                extract(epoch FROM clo.valid_to - clo.valid_from)::double precision AS lasts_s,
                published_inner.phase_of($3, clo.valid_from, clo.valid_to) AS phase
            FROM %1$s clo
            WHERE clo.valid_from BETWEEN $5 AND upper($2) AND tstzrange(clo.valid_from, clo.valid_to) && $2 AND %2$s
        ), shape AS MATERIALIZED (
            -- Records alike have regions in common, of which each is looked at once; LATERAL, since a join would copy the sums for each.
            SELECT one.* FROM given CROSS JOIN LATERAL (
            SELECT own.region, own.crowd, cov.share, cov.share > 0 OR @postgis@.ST_Intersects($1, own.region) AS possibly,
                published_inner.share_inside(fac.factors, fac.covered, cov.share) AS chance
            FROM (SELECT reg.*, published_inner.find_corners($12, reg.box) AS corners, published_inner.find_corners($8, reg.box) AS frame_corners
                  FROM (SELECT one.*, published_inner.find_box($6, one.region) AS box
                        FROM (SELECT DISTINCT hit.region, hit.crowd FROM hit WHERE hit.region OPERATOR(@postgis@.&&) $1) one OFFSET 0) reg OFFSET 0) own
            CROSS JOIN LATERAL (SELECT published_inner.covered_share($1, own.region) AS share OFFSET 0) cov
            CROSS JOIN LATERAL (
                SELECT CASE WHEN cov.share > 0 AND cov.share < 1 THEN
                           published_inner.find_factors(published_inner.take_sums(given.sums, own.corners), own.crowd) END AS factors,
                    published_inner.take_sums(given.masses, own.frame_corners) AS covered OFFSET 0) fac OFFSET 0) one
        ), held AS MATERIALIZED (
            -- How likely a row has a position within the span: each person has one in most rows, and more in the longest.
            SELECT hit.*, CASE WHEN hit.whole THEN 1 ELSE least(0.999999,
                1 - exp(greatest(ln(greatest(1 - hit.seconds / hit.lasts_s, 1e-9)) * greatest(hit.lasts_s / (
                    SELECT greatest(published_inner.near_s(), percentile_disc(0.5) WITHIN GROUP (ORDER BY one.lasts_s)) FROM hit one), 1), -600))) END AS within
            FROM hit
        ), look AS MATERIALIZED (
            SELECT hit.*, coalesce(shape.share, 0) AS share, coalesce(shape.possibly, false) AS possibly, coalesce(shape.chance, 0) AS chance,
                ln(greatest(1 - coalesce(shape.chance, 0), 1e-9)) * hit.seconds AS rare,
                -- A person is at the last position before a moment: in a row, unless one that came later has it.
                CASE WHEN $11 THEN exp(coalesce(sum(ln(greatest(1 - hit.within, 1e-9))) OVER (
                    PARTITION BY hit.record_id ORDER BY hit.seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) ELSE 1 END AS unless
            FROM held hit LEFT JOIN shape ON shape.region OPERATOR(@postgis@.=) hit.region AND shape.crowd = hit.crowd
        ), person AS (
            -- Each record counts once: by the row that says most, and by looks at it that are so far apart that people may have moved.
            SELECT max(look.phase) AS phase, max(look.present) FILTER (WHERE look.share = 1 AND look.within = 1 AND NOT $11) AS surely,
                max(look.present + (look.subjects - look.present) * ($3).guest_presence) AS people,
                1 - (1 - CASE WHEN $11 THEN least(sum(look.chance * look.within * look.unless), 1) ELSE max(look.chance * look.within) END)
                    * exp(greatest(coalesce(sum(look.rare) FILTER (WHERE $13) - CASE WHEN $4 = 'instant' THEN min(look.rare) ELSE 0 END, 0) / $10, -600)) AS inside,
                max(look.chance) FILTER (WHERE look.seq = 1) AS first,
                max(look.subjects) FILTER (WHERE look.possibly) AS possibly
            FROM look GROUP BY look.record_id
        ), phase AS (
            SELECT person.phase, sum(person.surely) AS surely, sum(person.people * person.inside) AS inside,
                sum(person.people * person.inside * (1 - person.inside)) AS variance,
                -- Who is there when a phase begins was there in the one before.
                CASE WHEN person.phase > min(person.phase) OVER ()
                     THEN least(coalesce(sum(person.people * person.first), 0), sum(person.people * person.inside)) ELSE 0 END AS again,
                sum(person.possibly) AS possibly
            FROM person GROUP BY person.phase
        ), people AS (
            SELECT greatest(($3).people, max(phase.inside)) AS most FROM phase
        ), all_phases AS (
            SELECT max(phase.surely) FILTER (WHERE phase.phase IS NOT NULL) AS surely, max(phase.inside) AS inside, sum(phase.possibly) AS possibly,
                sum(phase.inside) AS inside_each, sum(phase.variance) AS variance,
                -- People who were elsewhere in one phase come in the next by chance.
                max(people.most) * (1 - exp(greatest(sum(ln(greatest(1 - (phase.inside - phase.again) / nullif(people.most - phase.again, 0), 1e-12))), -600))) AS anew
            FROM phase CROSS JOIN people
        )
        -- Records of two phases, or of none, may be the same people: at least those of one phase, at most those of all.
        SELECT coalesce(asp.surely, 0), exp.expected, least(coalesce(asp.possibly, 0), coalesce(($3).people, 9e15)),
            -- Each person is inside by a chance of its own. A span varies twice as much, as measured. The quarter rounds to whole numbers.
            sqrt(coalesce(CASE WHEN $13 THEN 2 ELSE 1 END * asp.variance * exp.expected / nullif(asp.inside_each, 0), 0) + 0.25)
        FROM all_phases asp CROSS JOIN LATERAL (
            SELECT greatest(asp.surely, least(greatest(asp.inside, asp.anew), coalesce(asp.possibly, 0), ($3).people), 0)::double precision AS expected) exp
        $query$, relation, CASE WHEN is_near THEN 'true' ELSE 'clo.region OPERATOR(@postgis@.&&) $1' END)
        INTO at_least, expected, at_most, deviation
        USING fitted, span, about, about.holds, published_inner.first_from(about, span), covered.grid, covered.sums, covered.frame, covered.masses,
            covered.stay_s, is_near, covered.whole, at IS NULL;  -- a moment is one look, however long its slot is
END
$$;
COMMENT ON FUNCTION published_inner.count_inside_of IS 'The answer of published.count_inside from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.count_inside(
    release regclass, area @postgis@.geometry, at timestamptz DEFAULT NULL, during tstzrange DEFAULT NULL, even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL, by_window boolean DEFAULT false)
RETURNS TABLE (at_least bigint, expected double precision, at_most bigint, low double precision, high double precision, since timestamptz)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT cou.at_least, cou.expected, cou.at_most, greatest(cou.at_least, cou.expected - off.off), least(cou.at_most, cou.expected + off.off), win.since
    FROM published.about(release) abo CROSS JOIN LATERAL published_inner.windows_of(abo, during, by_window) win
    CROSS JOIN LATERAL published_inner.count_inside_of(NULL, release, area, at, win.span, even, mask) cou
    CROSS JOIN LATERAL (SELECT 1.645 * abo.interval_factor * cou.deviation AS off) off
$$;
COMMENT ON FUNCTION published.count_inside IS
'Counts the people of a release that were inside an area, at a moment or during a span. People left out of the release (published.left_out) are not
added. The bounds hold for published positions: the last known ones at the instants with slots that meet the span. Where the release holds at some
time (published.releases), they hold for the fixes that its rows cover. A moment is then answered by the last row of each record in the five minutes
before, which may hold at any of them, so that no person is there for certain. Each record counts once. People may have a record in each window
(window_s), each day (day_zone) or each part (published.parts), and records of several may be of the same person. Then at_least is that of the greatest
window, day or part, at_most is the sum, and expected takes chance for who comes again.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- area: a polygon in any coordinate system.
- at: a moment. Give either at or during.
- during: a span, of which the part that the release speaks of counts.
- even: spread people evenly over their regions.
- mask: where people can be, such as streets.
- by_window: answer for each window, day or part of the span by itself.
Returns: one row, or one a window.
- at_least: the lower bound.
- expected: the number if people are where the release''s surface (published.surfaces) has them.
- at_most: the upper bound.
- low: nine in ten numbers are between this,
- high: and this.
- since: the beginning of the window, NULL unless by_window is true.
Raises: DA001, DA011.
Example: SELECT * FROM published.count_inside(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632), at => ''2026-01-05 08:00Z'').';

CREATE OR REPLACE FUNCTION published.compare_counts(
    release regclass, area @postgis@.geometry, at timestamptz DEFAULT NULL, during tstzrange DEFAULT NULL, other_release regclass DEFAULT NULL,
    other_area @postgis@.geometry DEFAULT NULL, other_at timestamptz DEFAULT NULL, other_during tstzrange DEFAULT NULL,
    mask @postgis@.geometry DEFAULT NULL,
    OUT expected double precision, OUT other_expected double precision, OUT difference double precision, OUT low double precision,
    OUT high double precision)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT one.expected, two.expected, two.expected - one.expected, two.expected - one.expected - off.off, two.expected - one.expected + off.off
    FROM published.about(release) abo CROSS JOIN published.about(coalesce(other_release, release)) oth
    CROSS JOIN published_inner.count_inside_of(NULL, release, area, at, during, false, mask) one
    CROSS JOIN published_inner.count_inside_of(
        NULL, coalesce(other_release, release), coalesce(other_area, area),
        CASE WHEN other_during IS NULL THEN coalesce(other_at, at) ELSE other_at END,
        CASE WHEN other_at IS NULL THEN coalesce(other_during, during) ELSE other_during END, false, mask) two
    CROSS JOIN LATERAL (
        SELECT 1.645 * sqrt((abo.interval_factor * one.deviation) ^ 2 + (oth.interval_factor * two.deviation) ^ 2) AS off) off
$$;
COMMENT ON FUNCTION published.compare_counts IS
'Compares two counts of people (published.count_inside): of two times, two areas or two releases. An argument of the other count that is not given is that of the first.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- area: a polygon in any coordinate system.
- at: a moment. Give either at or during.
- during: a span.
- other_release: another view.
- other_area: another polygon.
- other_at: another moment.
- other_during: another span.
- mask: where people can be, such as streets.
Returns: one row, never NULL.
- expected: the first number.
- other_expected: the other one.
- difference: by how much the other is greater.
- low: nine in ten differences are between this,
- high: and this.
Raises: DA001, DA011.
Example: SELECT * FROM published.compare_counts(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632), at => ''2026-01-05 08:00Z'',
other_at => ''2026-01-05 08:20Z'').';

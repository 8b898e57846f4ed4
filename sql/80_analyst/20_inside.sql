-- Who is inside an area.
--
-- Functions that are put into a reader's statement have no search_path of their own: they name the schema of their operators.

CREATE OR REPLACE FUNCTION published.fitted_region(region @postgis@.geometry, srid integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF region IS NULL OR @postgis@.ST_IsEmpty(region) THEN
        RETURN @postgis@.ST_SetSRID(region, srid);
    END IF;
    RETURN published.projected(published.checked_area(region), @postgis@.ST_Perimeter(region) / 100, srid, srid);
END
$$;
COMMENT ON FUNCTION published.fitted_region IS
'A region in another coordinate system, its edges followed at short steps. It refuses what is no polygon or has no place there.';

CREATE OR REPLACE FUNCTION published.in_system(region @postgis@.geometry, srid integer) RETURNS @postgis@.geometry
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT CASE WHEN @postgis@.ST_SRID(region) OPERATOR(pg_catalog.=) srid
                     AND @postgis@.GeometryType(region) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON'])
                     AND @postgis@.ST_Area(region) OPERATOR(pg_catalog.<) 'Infinity' THEN region
                ELSE published.fitted_region(region, srid) END
$$;
COMMENT ON FUNCTION published.in_system IS 'A region in another coordinate system. It refuses what is no polygon.';

CREATE OR REPLACE FUNCTION published.covered_share(area @postgis@.geometry, region @postgis@.geometry) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    -- An area is clipped to a rectangle ten times as fast as two polygons are intersected.
    SELECT CASE WHEN NOT area OPERATOR(@postgis@.&&) region THEN 0  -- an empty area, too, of which clipping makes NULL
        WHEN @postgis@.ST_SRID(area) OPERATOR(pg_catalog.<>) @postgis@.ST_SRID(region)
            OR NOT (@postgis@.ST_Area(area) OPERATOR(pg_catalog.<) 'Infinity' AND @postgis@.ST_Area(region) OPERATOR(pg_catalog.<) 'Infinity'
                    AND @postgis@.GeometryType(area) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON'])
                    AND @postgis@.GeometryType(region) OPERATOR(pg_catalog.=) ANY (ARRAY['POLYGON', 'MULTIPOLYGON']))
        THEN @postgis@.ST_Area(published.checked_area(area)) OPERATOR(pg_catalog.+) @postgis@.ST_Area(published.checked_area(region))
            OPERATOR(pg_catalog.+) published.refuse_projection(@postgis@.ST_SRID(region))::text::double precision  -- one of them refuses
        WHEN @postgis@.ST_Covers(area, region) THEN 1
        WHEN @postgis@.ST_Area(region) OPERATOR(pg_catalog.=) 0 THEN 0  -- a line or point, of which not all is covered
        WHEN region IS NOT NULL THEN least(0.999999999, CASE WHEN @postgis@.ST_Area(region) OPERATOR(pg_catalog.=) @postgis@.ST_Area(@postgis@.ST_Envelope(region))
                                  THEN @postgis@.ST_Area(@postgis@.ST_ClipByBox2D(area, region::@postgis@.box2d))
                                  WHEN @postgis@.ST_IsValid(region) THEN @postgis@.ST_Area(@postgis@.ST_Intersection(published.checked_area(area), region))
                                  ELSE @postgis@.ST_Area(published.checked_area(region)) END OPERATOR(pg_catalog./) @postgis@.ST_Area(region)) END
$$;
COMMENT ON FUNCTION published.covered_share IS 'The share of a region that an area of the same system covers: 1 only where it covers all.';

CREATE OR REPLACE FUNCTION published.possibly_inside(region @postgis@.geometry, area @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
AS $$
    SELECT @postgis@.ST_Intersects(published.checked_area(area), published.in_system(region, @postgis@.ST_SRID(area)))
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
    SELECT @postgis@.ST_Covers(published.checked_area(area), published.in_system(region, @postgis@.ST_SRID(area)))
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
    SELECT published.covered_share(published.checked_area(area), published.in_system(region, @postgis@.ST_SRID(area)))
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

CREATE OR REPLACE FUNCTION published.count_inside_of(
    about published.releases, relation regclass, area @postgis@.geometry, at timestamptz, during tstzrange,
    OUT at_least bigint, OUT expected double precision, OUT at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about_rows(count_inside_of.about, relation);
    fitted CONSTANT @postgis@.geometry := published.fitted_area(area, about);
    span tstzrange;
BEGIN
    IF (at IS NULL) = (during IS NULL) THEN
        RAISE EXCEPTION 'Exactly one of at and during must be given. Got %.', CASE WHEN at IS NULL THEN 'none' ELSE 'both' END
            USING ERRCODE = 'DA011', DETAIL = 'at is a moment, during a span of time.',
                  HINT = 'Write at => ''2026-01-05 08:00Z'', or during => tstzrange(''2026-01-05 08:00Z'', ''2026-01-05 09:00Z'').';
    END IF;
    IF at IS NOT NULL THEN
        PERFORM published.demand_rows(about, 'A number at one time', some_time => false, one_moment => true);
    END IF;
    span := published.fitted_span(about, coalesce(during, tstzrange(at, at, '[]')));
    EXECUTE format($query$
        -- Boxes alone choose the rows: the planner would take exact comparison for so dear that it looked into all indexes to spare some.
        WITH hit AS MATERIALIZED (
            -- Guests, who are in no crowd, may be absent.
            SELECT clo.record_id, clo.subjects, least(clo.crowd, clo.subjects) AS present, clo.region, published.covered_share($1, clo.region) AS share,
                CASE WHEN $4 = 'instant' OR clo.period <@ $2 THEN 1
                     ELSE extract(epoch FROM upper(clo.period * $2) - lower(clo.period * $2))
                         / extract(epoch FROM clo.valid_to - clo.valid_from) END AS within,
                published.phase_of($3, clo.valid_from, clo.valid_to) AS phase
            FROM %s clo
            WHERE clo.valid_from BETWEEN $5 AND upper($2) AND clo.period && $2 AND clo.region OPERATOR(@postgis@.&&) $1
        ), person AS (
            -- Each record counts once, by the row that says most.
            SELECT max(hit.phase) AS phase, max(hit.present) FILTER (WHERE hit.share = 1 AND hit.within = 1) AS surely,
                max((hit.present + (hit.subjects - hit.present) * ($3).guest_presence) * hit.share * hit.within) AS expectedly,
                max(hit.subjects) AS possibly
            FROM hit WHERE hit.share > 0 OR @postgis@.ST_Intersects($1, hit.region) GROUP BY hit.record_id
        ), people AS (
            SELECT person.phase, sum(person.surely) AS surely, sum(person.expectedly) AS expectedly, sum(person.possibly) AS possibly FROM person
            GROUP BY person.phase
        )
        -- Records of two phases, or of none, may be the same people: at least those of one phase, at most those of all.
        SELECT coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0), coalesce(max(people.expectedly), 0),
            coalesce(sum(people.possibly), 0) FROM people
        $query$, relation)
        INTO at_least, expected, at_most USING fitted, span, about, about.holds, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.count_inside_of IS 'The answer of published.count_inside from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.count_inside(
    release regclass, area @postgis@.geometry, at timestamptz DEFAULT NULL, during tstzrange DEFAULT NULL,
    OUT at_least bigint, OUT expected double precision, OUT at_most bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published.count_inside_of(NULL, release, area, at, during)
$$;
COMMENT ON FUNCTION published.count_inside IS
'Counts the people of a release that were inside an area, at a moment or during a span. People left out of the release (published.left_out) are not
added. The bounds hold for published positions: the last known ones at the instants with slots that meet the span. Where the release holds at some
time (published.releases), they hold for the fixes that its rows cover. Each record counts once. People may have a record in each window (window_s),
each day (day_zone) or each part (published.parts), and records of several may be of the same person. Then at_least and expected are those of the
greatest window, day or part, and at_most is the sum.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- area: a polygon in any coordinate system.
- at: a moment. It must be NULL where the release holds at some time. Give either at or during.
- during: a span, of which the part that the release speaks of counts.
Returns: one row, never NULL.
- at_least: the lower bound.
- expected: the number if people were spread evenly over their regions, which is an assumption.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.count_inside(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632), at => ''2026-01-05 08:00Z'').';

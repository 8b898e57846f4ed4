-- What the rows of a record say together: from where to where, across a line, how long.

CREATE OR REPLACE FUNCTION published_inner.read_zones(zones regclass, zone_id name, OUT names text[], OUT areas @postgis@.geometry[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns CONSTANT text[] := ARRAY(
        SELECT att.attname FROM pg_attribute att
        WHERE att.attrelid = zones AND att.atttypid = '@postgis@.geometry'::regtype AND att.attnum > 0 AND NOT att.attisdropped);
BEGIN
    IF cardinality(columns) IS DISTINCT FROM 1 OR NOT EXISTS (
        SELECT FROM pg_attribute att WHERE att.attrelid = zones AND att.attname = zone_id AND att.attnum > 0 AND NOT att.attisdropped) THEN
        RAISE EXCEPTION 'Zones must be a table or view with one column of geometries and the column named by zone_id. Got %, with % such, and %.',
                coalesce(zones::text, 'NULL'), cardinality(columns), coalesce(quote_ident(zone_id), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Rows of one id are one zone.',
                  HINT = 'CREATE TEMPORARY TABLE zones AS SELECT name, geom FROM ...';
    END IF;
    EXECUTE format('SELECT array_agg(t.%1$I::text), array_agg(t.%2$I) FROM %3$s t WHERE t.%1$I IS NOT NULL', zone_id, columns[1], zones) INTO names, areas;
END
$$;
COMMENT ON FUNCTION published_inner.read_zones IS 'The names and areas of a table. It refuses a table without them.';

CREATE OR REPLACE FUNCTION published_inner.fitted_zones(about published.releases, INOUT names text[], INOUT areas @postgis@.geometry[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fault CONSTANT text := CASE
        WHEN (cardinality(names) > 0 AND cardinality(names) = cardinality(areas)) IS NOT TRUE
        THEN format('names: %s, areas: %s', coalesce(cardinality(names), 0), coalesce(cardinality(areas), 0))
        WHEN EXISTS (SELECT FROM unnest(names) nam WHERE nam IS NULL) THEN 'a name that is NULL' END;
    overlapping bigint;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'Zones must have a name and an area each. Got %.', fault
            USING ERRCODE = 'DA011', DETAIL = 'Areas of one name are one zone.', HINT = 'Give the areas in the order of their names.';
    END IF;
    SELECT array_agg(zon.name ORDER BY zon.name), array_agg(zon.area ORDER BY zon.name) INTO names, areas
        FROM (SELECT one.name, @postgis@.ST_Union(published_inner.fitted_area(one.area, about)) AS area
              FROM unnest(names, areas) one (name, area) GROUP BY one.name) zon;
    SELECT count(*) INTO overlapping
        FROM unnest(areas) WITH ORDINALITY one (area, n)
        JOIN unnest(areas) WITH ORDINALITY other (area, n) ON one.n < other.n AND @postgis@.ST_Intersects(one.area, other.area)
        -- A border that two zones share, in another system, is transformed to two that differ by rounding.
        WHERE @postgis@.ST_Area(@postgis@.ST_Intersection(one.area, other.area))
            > 1e-6 * least(@postgis@.ST_Area(one.area), @postgis@.ST_Area(other.area));
    IF overlapping > 0 THEN
        RAISE NOTICE 'Pairs of zones that overlap: %. Each zone is answered for itself, and sums over zones count people twice.', overlapping;
    END IF;
END
$$;
COMMENT ON FUNCTION published_inner.fitted_zones IS
'Zones in the coordinate system of a release, one area for each name. It refuses others, and a notice says where they overlap.';

CREATE OR REPLACE FUNCTION published_inner.flows_of(
    about published.releases, relation regclass, names text[], areas @postgis@.geometry[], during tstzrange, even boolean,
    mask @postgis@.geometry)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_nestloop = off
AS $$
DECLARE
    about CONSTANT published.releases := published_inner.about_rows(flows_of.about, relation);
    span tstzrange;
    zones record;
    surface published_inner.surface;
BEGIN
    PERFORM published_inner.demand_rows(about, 'A flow', some_time => true, one_moment => false);
    span := published_inner.fitted_span(about, during);
    zones := published_inner.fitted_zones(about, names, areas);
    PERFORM published_inner.report_windows(about, span);
    surface := published_inner.find_surface(about, relation, span, even, mask);
    RETURN QUERY EXECUTE format($query$
        WITH given AS MATERIALIZED (
            SELECT $9 AS sums  -- once: each mention of a parameter is a copy
        ), zone AS MATERIALIZED (
            -- Half: on taxis and in a town as many are then in their zone again as there are.
            SELECT zone.id, zone.area, published_inner.find_rectangle(zone.area) AS rectangle, cov.frame, cov.masses, published_inner.stay_s($7, zone.area, ($5).step_s) / 2 AS stay_s
            FROM unnest($2, $3) zone (id, area) LEFT JOIN LATERAL (
                SELECT cov.* FROM published_inner.cover($7, zone.area, false) cov WHERE $8 IS NOT NULL) cov ON true
            WHERE NOT @postgis@.ST_IsEmpty(zone.area)
        ), seen AS (
            SELECT clo.record_id, clo.region, clo.crowd, least(clo.crowd, clo.subjects) AS present, greatest(clo.subjects - clo.crowd, 0) AS guests,
                clo.valid_from, clo.valid_to, $4 = 'instant' OR clo.valid_from >= lower($1) AND clo.valid_to <= upper($1) AS whole,
                row_number() OVER (PARTITION BY clo.record_id ORDER BY clo.seq) AS ahead,
                row_number() OVER (PARTITION BY clo.record_id ORDER BY clo.seq DESC) AS behind
            FROM %1$s clo JOIN (
                SELECT one.record_id, min(one.seq) AS first, max(one.seq) AS last
                FROM %1$s one WHERE one.valid_from >= $6 AND one.valid_from < upper($1) AND one.valid_to > lower($1)
                GROUP BY one.record_id) ends ON ends.record_id = clo.record_id
            WHERE clo.valid_from >= $6 AND clo.valid_from < upper($1) AND clo.valid_to > lower($1)
                -- No other row says where people began and ended who are there at each instant.
                AND ($4 <> 'instant' OR clo.seq = ends.first OR clo.seq = ends.last OR clo.subjects > clo.crowd)
        ), ranked AS (
            -- A row that reaches beyond the span may have no fix within it: the first fix of the span is in the first row that lies within
            -- it, or in one before; where no row does, in any or none.
            SELECT seen.*, min(seen.ahead) FILTER (WHERE seen.whole) OVER w AS first_whole,
                min(seen.behind) FILTER (WHERE seen.whole) OVER w AS last_whole,
                count(*) OVER w AS rows,
                greatest(extract(epoch FROM least(max(seen.valid_to) OVER w, upper($1)) - greatest(min(seen.valid_from) OVER w, lower($1)))
                    - coalesce(($5).step_s, 0), 0)::double precision AS seconds
            FROM seen WINDOW w AS (PARTITION BY seen.record_id)
        ), candidate AS (
            SELECT true AS first, ranked.*, coalesce(ranked.first_whole, ranked.rows) AS candidates FROM ranked
            WHERE ranked.ahead <= coalesce(ranked.first_whole, ranked.ahead)
            UNION ALL
            SELECT false, ranked.*, coalesce(ranked.last_whole, ranked.rows) FROM ranked
            WHERE ranked.behind <= coalesce(ranked.last_whole, ranked.behind)
        ), place AS MATERIALIZED (  -- here, since groups are sorted, and sums with them where they are needed later
            SELECT one.* FROM given CROSS JOIN LATERAL (
                SELECT own.*, published_inner.find_factors(published_inner.take_sums(given.sums, own.corners), own.crowd) AS factors
                FROM (SELECT box.*, published_inner.find_corners($10, box.box) AS corners
                      FROM (SELECT can.*, published_inner.find_box($8, can.region) AS box, published_inner.find_rectangle(can.region) AS rectangle
                            FROM candidate can WHERE EXISTS (SELECT FROM zone WHERE zone.area OPERATOR(@postgis@.&&) can.region) OFFSET 0) box OFFSET 0) own OFFSET 0) one
        ), met AS (
            SELECT pla.first, pla.record_id, zone.id, max(published_inner.phase_of($5, pla.valid_from, pla.valid_to)) AS phase,
                max(pla.present) AS present, max(pla.guests) AS guests,
                bool_and(pla.first_whole IS NOT NULL AND cov.share = 1) AND count(*) = max(pla.candidates) AS surely,
                sum(cov.chance) / max(pla.candidates) AS share,
                exp(-least(max(pla.seconds) / max(zone.stay_s), 100)) AS stays
            FROM place pla JOIN zone ON zone.area OPERATOR(@postgis@.&&) pla.region
            CROSS JOIN LATERAL (
                SELECT eve.share, published_inner.share_inside(pla.factors, eve.covered, eve.share) AS chance
                FROM (SELECT cor.share, CASE WHEN cor.share > 0 AND cor.share < 1 THEN published_inner.take_sums(zone.masses, cor.corners) END AS covered
                      FROM (SELECT CASE WHEN pla.rectangle IS NOT NULL AND zone.rectangle IS NOT NULL
                                        THEN published_inner.covered_rectangle(zone.rectangle, pla.rectangle)
                                        ELSE published_inner.covered_share(zone.area, pla.region) END AS share,
                                published_inner.find_corners(zone.frame, pla.box) AS corners OFFSET 0) cor OFFSET 0) eve OFFSET 0) cov
            WHERE cov.share > 0 OR @postgis@.ST_Intersects(zone.area, pla.region)
            GROUP BY pla.first, pla.record_id, zone.id
        ), stayed AS (
            -- People who stay in a zone are there first and last. All others are last where people are, wherever they were first.
            SELECT met.*, CASE WHEN count(*) OVER w = 2 THEN met.stays * min(met.share) OVER w ELSE 0 END AS stayed
            FROM met WINDOW w AS (PARTITION BY met.record_id, met.id)
        ), moving AS MATERIALIZED (
            SELECT sta.*, 1 - sum(sta.stayed) OVER (PARTITION BY sta.record_id, sta.first) AS moving FROM stayed sta
        ), stay AS MATERIALIZED (
            -- A guest may come in any row and go in any later one.
            SELECT ran.record_id, zone.id, min(ran.ahead) AS first, max(ran.ahead) AS last, max(ran.guests) AS guests
            FROM ranked ran JOIN zone ON @postgis@.ST_Intersects(zone.area, ran.region) WHERE ran.guests > 0 GROUP BY ran.record_id, zone.id
        ), people AS (
            SELECT orig.id AS origin, dest.id AS destination, greatest(orig.phase, dest.phase) AS phase,
                sum(orig.present) FILTER (WHERE orig.surely AND dest.surely) AS surely,
                -- Where zones overlap, shares sum to more than 1: no pair is more likely than one of its ends, or less than both must be.
                sum((orig.present + orig.guests * ($5).guest_presence) * least(orig.share, dest.share, greatest(orig.share + dest.share - 1,
                    CASE WHEN orig.id = dest.id THEN orig.stayed ELSE 0 END
                    + CASE WHEN orig.moving > 1e-9 THEN (orig.share - orig.stayed) * (dest.share - dest.stayed) / orig.moving ELSE 0 END))) AS expectedly,
                sum(orig.present) AS possibly
            FROM moving orig JOIN moving dest ON dest.record_id = orig.record_id
            WHERE orig.first AND NOT dest.first GROUP BY orig.id, dest.id, 3
            UNION ALL
            SELECT orig.id, dest.id, NULL, NULL, 0, sum(orig.guests)
            FROM stay orig JOIN stay dest ON dest.record_id = orig.record_id AND dest.last >= orig.first GROUP BY orig.id, dest.id
        )
        SELECT people.origin, people.destination, coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0)::bigint,
            sum(people.expectedly)::float8, sum(people.possibly)::bigint
        FROM people GROUP BY people.origin, people.destination ORDER BY people.origin, people.destination
        $query$, relation) USING span, zones.names, zones.areas, about.holds, about, published_inner.first_from(about, span), surface,
            published_inner.grid_of(surface), surface.sums, ARRAY[0, 0, surface.columns, surface.rows];
END
$$;
COMMENT ON FUNCTION published_inner.flows_of IS 'The answer of published.flows from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.flows(
    release regclass, zones regclass, zone_id name, during tstzrange, even boolean DEFAULT false, mask @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT flo.* FROM published_inner.read_zones(zones, zone_id) zon, published_inner.flows_of(NULL, release, zon.names, zon.areas, during, even, mask) flo
$$;
COMMENT ON FUNCTION published.flows IS
'Counts the people of a release that began a span in one zone and ended it in another, by the first and the last row of each record in the span.
People left out of the release are not added. A flow is no longer than a record. Where people have a record in each window (window_s in
published.releases), each day (day_zone) or each part, each person has a flow in every one: so ask about a span within one. Over several, at_least is
that of the greatest window, day or part, and expected and at_most are sums of all. Pairs of zones without people are not listed. People outside all
zones are not listed, either.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- zones: a table or view with one column of polygons, in any coordinate system.
- zone_id: the column with the names of the zones.
- during: a span.
- even: spread people evenly over their regions, instead of by the surface of the release (published.surfaces).
- mask: where people can be, such as streets.
Returns: one row a pair of zones.
- origin: the zone of the first row.
- destination: the zone of the last row.
- at_least: the lower bound.
- expected: the number if people were where the surface has them, stayed longer in larger zones, and else went anywhere alike.
- at_most: the upper bound.
Raises: DA001, DA011. A notice says where zones overlap.
Example: SELECT * FROM published.flows(''published.taxi_k5'', ''zones'', ''name'', ''[2026-01-05 08:00Z,2026-01-05 08:30Z)'').';

CREATE OR REPLACE FUNCTION published.flows_between(
    release regclass, names text[], areas @postgis@.geometry[], during tstzrange, even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published_inner.flows_of(NULL, release, names, areas, during, even, mask)
$$;
COMMENT ON FUNCTION published.flows_between IS
'Answers as flows does, from zones in two arrays instead of a table, such as a dashboard can give.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- names: the names of the zones. Areas of one name are one zone.
- areas: their polygons in the same order, in any coordinate system.
- during: a span.
- even: spread people evenly over their regions.
- mask: where people can be, such as streets.
Returns: one row a pair of zones.
- origin: the zone of the first row.
- destination: the zone of the last row.
- at_least: the lower bound.
- expected: the number that flows expects.
- at_most: the upper bound.
Raises: DA001, DA011. A notice says where zones overlap.
Example: SELECT * FROM published.flows_between(''published.taxi_k5'', ARRAY[''west'', ''east''], ARRAY[public.ST_MakeEnvelope(446000, 5888000, 446500,
5888500, 32632), public.ST_MakeEnvelope(446500, 5888000, 447000, 5888500, 32632)], ''[2026-01-05 08:00Z,2026-01-05 08:30Z)'').';

CREATE OR REPLACE FUNCTION published_inner.fitted_line(line @postgis@.geometry, about published.releases) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    around record;
BEGIN
    IF line IS NULL OR @postgis@.ST_SRID(line) = 0 OR @postgis@.GeometryType(@postgis@.ST_Force2D(line)) NOT IN ('LINESTRING', 'MULTILINESTRING')
        OR (@postgis@.ST_Length(line) = 0 AND NOT @postgis@.ST_IsEmpty(line)) THEN
        RAISE EXCEPTION 'A line must be a linestring or multilinestring with an SRID and a length. Got %.',
                CASE WHEN line IS NULL THEN 'NULL' WHEN @postgis@.ST_SRID(line) = 0 THEN 'a geometry without an SRID'
                     WHEN @postgis@.GeometryType(@postgis@.ST_Force2D(line)) IN ('LINESTRING', 'MULTILINESTRING') THEN 'a point'
                     ELSE 'a ' || @postgis@.GeometryType(line) END
            USING ERRCODE = 'DA011', DETAIL = 'Left and right are those of its direction.',
                  HINT = 'ST_MakeLine makes a line of two points, ST_Boundary one of an area.';
    END IF;
    IF @postgis@.ST_SRID(line) = about.srid OR @postgis@.ST_IsEmpty(line) OR about.extent IS NULL THEN
        RETURN @postgis@.ST_SetSRID(@postgis@.ST_Force2D(line), about.srid);
    END IF;
    SELECT sur.box, sur.step INTO around FROM published_inner.surroundings(about, @postgis@.ST_SRID(line)) sur;
    -- Steps that stay straight within a centimetre are joined again: each edge is compared with each move near the line.
    RETURN @postgis@.ST_Simplify(published_inner.projected(
        @postgis@.ST_ClipByBox2D(@postgis@.ST_Force2D(line), around.box::@postgis@.box2d), around.step, about.srid, @postgis@.ST_SRID(line)), 0.01, true);
END
$$;
COMMENT ON FUNCTION published_inner.fitted_line IS
'A line in the coordinate system of a release, in two dimensions. For a line in another system it returns the part near the release. It refuses a line
without length.';

CREATE OR REPLACE FUNCTION published.crossings(
    release regclass, line @postgis@.geometry, during tstzrange, mask @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (direction text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
    fitted CONSTANT @postgis@.geometry := published_inner.fitted_line(line, about);
    span tstzrange;
BEGIN
    PERFORM published_inner.demand_rows(about, 'A crossing', some_time => true, one_moment => false);
    span := published_inner.fitted_span(about, during);
    PERFORM published_inner.report_windows(about, span);
    RETURN QUERY EXECUTE format($query$
        WITH part AS MATERIALIZED (
            SELECT line.path[1] AS part, line.geom, @postgis@.ST_StartPoint(line.geom) AS start, @postgis@.ST_EndPoint(line.geom) AS finish
            FROM @postgis@.ST_Dump(@postgis@.ST_Multi($2)) line
        ), edge AS MATERIALIZED (
            SELECT * FROM (
                SELECT part.part, @postgis@.ST_X(point.geom) AS px, @postgis@.ST_Y(point.geom) AS py,
                    lead(@postgis@.ST_X(point.geom)) OVER w - @postgis@.ST_X(point.geom) AS dx,
                    lead(@postgis@.ST_Y(point.geom)) OVER w - @postgis@.ST_Y(point.geom) AS dy,
                    @postgis@.ST_MakeLine(point.geom, lead(point.geom) OVER w) AS geom
                FROM part CROSS JOIN LATERAL @postgis@.ST_DumpPoints(part.geom) point WINDOW w AS (PARTITION BY part.part ORDER BY point.path)) edge
            WHERE edge.dx <> 0 OR edge.dy <> 0
        ), seen AS (
            SELECT clo.record_id, least(clo.crowd, clo.subjects) AS people, greatest(clo.subjects - clo.crowd, 0) AS guests, clo.region,
                clo.valid_from, clo.valid_to, $3 = 'instant' OR clo.valid_from >= lower($1) AND clo.valid_to <= upper($1) AS whole,
                -- Several positions in one row: at some time of it, or at successive instants that were joined.
                $3 = 'some time' OR extract(epoch FROM clo.valid_to - clo.valid_from) > $5 AS several,
                lead(clo.region) OVER w AS next_region, lead($3 = 'instant' OR clo.valid_from >= lower($1) AND clo.valid_to <= upper($1)) OVER w AS next_whole
            FROM %s clo WHERE clo.valid_from >= $6 AND clo.valid_from < upper($1) AND clo.valid_to > lower($1)
            WINDOW w AS (PARTITION BY clo.record_id ORDER BY clo.seq)
        ), move AS (
            SELECT seen.record_id, seen.valid_from, seen.valid_to, false AS of_guests, seen.people, seen.guests, seen.region AS a, seen.next_region AS b,
                seen.whole AND seen.next_whole AS whole
            FROM seen WHERE seen.next_region IS NOT NULL
            UNION ALL
            SELECT seen.record_id, seen.valid_from, seen.valid_to, false, seen.people, seen.guests, seen.region, seen.region, false
            FROM seen WHERE seen.several
            UNION ALL
            -- The next position of a guest may be in any later row: all of its ways are in the hull of all rows.
            SELECT seen.record_id, min(seen.valid_from), max(seen.valid_to), true, max(seen.guests), 0, @postgis@.ST_Collect(seen.region),
                @postgis@.ST_Collect(seen.region), false
            FROM seen WHERE seen.guests > 0 GROUP BY seen.record_id HAVING count(*) > 1 OR bool_or(seen.several)
        ), near AS MATERIALIZED (
            SELECT row_number() OVER () AS move, move.record_id, published_inner.phase_of($4, move.valid_from, move.valid_to) AS phase, move.of_guests,
                move.people, CASE WHEN move.of_guests THEN 0 ELSE move.people + move.guests * ($4).guest_presence END AS usual, move.whole, area.hull,
                @postgis@.ST_ConvexHull(move.a) AS a, @postgis@.ST_ConvexHull(move.b) AS b
            FROM move CROSS JOIN LATERAL (SELECT @postgis@.ST_ConvexHull(@postgis@.ST_Collect(move.a, move.b)) AS hull) area
            WHERE @postgis@.ST_Intersects($2, area.hull)
        ), corner AS (
            -- How far left of an edge of the line the boxes around both regions reach, and how far right.
            SELECT near.move,
                edge.dx * (CASE WHEN edge.dx > 0 THEN @postgis@.ST_YMax(near.a) ELSE @postgis@.ST_YMin(near.a) END - edge.py)
                    - edge.dy * (CASE WHEN edge.dy > 0 THEN @postgis@.ST_XMin(near.a) ELSE @postgis@.ST_XMax(near.a) END - edge.px) AS a_left,
                edge.dx * (CASE WHEN edge.dx > 0 THEN @postgis@.ST_YMin(near.a) ELSE @postgis@.ST_YMax(near.a) END - edge.py)
                    - edge.dy * (CASE WHEN edge.dy > 0 THEN @postgis@.ST_XMax(near.a) ELSE @postgis@.ST_XMin(near.a) END - edge.px) AS a_right,
                edge.dx * (CASE WHEN edge.dx > 0 THEN @postgis@.ST_YMax(near.b) ELSE @postgis@.ST_YMin(near.b) END - edge.py)
                    - edge.dy * (CASE WHEN edge.dy > 0 THEN @postgis@.ST_XMin(near.b) ELSE @postgis@.ST_XMax(near.b) END - edge.px) AS b_left,
                edge.dx * (CASE WHEN edge.dx > 0 THEN @postgis@.ST_YMin(near.b) ELSE @postgis@.ST_YMax(near.b) END - edge.py)
                    - edge.dy * (CASE WHEN edge.dy > 0 THEN @postgis@.ST_XMax(near.b) ELSE @postgis@.ST_XMin(near.b) END - edge.px) AS b_right
            FROM near JOIN edge ON @postgis@.ST_Intersects(edge.geom, near.hull)
        ), possible AS (
            -- To cross an edge from left to right takes a position left of it, and a next one right of it.
            SELECT corner.move, bool_or(corner.a_left >= 0 AND corner.b_right <= 0) AS rightwards,
                bool_or(corner.a_right <= 0 AND corner.b_left >= 0) AS leftwards
            FROM corner GROUP BY corner.move
        ), firm AS (
            -- Segments from any position of one region to any of the next can be moved into one another without leaving the hull. While neither
            -- end meets a part of the line, and no end of that part is in the hull, crossings come and go in pairs of both directions: all segments
            -- cross it as often, counted with signs, as the one between the centres.
            SELECT near.move, part.part FROM near JOIN part ON @postgis@.ST_Intersects(part.geom, near.hull)
            WHERE near.whole AND NOT @postgis@.ST_Intersects(part.geom, near.a) AND NOT @postgis@.ST_Intersects(part.geom, near.b)
                AND (@postgis@.ST_IsClosed(part.geom)
                    OR NOT (@postgis@.ST_Intersects(part.start, near.hull) OR @postgis@.ST_Intersects(part.finish, near.hull)))
        ), way AS MATERIALIZED (
            -- From 25 positions, of which the middle one is in the hull, to those at the same place in the next box: people of a record move together.
            -- Nobody is outside a mask. Else all are as likely: by the surface, crossings of taxis are off by 0.27 of them instead of 0.15.
            SELECT way.*, CASE WHEN $7 IS NULL OR @postgis@.ST_Intersects($7, @postgis@.ST_SetSRID(@postgis@.ST_MakePoint(way.ax, way.ay), ($4).srid))
                               THEN 1 ELSE 1e-9 END::float8 AS weight
            FROM (SELECT near.move, near.hull, num.n, @postgis@.ST_XMin(near.a) + pos.u * (@postgis@.ST_XMax(near.a) - @postgis@.ST_XMin(near.a)) AS ax,
                @postgis@.ST_YMin(near.a) + pos.v * (@postgis@.ST_YMax(near.a) - @postgis@.ST_YMin(near.a)) AS ay,
                @postgis@.ST_XMin(near.b) + pos.u * (@postgis@.ST_XMax(near.b) - @postgis@.ST_XMin(near.b)) AS bx,
                @postgis@.ST_YMin(near.b) + pos.v * (@postgis@.ST_YMax(near.b) - @postgis@.ST_YMin(near.b)) AS by
            FROM near CROSS JOIN generate_series(0, 24) num (n) CROSS JOIN LATERAL (SELECT num.n %% 5 / 5.0 + 0.1 AS u, num.n / 5 / 5.0 + 0.1 AS v) pos
            WHERE NOT near.of_guests OFFSET 0) way
        ), side AS (
            SELECT way.move, way.n, edge.part, edge.dx * (way.ay - edge.py) - edge.dy * (way.ax - edge.px) > 0 AS a_left,
                edge.dx * (way.by - edge.py) - edge.dy * (way.bx - edge.px) > 0 AS b_left,
                (way.bx - way.ax) * (edge.py - way.ay) - (way.by - way.ay) * (edge.px - way.ax) >= 0 AS p_left,
                (way.bx - way.ax) * (edge.py + edge.dy - way.ay) - (way.by - way.ay) * (edge.px + edge.dx - way.ax) >= 0 AS q_left
            FROM way JOIN edge ON edge.geom OPERATOR(@postgis@.&&) way.hull
        ), net AS (
            SELECT side.move, side.n, side.part, bool_or(side.a_left) AS rightwards, bool_or(side.b_left) AS leftwards,
                sum(CASE WHEN side.a_left THEN 1 ELSE -1 END) AS net
            FROM side WHERE side.a_left <> side.b_left AND side.p_left <> side.q_left GROUP BY side.move, side.n, side.part
        ), certain AS (
            SELECT net.move, bool_or(net.net > 0) AS rightwards, bool_or(net.net < 0) AS leftwards
            FROM net JOIN firm ON firm.move = net.move AND firm.part = net.part WHERE net.n = 12 GROUP BY net.move
        ), likely AS (
            SELECT way.move, sum(way.weight) FILTER (WHERE met.rightwards) / sum(way.weight) AS rightwards,
                sum(way.weight) FILTER (WHERE met.leftwards) / sum(way.weight) AS leftwards
            FROM way LEFT JOIN (SELECT net.move, net.n, bool_or(net.rightwards) AS rightwards, bool_or(net.leftwards) AS leftwards
                                FROM net GROUP BY net.move, net.n) met ON met.move = way.move AND met.n = way.n GROUP BY way.move
        ), person AS (
            SELECT max(near.phase) AS phase, way.direction, max(near.people) AS people, max(near.usual) AS usual,
                sum(CASE way.direction WHEN 'left to right' THEN likely.rightwards ELSE likely.leftwards END) AS likely,
                bool_or(CASE way.direction WHEN 'left to right' THEN certain.rightwards ELSE certain.leftwards END) AS surely,
                bool_or(CASE way.direction WHEN 'left to right' THEN possible.rightwards ELSE possible.leftwards END) AS possibly
            FROM near LEFT JOIN possible ON possible.move = near.move LEFT JOIN certain ON certain.move = near.move
            LEFT JOIN likely ON likely.move = near.move
            CROSS JOIN unnest(ARRAY['left to right', 'right to left']) way (direction)
            GROUP BY way.direction, near.record_id, near.of_guests
        ), people AS (
            SELECT person.direction, person.phase, sum(person.people) FILTER (WHERE person.surely) AS surely,
                sum(person.usual * CASE WHEN person.surely THEN 1 ELSE least(coalesce(person.likely, 0), 1) END) FILTER (WHERE person.possibly) AS expectedly,
                sum(person.people) FILTER (WHERE person.possibly) AS possibly
            FROM person GROUP BY person.direction, person.phase
        )
        SELECT way.direction, coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0)::bigint,
            coalesce(sum(people.expectedly), 0)::float8, coalesce(sum(people.possibly), 0)::bigint
        FROM unnest(ARRAY['left to right', 'right to left']) way (direction) LEFT JOIN people ON people.direction = way.direction
        GROUP BY way.direction ORDER BY way.direction
        $query$, release) USING span, fitted, about.holds, about, about.step_s, published_inner.first_from(about, span),
            published_inner.fitted_mask(about, release, span, mask);
END
$$;
COMMENT ON FUNCTION published.crossings IS
'Counts the people of a release that crossed a line during a span, by direction. Each counts once a direction. People left out of the release are not
added. Movement is straight between successive positions of a person that are published, or fixes that rows cover. Nothing is claimed of the time
between them. At least: the people of records where all ways from the region of one row to that of the next cross the line. At most: the
people of records with such a way. Where people have a record in each window (window_s in published.releases), each day (day_zone) or each part, ways
end there, too. Then at_least is that of the greatest window, day or part, and expected and at_most are sums of all.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- line: a line in any coordinate system. Left and right are those of its direction.
- during: a span.
- mask: where people can be, such as streets.
Returns: one row a direction.
- direction: ''left to right'' or ''right to left''.
- at_least: the lower bound.
- expected: the number if people were spread evenly over their regions, and moved with them: from the middle of one to that of the next.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.crossings(''published.taxi_k5'', public.ST_SetSRID(public.ST_MakeLine(public.ST_MakePoint(446000, 5888000), public.ST_MakePoint(446000,
5889000)), 32632), ''[2026-01-05 08:00Z,2026-01-05 08:30Z)'').';

CREATE OR REPLACE FUNCTION published_inner.dwell_of(
    about published.releases, relation regclass, area @postgis@.geometry, during tstzrange, even boolean, mask @postgis@.geometry)
RETURNS TABLE (
    record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint, ever double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published_inner.about_rows(dwell_of.about, relation);
    fitted @postgis@.geometry;
    span tstzrange;
    covered record;
BEGIN
    PERFORM published_inner.demand_rows(about, 'Dwelling', some_time => false, one_moment => false);
    fitted := published_inner.fitted_area(area, about);
    span := published_inner.fitted_span(about, during);
    covered := published_inner.cover_rows(about, relation, span, fitted, even, mask);
    RETURN QUERY EXECUTE format($query$
        WITH given AS MATERIALIZED (
            SELECT $7 AS sums, $9 AS masses  -- once: each mention of a parameter is a copy
        ), found AS MATERIALIZED (
            SELECT DISTINCT clo.record_id FROM %1$s clo
            WHERE clo.valid_from >= $4 AND clo.valid_from < upper($2) AND clo.valid_to > lower($2) AND clo.region OPERATOR(@postgis@.&&) $1
        ), seen AS MATERIALIZED (
            SELECT clo.record_id, least(clo.crowd, clo.subjects) AS subjects, greatest(clo.subjects - clo.crowd, 0) AS guests, clo.crowd, clo.region,
                round(extract(epoch FROM least(clo.valid_to, upper($2)) - greatest(clo.valid_from, lower($2))) / $3)::bigint AS instants,
                CASE WHEN clo.region OPERATOR(@postgis@.&&) $1 THEN published_inner.covered_share($1, clo.region) ELSE 0 END AS share,
                published_inner.find_box($6, clo.region) AS box
            FROM %1$s clo WHERE clo.record_id IN (SELECT found.record_id FROM found)
                AND clo.valid_from >= $4 AND clo.valid_from < upper($2) AND clo.valid_to > lower($2)
        ), look AS MATERIALIZED (
            SELECT seen.*, published_inner.share_inside(fac.factors, fac.covered, seen.share) AS chance
            FROM given CROSS JOIN LATERAL (
                SELECT seen.*, published_inner.find_corners($11, seen.box) AS corners, published_inner.find_corners($8, seen.box) AS frame_corners
                FROM seen OFFSET 0) seen
            CROSS JOIN LATERAL (
                SELECT CASE WHEN seen.share > 0 AND seen.share < 1 THEN
                           published_inner.find_factors(published_inner.take_sums(given.sums, seen.corners), seen.crowd) END AS factors,
                    published_inner.take_sums(given.masses, seen.frame_corners) AS covered OFFSET 0) fac
        ), told AS (
            SELECT look.record_id, max(look.subjects) AS subjects, max(look.guests) AS guests, sum(look.instants) AS instants,
                coalesce(sum(look.instants) FILTER (WHERE look.share = 1), 0)::bigint AS surely,
                sum(look.instants * look.chance)::float8 AS expectedly,
                sum(look.instants) FILTER (WHERE look.share > 0 OR @postgis@.ST_Intersects($1, look.region)) AS possibly,
                -- Looks that are less apart than people stay say the same.
                1 - (1 - coalesce(max(look.chance) FILTER (WHERE look.share < 1), 0)) * exp(greatest(
                    coalesce(sum(ln(greatest(1 - look.chance, 1e-9)) * look.instants) FILTER (WHERE look.share < 1), 0) * $3 / $10, -100)) AS ever
            FROM look GROUP BY look.record_id
        )
        SELECT told.record_id, who.subjects, told.instants::bigint, who.surely, who.expectedly, told.possibly::bigint,
            told.ever * who.presence
        FROM told CROSS JOIN LATERAL (
            VALUES (told.subjects, told.surely, told.expectedly, 1), (told.guests, 0, told.expectedly * $5, $5)) who (subjects, surely, expectedly, presence)
        WHERE told.possibly > 0 AND who.subjects > 0 ORDER BY told.record_id, who.presence DESC
        $query$, relation) USING fitted, span, about.step_s, published_inner.first_from(about, span), about.guest_presence, covered.grid, covered.sums,
            covered.frame, covered.masses, covered.stay_s, covered.whole;
END
$$;
COMMENT ON FUNCTION published_inner.dwell_of IS
'The answer of published.dwell from a relation with rows and their row of published.releases;
ever: how likely a person was inside at an instant that is not certain.';

CREATE OR REPLACE FUNCTION published.dwell(
    release regclass, area @postgis@.geometry, during tstzrange DEFAULT '[-infinity,infinity)', even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT dwe.record_id, dwe.subjects, dwe.instants, dwe.surely, dwe.expectedly, dwe.possibly
    FROM published_inner.dwell_of(NULL, release, area, during, even, mask) dwe
$$;
COMMENT ON FUNCTION published.dwell IS
'Counts the instants at which each person of a release was inside an area, record by record. Only records that may have been inside are listed. A
record can say no more than its length. Where records end with a window (window_s in published.releases) or a part, a person with a longer stay is in
several records, which are not connected. Compare the counts with instants.
Arguments:
- release: the view of a release that holds at instants.
- area: a polygon in any coordinate system.
- during: a span. Default: all of the release.
- even: spread people evenly over their regions, instead of by the surface of the release (published.surfaces).
- mask: where people can be, such as streets.
Returns: one row a record, and one more for its guests, if it has any: nothing says at which instants they are there.
- record_id: the record.
- subjects: the people whom the row is about. The counts hold for each of them.
- instants: how many instants of the record are in the span, step_s apart.
- surely: at how many of them the person was inside for certain.
- expectedly: at how many of them, if people were where the surface has them, which is an assumption.
- possibly: at how many of them the person may have been inside.
Raises: DA001, DA011.
Example: SELECT * FROM published.dwell(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632)).';

CREATE OR REPLACE FUNCTION published.stays(
    release regclass, area @postgis@.geometry, minimum interval, during tstzrange DEFAULT '[-infinity,infinity)', even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL, OUT at_least bigint, OUT expected double precision, OUT at_most bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(dwe.subjects) FILTER (WHERE dwe.surely >= min.instants), 0),
        coalesce(sum(dwe.subjects * CASE
            WHEN dwe.surely >= min.instants THEN 1 WHEN dwe.possibly < min.instants THEN 0
            -- Of those who were inside at any instant that is not certain, the more instants the fewer were at them, by a power that keeps the mean.
            WHEN odd.mean > 0 THEN odd.ever * exp(greatest(ln((dwe.possibly - min.instants + 1) / odd.open) * (odd.ever * odd.open / odd.mean - 1), -100))
            ELSE 0 END), 0),
        coalesce(sum(dwe.subjects) FILTER (WHERE dwe.possibly >= min.instants), 0)
    FROM published.about(release) abo CROSS JOIN LATERAL (SELECT greatest(ceil(extract(epoch FROM minimum) / abo.step_s), 1) AS instants OFFSET 0) min
    CROSS JOIN LATERAL published_inner.report_windows(abo, during)
    CROSS JOIN published_inner.dwell_of(NULL, release, area, during, even, mask) dwe
    CROSS JOIN LATERAL (SELECT dwe.possibly - dwe.surely::double precision AS open, dwe.expectedly - dwe.surely AS mean) ope
    CROSS JOIN LATERAL (SELECT ope.*, greatest(dwe.ever, ope.mean / nullif(ope.open, 0)) AS ever) odd
$$;
COMMENT ON FUNCTION published.stays IS
'Counts the people of a release that were inside an area for a time, in one piece or several. A stay is no longer than a record: people with a record in
each window, day or part count in every one.
Arguments:
- release: the view of a release that holds at instants.
- area: a polygon in any coordinate system.
- minimum: how long at least.
- during: a span. Default: all of the release.
- even: spread people evenly over their regions, instead of by the surface of the release (published.surfaces).
- mask: where people can be, such as streets.
Returns: one row, never NULL.
- at_least: the lower bound.
- expected: the number if people were where the surface has them, and longer stays were rarer by a power law.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.stays(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632), ''10 minutes'').';

CREATE OR REPLACE FUNCTION published.person_minutes(
    release regclass, area @postgis@.geometry, during tstzrange DEFAULT '[-infinity,infinity)', even boolean DEFAULT false,
    mask @postgis@.geometry DEFAULT NULL, OUT at_least double precision, OUT expected double precision, OUT at_most double precision)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(per.weight * dwe.surely), 0), coalesce(sum(per.weight * dwe.expectedly), 0), coalesce(sum(per.weight * dwe.possibly), 0)
    FROM published_inner.dwell_of(NULL, release, area, during, even, mask) dwe
    CROSS JOIN LATERAL (SELECT dwe.subjects * (published.about(release)).step_s / 60.0::double precision AS weight) per
$$;
COMMENT ON FUNCTION published.person_minutes IS
'Sums the minutes that all people of a release were inside an area. Windows and parts may be summed: no minute counts twice.
Arguments:
- release: the view of a release that holds at instants.
- area: a polygon in any coordinate system.
- during: a span. Default: all of the release.
- even: spread people evenly over their regions, instead of by the surface of the release (published.surfaces).
- mask: where people can be, such as streets.
Returns: one row, never NULL.
- at_least: the lower bound.
- expected: the sum if people were where the surface has them, which is an assumption.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.person_minutes(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632)).';

-- What the rows of a record say together: from where to where, across a line, how long.

CREATE OR REPLACE FUNCTION published.fitted_zones(
    zones regclass, zone_id name, about published.releases, OUT ids text[], OUT areas @postgis@.geometry[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns CONSTANT text[] := ARRAY(
        SELECT att.attname FROM pg_attribute att
        WHERE att.attrelid = zones AND att.atttypid = '@postgis@.geometry'::regtype AND att.attnum > 0 AND NOT att.attisdropped);
    overlapping bigint;
BEGIN
    IF cardinality(columns) IS DISTINCT FROM 1 OR NOT EXISTS (
        SELECT FROM pg_attribute att WHERE att.attrelid = zones AND att.attname = zone_id AND att.attnum > 0 AND NOT att.attisdropped) THEN
        RAISE EXCEPTION 'Zones must be a table or view with one column of geometries and the column named by zone_id. Got %, with % such, and %.',
                coalesce(zones::text, 'NULL'), cardinality(columns), coalesce(quote_ident(zone_id), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Rows of one id are one zone.',
                  HINT = 'CREATE TEMPORARY TABLE zones AS SELECT name, geom FROM ...';
    END IF;
    EXECUTE format('SELECT array_agg(z.id ORDER BY z.id), array_agg(z.area ORDER BY z.id) '
        'FROM (SELECT t.%I::text AS id, @postgis@.ST_Union(published.fitted_area(t.%I, $1)) AS area FROM %s t GROUP BY 1) z WHERE z.id IS NOT NULL',
        zone_id, columns[1], zones) INTO ids, areas USING about;
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
COMMENT ON FUNCTION published.fitted_zones IS
'The zones of a table in the coordinate system of a release, one area for each id. A notice says where they overlap.';

CREATE OR REPLACE FUNCTION published.flows_of(
    about published.releases, relation regclass, zones regclass, zone_id name, during tstzrange)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about_rows(flows_of.about, relation);
    span tstzrange;
    zone record;
BEGIN
    PERFORM published.demand_rows(about, 'A flow', some_time => true, one_moment => false);
    span := published.fitted_span(about, during);
    SELECT zon.ids, zon.areas INTO zone FROM published.fitted_zones(zones, zone_id, about) zon;
    RETURN QUERY EXECUTE format($query$
        WITH zone AS MATERIALIZED (
            SELECT zone.id, zone.area FROM unnest($2, $3) zone (id, area)
        ), seen AS (
            SELECT clo.record_id, clo.region, least(clo.crowd, clo.subjects) AS present, greatest(clo.subjects - clo.crowd, 0) AS guests,
                clo.valid_from, clo.valid_to, $4 = 'instant' OR clo.period <@ $1 AS whole,
                row_number() OVER (PARTITION BY clo.record_id ORDER BY clo.seq) AS ahead,
                row_number() OVER (PARTITION BY clo.record_id ORDER BY clo.seq DESC) AS behind
            FROM %s clo WHERE clo.valid_from BETWEEN $6 AND upper($1) AND clo.period && $1
        ), ranked AS (
            -- A row that reaches beyond the span may have no fix within it: the first fix of the span is in the first row that lies within
            -- it, or in one before; where no row does, in any or none.
            SELECT seen.*, min(seen.ahead) FILTER (WHERE seen.whole) OVER w AS first_whole,
                min(seen.behind) FILTER (WHERE seen.whole) OVER w AS last_whole,
                count(*) OVER w AS rows
            FROM seen WINDOW w AS (PARTITION BY seen.record_id)
        ), candidate AS (
            SELECT true AS first, ranked.*, coalesce(ranked.first_whole, ranked.rows) AS candidates FROM ranked
            WHERE ranked.ahead <= coalesce(ranked.first_whole, ranked.ahead)
            UNION ALL
            SELECT false, ranked.*, coalesce(ranked.last_whole, ranked.rows) FROM ranked
            WHERE ranked.behind <= coalesce(ranked.last_whole, ranked.behind)
        ), met AS (
            SELECT can.first, can.record_id, zone.id, max(published.phase_of($5, can.valid_from, can.valid_to)) AS phase,
                max(can.present) AS present, max(can.guests) AS guests,
                bool_and(can.first_whole IS NOT NULL AND cov.covered) AND count(*) = max(can.candidates) AS surely,
                sum(published.covered_share(zone.area, can.region)) / max(can.candidates) AS share
            FROM candidate can JOIN zone ON @postgis@.ST_Intersects(zone.area, can.region)
            CROSS JOIN LATERAL (SELECT @postgis@.ST_Covers(zone.area, can.region) AS covered) cov
            GROUP BY can.first, can.record_id, zone.id
        ), stay AS MATERIALIZED (
            -- A guest may come in any row and go in any later one.
            SELECT ran.record_id, zone.id, min(ran.ahead) AS first, max(ran.ahead) AS last, max(ran.guests) AS guests
            FROM ranked ran JOIN zone ON @postgis@.ST_Intersects(zone.area, ran.region) WHERE ran.guests > 0 GROUP BY ran.record_id, zone.id
        ), people AS (
            SELECT orig.id AS origin, dest.id AS destination, greatest(orig.phase, dest.phase) AS phase,
                sum(orig.present) FILTER (WHERE orig.surely AND dest.surely) AS surely,
                sum((orig.present + orig.guests * ($5).guest_presence) * orig.share * dest.share) AS expectedly, sum(orig.present) AS possibly
            FROM met orig JOIN met dest ON dest.record_id = orig.record_id
            WHERE orig.first AND NOT dest.first GROUP BY orig.id, dest.id, 3
            UNION ALL
            SELECT orig.id, dest.id, NULL, NULL, 0, sum(orig.guests)
            FROM stay orig JOIN stay dest ON dest.record_id = orig.record_id AND dest.last >= orig.first GROUP BY orig.id, dest.id
        )
        SELECT people.origin, people.destination, coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0)::bigint,
            max(people.expectedly)::float8, sum(people.possibly)::bigint
        FROM people GROUP BY people.origin, people.destination ORDER BY people.origin, people.destination
        $query$, relation) USING span, zone.ids, zone.areas, about.holds, about, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.flows_of IS 'The answer of published.flows from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.flows(release regclass, zones regclass, zone_id name, during tstzrange)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published.flows_of(NULL, release, zones, zone_id, during)
$$;
COMMENT ON FUNCTION published.flows IS
'Counts the people of a release that began a span in one zone and ended it in another, by the first and the last row of each record in the span.
People left out of the release are not added. A flow is no longer than a record. Where people have a record in each window (window_s in
published.releases), each day (day_zone) or each part, each person has a flow in every one. Then at_least and expected are those of the greatest
window, day or part, and at_most is the sum. Pairs of zones without people are not listed. People outside all zones are not listed, either.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- zones: a table or view with one column of polygons, in any coordinate system.
- zone_id: the column with the names of the zones.
- during: a span.
Returns: one row a pair of zones.
- origin: the zone of the first row.
- destination: the zone of the last row.
- at_least: the lower bound.
- expected: the number if people were spread evenly over their regions and went anywhere alike, which are assumptions.
- at_most: the upper bound.
Raises: DA001, DA011. A notice says where zones overlap.
Example: SELECT * FROM published.flows(''published.taxi_k5'', ''zones'', ''name'', ''[2026-01-05 08:00Z,2026-01-05 09:00Z)'').';

CREATE OR REPLACE FUNCTION published.fitted_line(line @postgis@.geometry, about published.releases) RETURNS @postgis@.geometry
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
    SELECT sur.box, sur.step INTO around FROM published.surroundings(about, @postgis@.ST_SRID(line)) sur;
    -- Steps that stay straight within a centimetre are joined again: each edge is compared with each move near the line.
    RETURN @postgis@.ST_Simplify(published.projected(
        @postgis@.ST_ClipByBox2D(@postgis@.ST_Force2D(line), around.box::@postgis@.box2d), around.step, about.srid, @postgis@.ST_SRID(line)), 0.01, true);
END
$$;
COMMENT ON FUNCTION published.fitted_line IS
'A line in the coordinate system of a release, in two dimensions. For a line in another system it returns the part near the release. It refuses a line
without length.';

CREATE OR REPLACE FUNCTION published.crossings(release regclass, line @postgis@.geometry, during tstzrange)
RETURNS TABLE (direction text, at_least bigint, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
    fitted CONSTANT @postgis@.geometry := published.fitted_line(line, about);
    span tstzrange;
BEGIN
    PERFORM published.demand_rows(about, 'A crossing', some_time => true, one_moment => false);
    span := published.fitted_span(about, during);
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
            SELECT clo.record_id, least(clo.crowd, clo.subjects) AS people, greatest(clo.subjects - clo.crowd, 0) AS guests, clo.region, clo.valid_from,
                clo.valid_to, $3 = 'instant' OR clo.period <@ $1 AS whole,
                -- Several positions in one row: at some time of it, or at successive instants that were joined.
                $3 = 'some time' OR extract(epoch FROM clo.valid_to - clo.valid_from) > $5 AS several,
                lead(clo.region) OVER w AS next_region, lead($3 = 'instant' OR clo.period <@ $1) OVER w AS next_whole
            FROM %s clo WHERE clo.valid_from BETWEEN $6 AND upper($1) AND clo.period && $1 WINDOW w AS (PARTITION BY clo.record_id ORDER BY clo.seq)
        ), move AS (
            SELECT seen.record_id, seen.valid_from, seen.valid_to, false AS of_guests, seen.people, seen.region AS a, seen.next_region AS b,
                seen.whole AND seen.next_whole AS whole
            FROM seen WHERE seen.next_region IS NOT NULL
            UNION ALL
            SELECT seen.record_id, seen.valid_from, seen.valid_to, false, seen.people, seen.region, seen.region, false FROM seen WHERE seen.several
            UNION ALL
            -- The next position of a guest may be in any later row: all of its ways are in the hull of all rows.
            SELECT seen.record_id, min(seen.valid_from), max(seen.valid_to), true, max(seen.guests), @postgis@.ST_Collect(seen.region),
                @postgis@.ST_Collect(seen.region), false
            FROM seen WHERE seen.guests > 0 GROUP BY seen.record_id HAVING count(*) > 1 OR bool_or(seen.several)
        ), near AS MATERIALIZED (
            SELECT row_number() OVER () AS move, move.record_id, published.phase_of($4, move.valid_from, move.valid_to) AS phase, move.of_guests, move.people,
                move.whole, area.hull,
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
            SELECT near.move, part.part, @postgis@.ST_X(@postgis@.ST_Centroid(near.a)) AS ax, @postgis@.ST_Y(@postgis@.ST_Centroid(near.a)) AS ay,
                @postgis@.ST_X(@postgis@.ST_Centroid(near.b)) AS bx, @postgis@.ST_Y(@postgis@.ST_Centroid(near.b)) AS by
            FROM near JOIN part ON @postgis@.ST_Intersects(part.geom, near.hull)
            WHERE near.whole AND NOT @postgis@.ST_Intersects(part.geom, near.a) AND NOT @postgis@.ST_Intersects(part.geom, near.b)
                AND (@postgis@.ST_IsClosed(part.geom)
                    OR NOT (@postgis@.ST_Intersects(part.start, near.hull) OR @postgis@.ST_Intersects(part.finish, near.hull)))
        ), side AS (
            SELECT firm.move, firm.part, edge.dx * (firm.ay - edge.py) - edge.dy * (firm.ax - edge.px) > 0 AS a_left,
                edge.dx * (firm.by - edge.py) - edge.dy * (firm.bx - edge.px) > 0 AS b_left,
                (firm.bx - firm.ax) * (edge.py - firm.ay) - (firm.by - firm.ay) * (edge.px - firm.ax) >= 0 AS p_left,
                (firm.bx - firm.ax) * (edge.py + edge.dy - firm.ay) - (firm.by - firm.ay) * (edge.px + edge.dx - firm.ax) >= 0 AS q_left
            FROM firm JOIN edge ON edge.part = firm.part
        ), net AS (
            SELECT side.move, side.part,
                sum(CASE WHEN side.a_left = side.b_left OR side.p_left = side.q_left THEN 0 WHEN side.a_left THEN 1 ELSE -1 END) AS net
            FROM side GROUP BY side.move, side.part
        ), certain AS (
            SELECT net.move, bool_or(net.net > 0) AS rightwards, bool_or(net.net < 0) AS leftwards FROM net GROUP BY net.move
        ), person AS (
            SELECT max(near.phase) AS phase, way.direction, max(near.people) AS people,
                bool_or(CASE way.direction WHEN 'left to right' THEN certain.rightwards ELSE certain.leftwards END) AS surely,
                bool_or(CASE way.direction WHEN 'left to right' THEN possible.rightwards ELSE possible.leftwards END) AS possibly
            FROM near LEFT JOIN possible ON possible.move = near.move LEFT JOIN certain ON certain.move = near.move
            CROSS JOIN unnest(ARRAY['left to right', 'right to left']) way (direction)
            GROUP BY way.direction, near.record_id, near.of_guests
        ), people AS (
            SELECT person.direction, person.phase, sum(person.people) FILTER (WHERE person.surely) AS surely,
                sum(person.people) FILTER (WHERE person.possibly) AS possibly
            FROM person GROUP BY person.direction, person.phase
        )
        SELECT way.direction, coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0)::bigint,
            coalesce(sum(people.possibly), 0)::bigint
        FROM unnest(ARRAY['left to right', 'right to left']) way (direction) LEFT JOIN people ON people.direction = way.direction
        GROUP BY way.direction ORDER BY way.direction
        $query$, release) USING span, fitted, about.holds, about, about.step_s, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.crossings IS
'Counts the people of a release that crossed a line during a span, by direction. Each counts once a direction. People left out of the release are not
added. Movement is straight between successive positions of a person that are published, or fixes that rows cover. Nothing is claimed of the time
between them. At least: the people of records where all ways from the region of one row to that of the next cross the line. At most: the
people of records with such a way. Where people have a record in each window (window_s in published.releases), each day (day_zone) or each part, ways
end there, too. Then at_least is that of the greatest window, day or part, and at_most is the sum.
Arguments:
- release: the view, such as ''published.taxi_k5''.
- line: a line in any coordinate system. Left and right are those of its direction.
- during: a span.
Returns: one row a direction.
- direction: ''left to right'' or ''right to left''.
- at_least: the lower bound.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.crossings(''published.taxi_k5'', public.ST_SetSRID(public.ST_MakeLine(public.ST_MakePoint(446000, 5888000), public.ST_MakePoint(446000,
5889000)), 32632), ''[2026-01-05 08:00Z,2026-01-05 09:00Z)'').';

CREATE OR REPLACE FUNCTION published.dwell_of(about published.releases, relation regclass, area @postgis@.geometry, during tstzrange)
RETURNS TABLE (record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about_rows(dwell_of.about, relation);
    fitted @postgis@.geometry;
    span tstzrange;
BEGIN
    PERFORM published.demand_rows(about, 'Dwelling', some_time => false, one_moment => false);
    fitted := published.fitted_area(area, about);
    span := published.fitted_span(about, during);
    RETURN QUERY EXECUTE format($query$
        WITH found AS MATERIALIZED (
            SELECT DISTINCT clo.record_id FROM %1$s clo
            WHERE clo.valid_from BETWEEN $4 AND upper($2) AND clo.period && $2 AND clo.region OPERATOR(@postgis@.&&) $1
        ), seen AS MATERIALIZED (
            SELECT clo.record_id, least(clo.crowd, clo.subjects) AS subjects, greatest(clo.subjects - clo.crowd, 0) AS guests, clo.region,
                round(extract(epoch FROM upper(clo.period * $2) - lower(clo.period * $2)) / $3)::bigint AS instants,
                CASE WHEN clo.region OPERATOR(@postgis@.&&) $1 THEN published.covered_share($1, clo.region) ELSE 0 END AS share
            FROM %1$s clo WHERE clo.record_id IN (SELECT found.record_id FROM found) AND clo.valid_from BETWEEN $4 AND upper($2) AND clo.period && $2
        ), told AS (
            SELECT seen.record_id, max(seen.subjects) AS subjects, max(seen.guests) AS guests, sum(seen.instants) AS instants,
                sum(seen.instants) FILTER (WHERE seen.share = 1) AS surely,
                sum(seen.instants * seen.share) AS expectedly,
                sum(seen.instants) FILTER (WHERE seen.share > 0 OR @postgis@.ST_Intersects($1, seen.region)) AS possibly
            FROM seen GROUP BY seen.record_id
        )
        SELECT told.record_id, who.subjects, told.instants::bigint, who.surely, told.expectedly::float8 * who.presence, told.possibly::bigint
        FROM told CROSS JOIN LATERAL (VALUES (told.subjects, coalesce(told.surely, 0)::bigint, 1), (told.guests, 0, $5)) who (subjects, surely, presence)
        WHERE told.possibly > 0 AND who.subjects > 0 ORDER BY told.record_id, who.presence DESC
        $query$, relation) USING fitted, span, about.step_s, published.first_from(about, span), about.guest_presence;
END
$$;
COMMENT ON FUNCTION published.dwell_of IS 'The answer of published.dwell from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.dwell(release regclass, area @postgis@.geometry, during tstzrange DEFAULT '[-infinity,infinity)')
RETURNS TABLE (record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM published.dwell_of(NULL, release, area, during)
$$;
COMMENT ON FUNCTION published.dwell IS
'Counts the instants at which each person of a release was inside an area, record by record. Only records that may have been inside are listed. A
record can say no more than its length. Where records end with a window (window_s in published.releases) or a part, a person with a longer stay is in
several records, which are not connected. Compare the counts with instants.
Arguments:
- release: the view of a release that holds at instants.
- area: a polygon in any coordinate system.
- during: a span. Default: all of the release.
Returns: one row a record, and one more for its guests, if it has any: nothing says at which instants they are there.
- record_id: the record.
- subjects: the people whom the row is about. The counts hold for each of them.
- instants: how many instants of the record are in the span, step_s apart.
- surely: at how many of them the person was inside for certain.
- expectedly: at how many of them, if people were spread evenly over their regions, which is an assumption.
- possibly: at how many of them the person may have been inside.
Raises: DA001, DA011.
Example: SELECT * FROM published.dwell(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632)).';

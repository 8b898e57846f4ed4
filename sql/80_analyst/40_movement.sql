-- What the rows of a record say together: from where to where, across a line, how long.

CREATE OR REPLACE FUNCTION published.fitted_zones(
    zones regclass, zone_id name, about published.releases, OUT ids text[], OUT areas @postgis@.geometry[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    columns CONSTANT text[] := ARRAY(
        SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = zones AND a.atttypid = '@postgis@.geometry'::regtype AND a.attnum > 0 AND NOT a.attisdropped);
    overlapping bigint;
BEGIN
    IF cardinality(columns) IS DISTINCT FROM 1 OR NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = zones AND a.attname = zone_id AND a.attnum > 0 AND NOT a.attisdropped) THEN
        RAISE EXCEPTION 'Zones must be a table or view with one column of geometries and the column named by zone_id. Got %, with % such, and %.',
                coalesce(zones::text, 'NULL'), cardinality(columns), coalesce(quote_ident(zone_id), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Rows of one id are one zone.',
                  HINT = 'CREATE TEMPORARY TABLE zones AS SELECT name, geom FROM ...';
    END IF;
    EXECUTE format('SELECT array_agg(z.id ORDER BY z.id), array_agg(z.area ORDER BY z.id) '
        'FROM (SELECT t.%I::text AS id, @postgis@.ST_Union(published.fitted_area(t.%I, $1)) AS area FROM %s t GROUP BY 1) z WHERE z.id IS NOT NULL',
        zone_id, columns[1], zones) INTO ids, areas USING about;
    SELECT count(*) INTO overlapping
        FROM unnest(areas) WITH ORDINALITY a (area, n) JOIN unnest(areas) WITH ORDINALITY b (area, n) ON a.n < b.n AND @postgis@.ST_Intersects(a.area, b.area)
        -- A border that two zones share, in another system, is transformed to two that differ by rounding.
        WHERE @postgis@.ST_Area(@postgis@.ST_Intersection(a.area, b.area)) > 1e-6 * least(@postgis@.ST_Area(a.area), @postgis@.ST_Area(b.area));
    IF overlapping > 0 THEN
        RAISE NOTICE 'Pairs of zones that overlap: %. Each zone is answered for itself, and sums over zones count people twice.', overlapping;
    END IF;
END
$$;
COMMENT ON FUNCTION published.fitted_zones(regclass, name, published.releases) IS
'The zones of a table in the coordinate system of a release, one area for each id. A notice says where they overlap.';

CREATE OR REPLACE FUNCTION published.flows_of(
    about published.releases, relation regclass, zones regclass, zone_id name, during tstzrange)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    span tstzrange;
    zone record;
BEGIN
    PERFORM published.demand_rows(about, 'A flow', some_time => true, one_moment => false);
    span := published.fitted_span(about, during);
    SELECT z.ids, z.areas INTO zone FROM published.fitted_zones(zones, zone_id, about) z;
    RETURN QUERY EXECUTE format($query$
        WITH zone AS MATERIALIZED (
            SELECT z.id, z.area FROM unnest($2, $3) z (id, area)
        ), seen AS (
            SELECT c.record_id, c.region, c.subjects, c.valid_from, c.valid_to,
                $4 = 'instant' OR c.period <@ $1 AS whole,
                row_number() OVER (PARTITION BY c.record_id ORDER BY c.seq) AS ahead,
                row_number() OVER (PARTITION BY c.record_id ORDER BY c.seq DESC) AS behind
            FROM %s c WHERE c.valid_from BETWEEN $6 AND upper($1) AND c.period && $1
        ), ranked AS (
            -- A row that reaches beyond the span may have no fix within it: the first fix of the span is in the first row that lies within
            -- it, or in one before; where no row does, in any or none.
            SELECT s.*, min(s.ahead) FILTER (WHERE s.whole) OVER r AS first_whole, min(s.behind) FILTER (WHERE s.whole) OVER r AS last_whole,
                count(*) OVER r AS rows
            FROM seen s WINDOW r AS (PARTITION BY s.record_id)
        ), candidate AS (
            SELECT true AS first, r.*, coalesce(r.first_whole, r.rows) AS candidates FROM ranked r WHERE r.ahead <= coalesce(r.first_whole, r.ahead)
            UNION ALL
            SELECT false, r.*, coalesce(r.last_whole, r.rows) FROM ranked r WHERE r.behind <= coalesce(r.last_whole, r.behind)
        ), met AS (
            SELECT c.first, c.record_id, z.id, max(published.phase_of($5, c.valid_from, c.valid_to)) AS phase, max(c.subjects) AS subjects,
                bool_and(c.first_whole IS NOT NULL AND s.covered) AND count(*) = max(c.candidates) AS surely,
                sum(published.covered_share(z.area, c.region)) / max(c.candidates) AS share
            FROM candidate c JOIN zone z ON @postgis@.ST_Intersects(z.area, c.region)
            CROSS JOIN LATERAL (SELECT @postgis@.ST_Covers(z.area, c.region) AS covered) s
            GROUP BY c.first, c.record_id, z.id
        ), people AS (
            SELECT o.id AS origin, d.id AS destination, greatest(o.phase, d.phase) AS phase,
                sum(o.subjects) FILTER (WHERE o.surely AND d.surely) AS surely, sum(o.subjects * o.share * d.share) AS expectedly, sum(o.subjects) AS possibly
            FROM met o JOIN met d ON d.record_id = o.record_id
            WHERE o.first AND NOT d.first GROUP BY o.id, d.id, 3
        )
        SELECT p.origin, p.destination, coalesce(max(p.surely) FILTER (WHERE p.phase IS NOT NULL), 0)::bigint, max(p.expectedly)::float8, sum(p.possibly)::bigint
        FROM people p GROUP BY p.origin, p.destination ORDER BY p.origin, p.destination
        $query$, relation) USING span, zone.ids, zone.areas, about.holds, about, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.flows_of(published.releases, regclass, regclass, name, tstzrange) IS
'The answer of published.flows from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.flows(release regclass, zones regclass, zone_id name, during tstzrange)
RETURNS TABLE (origin text, destination text, at_least bigint, expected double precision, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
BEGIN
    RETURN QUERY SELECT * FROM published.flows_of(about, release, zones, zone_id, during);
END
$$;
COMMENT ON FUNCTION published.flows(regclass, regclass, name, tstzrange) IS
'Counts the people of a release that began a span in one zone and ended it in another, by the first and the last row of each record in the span.
People left out of the release are not added. A flow is no longer than a record. Where people have a record in each window (window_s in
published.releases), each day (day_zone) or each part, each person has a flow in every one. Then at_least and expected are those of the greatest
window, day or part, and at_most is the sum. Pairs of zones without people are not listed. People outside all zones are not listed, either.
Arguments:
- release: the view, such as ''published.cabs_june''.
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
Example: SELECT * FROM published.flows(''published.ten'', ''zones'', ''name'', ''[2008-06-04 08:00Z,2008-06-04 09:00Z)'').';

CREATE OR REPLACE FUNCTION published.fitted_line(line @postgis@.geometry, about published.releases) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
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
    BEGIN
        SELECT n.box, n.step INTO around FROM published.surroundings(about, @postgis@.ST_SRID(line)) n;
        -- Steps that stay straight within a centimetre are joined again: each edge is compared with each move near the line.
        RETURN @postgis@.ST_Simplify(
            @postgis@.ST_Transform(@postgis@.ST_Segmentize(@postgis@.ST_ClipByBox2D(@postgis@.ST_Force2D(line), around.box::@postgis@.box2d), around.step),
                about.srid), 0.01, true);
    EXCEPTION WHEN internal_error THEN  -- from PROJ
        PERFORM published.refuse_projection(@postgis@.ST_SRID(line));
    END;
END
$$;
COMMENT ON FUNCTION published.fitted_line(@postgis@.geometry, published.releases) IS
'A line in the coordinate system of a release, in two dimensions. For a line in another system it returns the part near the release. It refuses a line
without length.';

CREATE OR REPLACE FUNCTION published.crossings(release regclass, line @postgis@.geometry, during tstzrange)
RETURNS TABLE (direction text, at_least bigint, at_most bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
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
            SELECT d.path[1] AS part, d.geom, @postgis@.ST_StartPoint(d.geom) AS start, @postgis@.ST_EndPoint(d.geom) AS finish
            FROM @postgis@.ST_Dump(@postgis@.ST_Multi($2)) d
        ), edge AS MATERIALIZED (
            SELECT * FROM (
                SELECT p.part, @postgis@.ST_X(d.geom) AS px, @postgis@.ST_Y(d.geom) AS py,
                    lead(@postgis@.ST_X(d.geom)) OVER w - @postgis@.ST_X(d.geom) AS dx, lead(@postgis@.ST_Y(d.geom)) OVER w - @postgis@.ST_Y(d.geom) AS dy,
                    @postgis@.ST_MakeLine(d.geom, lead(d.geom) OVER w) AS geom
                FROM part p CROSS JOIN LATERAL @postgis@.ST_DumpPoints(p.geom) d WINDOW w AS (PARTITION BY p.part ORDER BY d.path)) e
            WHERE e.dx <> 0 OR e.dy <> 0
        ), seen AS (
            SELECT c.record_id, c.subjects, c.region, c.valid_from, c.valid_to,
                $3 = 'instant' OR c.period <@ $1 AS whole,
                -- Several positions in one row: at some time of it, or at successive instants that were joined.
                $3 = 'some time' OR extract(epoch FROM c.valid_to - c.valid_from) > $5 AS several,
                lead(c.region) OVER w AS next_region, lead($3 = 'instant' OR c.period <@ $1) OVER w AS next_whole
            FROM %s c WHERE c.valid_from BETWEEN $6 AND upper($1) AND c.period && $1 WINDOW w AS (PARTITION BY c.record_id ORDER BY c.seq)
        ), move AS (
            SELECT s.record_id, s.valid_from, s.valid_to, s.subjects, s.region AS a, s.next_region AS b, s.whole AND s.next_whole AS whole
            FROM seen s WHERE s.next_region IS NOT NULL
            UNION ALL
            SELECT s.record_id, s.valid_from, s.valid_to, s.subjects, s.region, s.region, false FROM seen s WHERE s.several
        ), near AS MATERIALIZED (
            SELECT row_number() OVER () AS move, m.record_id, published.phase_of($4, m.valid_from, m.valid_to) AS phase, m.subjects, m.whole, h.hull,
                @postgis@.ST_ConvexHull(m.a) AS a, @postgis@.ST_ConvexHull(m.b) AS b
            FROM move m CROSS JOIN LATERAL (SELECT @postgis@.ST_ConvexHull(@postgis@.ST_Collect(m.a, m.b)) AS hull) h
            WHERE @postgis@.ST_Intersects($2, h.hull)
        ), corner AS (
            -- How far left of an edge of the line the boxes around both regions reach, and how far right.
            SELECT n.move,
                e.dx * (CASE WHEN e.dx > 0 THEN @postgis@.ST_YMax(n.a) ELSE @postgis@.ST_YMin(n.a) END - e.py)
                    - e.dy * (CASE WHEN e.dy > 0 THEN @postgis@.ST_XMin(n.a) ELSE @postgis@.ST_XMax(n.a) END - e.px) AS a_left,
                e.dx * (CASE WHEN e.dx > 0 THEN @postgis@.ST_YMin(n.a) ELSE @postgis@.ST_YMax(n.a) END - e.py)
                    - e.dy * (CASE WHEN e.dy > 0 THEN @postgis@.ST_XMax(n.a) ELSE @postgis@.ST_XMin(n.a) END - e.px) AS a_right,
                e.dx * (CASE WHEN e.dx > 0 THEN @postgis@.ST_YMax(n.b) ELSE @postgis@.ST_YMin(n.b) END - e.py)
                    - e.dy * (CASE WHEN e.dy > 0 THEN @postgis@.ST_XMin(n.b) ELSE @postgis@.ST_XMax(n.b) END - e.px) AS b_left,
                e.dx * (CASE WHEN e.dx > 0 THEN @postgis@.ST_YMin(n.b) ELSE @postgis@.ST_YMax(n.b) END - e.py)
                    - e.dy * (CASE WHEN e.dy > 0 THEN @postgis@.ST_XMax(n.b) ELSE @postgis@.ST_XMin(n.b) END - e.px) AS b_right
            FROM near n JOIN edge e ON @postgis@.ST_Intersects(e.geom, n.hull)
        ), possible AS (
            -- To cross an edge from left to right takes a position left of it, and a next one right of it.
            SELECT c.move, bool_or(c.a_left >= 0 AND c.b_right <= 0) AS rightwards, bool_or(c.a_right <= 0 AND c.b_left >= 0) AS leftwards
            FROM corner c GROUP BY c.move
        ), firm AS (
            -- Segments from any position of one region to any of the next can be moved into one another without leaving the hull. While neither
            -- end meets a part of the line, and no end of that part is in the hull, crossings come and go in pairs of both directions: all segments
            -- cross it as often, counted with signs, as the one between the centres.
            SELECT n.move, p.part, @postgis@.ST_X(@postgis@.ST_Centroid(n.a)) AS ax, @postgis@.ST_Y(@postgis@.ST_Centroid(n.a)) AS ay,
                @postgis@.ST_X(@postgis@.ST_Centroid(n.b)) AS bx, @postgis@.ST_Y(@postgis@.ST_Centroid(n.b)) AS by
            FROM near n JOIN part p ON @postgis@.ST_Intersects(p.geom, n.hull)
            WHERE n.whole AND NOT @postgis@.ST_Intersects(p.geom, n.a) AND NOT @postgis@.ST_Intersects(p.geom, n.b)
                AND (@postgis@.ST_IsClosed(p.geom) OR NOT (@postgis@.ST_Intersects(p.start, n.hull) OR @postgis@.ST_Intersects(p.finish, n.hull)))
        ), side AS (
            SELECT f.move, f.part, e.dx * (f.ay - e.py) - e.dy * (f.ax - e.px) > 0 AS a_left, e.dx * (f.by - e.py) - e.dy * (f.bx - e.px) > 0 AS b_left,
                (f.bx - f.ax) * (e.py - f.ay) - (f.by - f.ay) * (e.px - f.ax) >= 0 AS p_left,
                (f.bx - f.ax) * (e.py + e.dy - f.ay) - (f.by - f.ay) * (e.px + e.dx - f.ax) >= 0 AS q_left
            FROM firm f JOIN edge e ON e.part = f.part
        ), net AS (
            SELECT s.move, s.part, sum(CASE WHEN s.a_left = s.b_left OR s.p_left = s.q_left THEN 0 WHEN s.a_left THEN 1 ELSE -1 END) AS net
            FROM side s GROUP BY s.move, s.part
        ), certain AS (
            SELECT t.move, bool_or(t.net > 0) AS rightwards, bool_or(t.net < 0) AS leftwards FROM net t GROUP BY t.move
        ), person AS (
            SELECT max(n.phase) AS phase, d.direction, max(n.subjects) AS subjects,
                bool_or(CASE d.direction WHEN 'left to right' THEN c.rightwards ELSE c.leftwards END) AS surely,
                bool_or(CASE d.direction WHEN 'left to right' THEN p.rightwards ELSE p.leftwards END) AS possibly
            FROM near n LEFT JOIN possible p ON p.move = n.move LEFT JOIN certain c ON c.move = n.move
            CROSS JOIN unnest(ARRAY['left to right', 'right to left']) d (direction)
            GROUP BY d.direction, n.record_id
        ), people AS (
            SELECT p.direction, p.phase, sum(p.subjects) FILTER (WHERE p.surely) AS surely, sum(p.subjects) FILTER (WHERE p.possibly) AS possibly
            FROM person p GROUP BY p.direction, p.phase
        )
        SELECT d.direction, coalesce(max(p.surely) FILTER (WHERE p.phase IS NOT NULL), 0)::bigint, coalesce(sum(p.possibly), 0)::bigint
        FROM unnest(ARRAY['left to right', 'right to left']) d (direction) LEFT JOIN people p ON p.direction = d.direction
        GROUP BY d.direction ORDER BY d.direction
        $query$, release) USING span, fitted, about.holds, about, about.step_s, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.crossings(regclass, @postgis@.geometry, tstzrange) IS
'Counts the people of a release that crossed a line during a span, by direction. Each counts once a direction. People left out of the release are not
added. Movement is straight between successive positions of a person that are published, or fixes that rows cover. Nothing is claimed of the time
between them. At least: the people of records where all ways from the region of one row to that of the next cross the line. At most: the
people of records with such a way. Where people have a record in each window (window_s in published.releases), each day (day_zone) or each part, ways
end there, too. Then at_least is that of the greatest window, day or part, and at_most is the sum.
Arguments:
- release: the view, such as ''published.cabs_june''.
- line: a line in any coordinate system. Left and right are those of its direction.
- during: a span.
Returns: one row a direction.
- direction: ''left to right'' or ''right to left''.
- at_least: the lower bound.
- at_most: the upper bound.
Raises: DA001, DA011.
Example: SELECT * FROM published.crossings(''published.ten'', public.ST_SetSRID(public.ST_MakeLine(public.ST_MakePoint(60, 0), public.ST_MakePoint(60,
99)), 32610), ''[2008-06-04 08:00Z,2008-06-04 09:00Z)'').';

CREATE OR REPLACE FUNCTION published.dwell_of(about published.releases, relation regclass, area @postgis@.geometry, during tstzrange)
RETURNS TABLE (record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    fitted @postgis@.geometry;
    span tstzrange;
BEGIN
    PERFORM published.demand_rows(about, 'Dwelling', some_time => false, one_moment => false);
    fitted := published.fitted_area(area, about);
    span := published.fitted_span(about, during);
    RETURN QUERY EXECUTE format($query$
        WITH found AS MATERIALIZED (
            SELECT DISTINCT c.record_id FROM %1$s c
            WHERE c.valid_from BETWEEN $4 AND upper($2) AND c.period && $2 AND c.region OPERATOR(@postgis@.&&) $1
        ), seen AS MATERIALIZED (
            SELECT c.record_id, c.subjects, c.region, round(extract(epoch FROM upper(c.period * $2) - lower(c.period * $2)) / $3)::bigint AS instants,
                CASE WHEN c.region OPERATOR(@postgis@.&&) $1 THEN published.covered_share($1, c.region) ELSE 0 END AS share
            FROM %1$s c WHERE c.record_id IN (SELECT f.record_id FROM found f) AND c.valid_from BETWEEN $4 AND upper($2) AND c.period && $2
        ), told AS (
            SELECT s.record_id, max(s.subjects) AS subjects, sum(s.instants) AS instants, sum(s.instants) FILTER (WHERE s.share = 1) AS surely,
                sum(s.instants * s.share) AS expectedly, sum(s.instants) FILTER (WHERE s.share > 0 OR @postgis@.ST_Intersects($1, s.region)) AS possibly
            FROM seen s GROUP BY s.record_id
        )
        SELECT t.record_id, t.subjects, t.instants::bigint, coalesce(t.surely, 0)::bigint, t.expectedly::float8, t.possibly::bigint
        FROM told t WHERE t.possibly > 0 ORDER BY t.record_id
        $query$, relation) USING fitted, span, about.step_s, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.dwell_of(published.releases, regclass, @postgis@.geometry, tstzrange) IS
'The answer of published.dwell from a relation with rows and their row of published.releases.';

CREATE OR REPLACE FUNCTION published.dwell(release regclass, area @postgis@.geometry, during tstzrange DEFAULT '[-infinity,infinity)')
RETURNS TABLE (record_id bigint, subjects integer, instants bigint, surely bigint, expectedly double precision, possibly bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
BEGIN
    RETURN QUERY SELECT * FROM published.dwell_of(about, release, area, during);
END
$$;
COMMENT ON FUNCTION published.dwell(regclass, @postgis@.geometry, tstzrange) IS
'Counts the instants at which each person of a release was inside an area, record by record. Only records that may have been inside are listed. A
record can say no more than its length. Where records end with a window (window_s in published.releases) or a part, a person with a longer stay is in
several records, which are not connected. Compare the counts with instants.
Arguments:
- release: the view of a release that holds at instants.
- area: a polygon in any coordinate system.
- during: a span. Default: all of the release.
Returns: one row a record.
- record_id: the record.
- subjects: the people it stands for. The counts hold for each of them.
- instants: how many instants of the record are in the span, step_s apart.
- surely: at how many of them the person was inside for certain.
- expectedly: at how many of them, if people were spread evenly over their regions, which is an assumption.
- possibly: at how many of them the person may have been inside.
Raises: DA001, DA011.
Example: SELECT * FROM published.dwell(''published.ten'', public.ST_MakeEnvelope(0, 0, 50, 99, 32610)).';

-- Who asked for what, where.

CREATE OR REPLACE FUNCTION published.requests_inside(release regclass, area @postgis@.geometry, during tstzrange)
RETURNS TABLE (request jsonb, at_least bigint, at_most bigint, weight double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
    fitted CONSTANT @postgis@.geometry := published.fitted_area(area, about);
    span CONSTANT tstzrange := published.fitted_span(about, during);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a
                   WHERE a.attrelid = release AND a.attname = 'requests' AND a.atttypid = 'jsonb'::regtype AND NOT a.attisdropped) THEN
        RAISE EXCEPTION 'Requests must be asked of a release that has them. % has no column requests.', about.name
            USING ERRCODE = 'DA011', DETAIL = 'Only some methods publish requests.',
                  HINT = 'List the releases that have them: SELECT name FROM published.columns WHERE column_name = ''requests''.';
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH hit AS MATERIALIZED (
            SELECT c.record_id, c.subjects, c.requests, c.region, c.period <@ $2 AS whole, published.covered_share($1, c.region) AS share,
                published.phase_of($3, c.valid_from, c.valid_to) AS phase
            FROM %s c
            WHERE c.valid_from BETWEEN $4 AND upper($2) AND c.period && $2 AND c.region OPERATOR(@postgis@.&&) $1 AND c.requests <> '[]'
        ), record AS (
            -- One of the record's people sent it, at most all of them did.
            SELECT r.request, max(h.phase) AS phase, bool_or(h.share = 1 AND h.whole) AS surely, max(h.subjects) AS subjects, sum(h.share) AS share
            FROM hit h CROSS JOIN LATERAL jsonb_array_elements(h.requests) r (request)
            WHERE h.share > 0 OR @postgis@.ST_Intersects($1, h.region)
            GROUP BY r.request, h.record_id
        ), people AS (
            SELECT r.request, r.phase, count(*) FILTER (WHERE r.surely) AS surely, sum(r.subjects) AS possibly, sum(r.share) AS share
            FROM record r GROUP BY r.request, r.phase
        )
        SELECT p.request, coalesce(max(p.surely) FILTER (WHERE p.phase IS NOT NULL), 0), sum(p.possibly)::bigint, sum(p.share)::float8
        FROM people p GROUP BY p.request ORDER BY p.request
        $query$, release) USING fitted, span, about, published.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.requests_inside(regclass, @postgis@.geometry, tstzrange) IS
'Counts the people of a release that sent requests while they were inside an area, by content. People and requests that were left out of the release
are not added. The requests of a row are a set: at least one of its people sent each, and at most all of them did. Where people have a record in each
window (window_s in published.releases), each day (day_zone) or each part, records of several may be of the same person. Then at_least is that of the
greatest window, day or part, and at_most is the sum.
Arguments:
- release: the view of a release with a column requests.
- area: a polygon in any coordinate system.
- during: a span.
Returns: one row a content.
- request: its names and values.
- at_least: the lower bound.
- at_most: the upper bound.
- weight: the rows that have it, each by the share of its region in the area. Weights over areas that do not overlap sum to at most 1 a row.
Raises: DA001, DA011.
Example: SELECT * FROM published.requests_inside(''published.ten'', public.ST_MakeEnvelope(0, 0, 50, 99, 32610), ''[2008-06-04 08:00Z,2008-06-04
09:00Z)'').';

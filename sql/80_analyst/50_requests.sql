-- Who asked for what, where.

CREATE OR REPLACE FUNCTION published.requests_inside(release regclass, area @postgis@.geometry, during tstzrange)
RETURNS TABLE (request jsonb, at_least bigint, at_most bigint, weight double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    about CONSTANT published.releases := published.about(release);
    fitted CONSTANT @postgis@.geometry := published_inner.fitted_area(area, about);
    span CONSTANT tstzrange := published_inner.fitted_span(about, during);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute att
                   WHERE att.attrelid = release AND att.attname = 'requests' AND att.atttypid = 'jsonb'::regtype AND NOT att.attisdropped) THEN
        RAISE EXCEPTION 'Requests must be asked of a release that has them. % has no column requests.', about.name
            USING ERRCODE = 'DA011', DETAIL = 'Only some methods publish requests.',
                  HINT = 'List the releases that have them: SELECT name FROM published.columns WHERE column_name = ''requests''.';
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH hit AS MATERIALIZED (
            SELECT clo.record_id, clo.subjects, clo.requests, clo.region, clo.valid_from >= lower($2) AND clo.valid_to <= upper($2) AS whole,
                published_inner.covered_share($1, clo.region) AS share,
                published_inner.phase_of($3, clo.valid_from, clo.valid_to) AS phase
            FROM %s clo
            WHERE clo.valid_from BETWEEN $4 AND upper($2) AND tstzrange(clo.valid_from, clo.valid_to) && $2
                AND clo.region OPERATOR(@postgis@.&&) $1 AND clo.requests <> '[]'
        ), record AS (
            -- One of the record's people sent it, at most all of them did.
            SELECT ele.request, max(hit.phase) AS phase, bool_or(hit.share = 1 AND hit.whole) AS surely, max(hit.subjects) AS subjects,
                sum(hit.share) AS share
            FROM hit CROSS JOIN LATERAL jsonb_array_elements(hit.requests) ele (request)
            WHERE hit.share > 0 OR @postgis@.ST_Intersects($1, hit.region)
            GROUP BY ele.request, hit.record_id
        ), people AS (
            SELECT record.request, record.phase, count(*) FILTER (WHERE record.surely) AS surely, sum(record.subjects) AS possibly,
                sum(record.share) AS share
            FROM record GROUP BY record.request, record.phase
        )
        SELECT people.request, coalesce(max(people.surely) FILTER (WHERE people.phase IS NOT NULL), 0), sum(people.possibly)::bigint,
            sum(people.share)::float8
        FROM people GROUP BY people.request ORDER BY people.request
        $query$, release) USING fitted, span, about, published_inner.first_from(about, span);
END
$$;
COMMENT ON FUNCTION published.requests_inside IS
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
Example: SELECT * FROM published.requests_inside(''published.taxi_k5'', public.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632), ''[2026-01-05 08:00Z,2026-01-05
09:00Z)'').';

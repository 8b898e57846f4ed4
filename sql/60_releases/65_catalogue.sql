-- What readers see of the releases they may read: published.releases, published.parts, published.columns,
-- published.left_out, published.surfaces and published.atoms.
--
-- The views read private tables with their owner's rights, so that readers need none there. has_table_privilege asks for the
-- rights of who runs the query, not of the owner; and they are barriers, so that no function of a reader's is called for a row
-- that the reader may not see. Figures are those recorded at publication.

CREATE OR REPLACE FUNCTION dbanon_internal.join_hours(by_hour jsonb, k integer) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
-- A reader counts the published people of each hour in the release, so a share may reveal the exact number left out. Therefore
-- each line speaks of at least k people left out, and of k published, and the lines speak of all hours or of none: whatever is
-- reckoned from lines and from the release's whole share is a number of whole lines, 0 or at least k. Where lines end says
-- little more: a line that k were published in before its last hour was not ended there, so fewer than k, or none, were left out
-- until then, as it is said of a whole release. tests/db/test_readers.py has an adversary that knows this try all small cases.
DECLARE
    hour record;
    n integer := 0;
    since timestamptz[];
    until timestamptz[];
    published bigint[];
    left_out bigint[];
BEGIN
    FOR hour IN
        SELECT (ele.value ->> 'hour')::timestamptz AS at, (ele.value ->> 'published')::bigint AS published,
            dbanon_internal.sum_counts(ele.value -> 'left_out')::bigint AS left_out
        FROM jsonb_array_elements(by_hour) ele ORDER BY 1
    LOOP
        IF n = 0 OR (published[n] >= k AND left_out[n] >= k) THEN
            n := n + 1;
            since[n] := hour.at;
            published[n] := 0;
            left_out[n] := 0;
        END IF;
        until[n] := hour.at + interval '1 hour';
        published[n] := published[n] + hour.published;
        left_out[n] := left_out[n] + hour.left_out;
    END LOOP;
    -- Too little at the end joins the line before; where there is none, nothing is said.
    IF (published[n] >= k AND left_out[n] >= k) IS NOT TRUE THEN
        n := n - 1;
        until[n] := until[n + 1];
        published[n] := published[n] + published[n + 1];
        left_out[n] := left_out[n] + left_out[n + 1];
    END IF;
    RETURN (SELECT coalesce(jsonb_agg(jsonb_build_object('since', since[num], 'until', until[num],
                'percent', dbanon_internal.compute_percent_left_out(published[num] + left_out[num], left_out[num])) ORDER BY num), '[]')
            FROM generate_series(1, n) num);
END
$$;
COMMENT ON FUNCTION dbanon_internal.join_hours IS
'The share of people left out by hour, as [{since, until, percent}] with whole percent: successive hours are one line until at
least k were left out and k published in it.';

CREATE OR REPLACE VIEW published.releases WITH (security_barrier) AS
SELECT shown.name, run.method, par.k,
    coalesce((SELECT nullif(alg.value ->> 'guarantee', '') FROM jsonb_array_elements(met.algorithms) alg WHERE alg.value ->> 'name' = run.algorithm),
             met.guarantee) AS promise,
    par.since, par.until, dat.srid, par.rows, rel.holds, rel.step_s, rel.window_s, rel.day_zone,
    par.extent, par.parts, par.starts, par.ends, par.longest_s, par.guest_presence, par.people, coalesce(par.interval_factor, (met.traits ->> 'interval_factor')::double precision) AS interval_factor
FROM (
    -- A release of one run, or the last part of one that grows, whose other parts have the same columns here.
    SELECT rel.name, rel.release_id, NULL::bigint AS series_id FROM ONLY dbanon.release rel WHERE rel.withdrawn_at IS NULL AND rel.series_id IS NULL
    UNION ALL
    SELECT ser.name, last.release_id, ser.series_id
    FROM ONLY dbanon.series ser
    CROSS JOIN LATERAL (SELECT rel.release_id FROM ONLY dbanon.release rel WHERE rel.series_id = ser.series_id
                        ORDER BY rel.withdrawn_at IS NOT NULL, upper(rel.bounds) DESC, rel.release_id DESC LIMIT 1) last
    WHERE ser.withdrawn_at IS NULL) shown
JOIN ONLY dbanon.release rel ON rel.release_id = shown.release_id
JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
JOIN ONLY dbanon.method met ON met.name = run.method
JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
JOIN pg_class cla ON cla.relname = shown.name AND cla.relnamespace = 'published'::regnamespace
CROSS JOIN LATERAL (
    SELECT min(CASE jsonb_typeof(run.params -> 'k') WHEN 'number' THEN (run.params -> 'k')::integer END) AS k,
        min(lower(rel.span)) AS since, max(upper(rel.span)) AS until, coalesce(sum(rel.rows), 0)::bigint AS rows,
        CASE WHEN bool_or(rel.extent IS NOT NULL)
             THEN ARRAY[min(rel.extent[1]), min(rel.extent[2]), max(rel.extent[3]), max(rel.extent[4])] END AS extent,
        count(*)::integer AS parts,
        -- Of parts with guests, in tenths as each of them.
        coalesce(round((sum(rel.guest_presence * rel.rows) / sum(rel.rows) FILTER (WHERE rel.guest_presence > 0))::numeric, 1), 0)::double precision AS guest_presence,
        array_agg(lower(rel.span) ORDER BY lower(rel.span)) FILTER (WHERE rel.span IS NOT NULL) AS starts,
        array_agg(upper(rel.span) ORDER BY lower(rel.span)) FILTER (WHERE rel.span IS NOT NULL) AS ends,
        CASE WHEN bool_and(rel.longest_s IS NOT NULL OR rel.span IS NULL) THEN max(rel.longest_s) END AS longest_s,
        CASE WHEN bool_and(rel.people IS NOT NULL) THEN sum(rel.people) END::bigint AS people,
        max(rel.interval_factor) AS interval_factor
    FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
    WHERE rel.withdrawn_at IS NULL
        AND CASE WHEN shown.series_id IS NULL THEN rel.release_id = shown.release_id ELSE rel.series_id = shown.series_id END) par
WHERE has_table_privilege(cla.oid, 'SELECT');

CREATE OR REPLACE VIEW published.parts WITH (security_barrier) AS
SELECT l.name, coalesce(lower(l.span), lower(l.bounds)) AS since, coalesce(upper(l.span), upper(l.bounds)) AS until,
    CASE jsonb_typeof(r.params -> 'k') WHEN 'number' THEN (r.params -> 'k')::integer END AS k, l.rows, l.percent_left_out,
    l.series_id IS NOT NULL AND lag(l.release_id) OVER w IS NOT NULL AND l.places IS DISTINCT FROM lag(l.places) OVER w AS places_changed
FROM ONLY dbanon.release l
JOIN ONLY dbanon.run r ON r.run_id = l.run_id
JOIN pg_class c ON c.relname = l.name AND c.relnamespace = 'published'::regnamespace
WHERE l.withdrawn_at IS NULL AND has_table_privilege(c.oid, 'SELECT')
WINDOW w AS (PARTITION BY l.series_id ORDER BY l.bounds);

CREATE OR REPLACE VIEW published.columns WITH (security_barrier) AS
SELECT l.name, a.attnum::integer AS place, a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS type,
    col_description(c.oid, a.attnum) AS meaning
FROM (SELECT e.name FROM ONLY dbanon.release e WHERE e.withdrawn_at IS NULL AND e.series_id IS NULL
      UNION ALL SELECT s.name FROM ONLY dbanon.series s WHERE s.withdrawn_at IS NULL) l
JOIN pg_class c ON c.relname = l.name AND c.relnamespace = 'published'::regnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE has_table_privilege(c.oid, 'SELECT')
ORDER BY l.name, a.attnum;

CREATE OR REPLACE VIEW published.left_out WITH (security_barrier) AS
SELECT l.name, h.since, h.until, h.percent
FROM ONLY dbanon.release l
JOIN pg_class c ON c.relname = l.name AND c.relnamespace = 'published'::regnamespace
CROSS JOIN LATERAL jsonb_to_recordset(l.left_out) h (since timestamptz, until timestamptz, percent integer)
WHERE l.withdrawn_at IS NULL AND has_table_privilege(c.oid, 'SELECT');

CREATE OR REPLACE VIEW published.atoms WITH (security_barrier) AS
SELECT l.name, p.since, p.until, a.atom, a.region, a.area_m2, a.categories, a.pois
FROM ONLY dbanon.release l
JOIN pg_class c ON c.relname = l.name AND c.relnamespace = 'published'::regnamespace
JOIN ONLY dbanon.published_atom a ON a.release_id = l.release_id
-- Each part has atoms of its own: those of one are not those of another where places changed, and their numbers mean nothing there.
CROSS JOIN LATERAL (SELECT coalesce(lower(l.span), lower(l.bounds)) AS since, coalesce(upper(l.span), upper(l.bounds)) AS until) p
WHERE l.withdrawn_at IS NULL AND has_table_privilege(c.oid, 'SELECT');

CREATE OR REPLACE VIEW published.surfaces WITH (security_barrier) AS
SELECT rel.name, lower(rel.span) AS since, upper(rel.span) AS until, dat.srid, (ver.surface).cell_m, (ver.surface).left_column, (ver.surface).bottom_row,
    (ver.surface).columns, (ver.surface).rows, (ver.surface).speed_mps, (ver.surface).sums
FROM ONLY dbanon.release rel
JOIN ONLY dbanon.verification ver ON ver.verification_id = rel.verification_id
JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
JOIN pg_class cla ON cla.relname = rel.name AND cla.relnamespace = 'published'::regnamespace
WHERE rel.withdrawn_at IS NULL AND ver.surface IS NOT NULL AND has_table_privilege(cla.oid, 'SELECT');

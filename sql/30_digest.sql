-- The digest that ties a verdict to exactly the rows it was given on.

CREATE OR REPLACE FUNCTION dbanon.run_digest(run_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
-- The plan is made for a run of average size: after one run of millions of rows it would read them for every small one.
SET enable_seqscan = off
AS $$
    -- Binary send functions and UTF-8 text: nothing here depends on TimeZone, DateStyle, bytea_output or client_encoding.
    -- record_send frames every value with its type and length, so two different rows never look alike.
    SELECT sha256(
        record_send(ROW(
            convert_to('dbanon digest 1', 'UTF8'), convert_to(r.method, 'UTF8'), convert_to(r.algorithm, 'UTF8'),
            convert_to(r.params::text, 'UTF8'), convert_to(r.suppressed::text, 'UTF8'), d.srid, d.grid_m, d.grid_s, d.revision))
        || (SELECT sha256(coalesce(string_agg(int8send(x.record_id) || x.digest, ''::bytea ORDER BY x.record_id), ''))
            FROM (SELECT c.record_id, sha256(string_agg(record_send(ROW(
                             c.seq, c.period, @postgis@.ST_AsEWKB(c.region, 'NDR'), c.crowd, c.subjects,
                             convert_to(c.extra::text, 'UTF8'))), ''::bytea ORDER BY c.seq)) AS digest
                  FROM dbanon.cloak c
                  WHERE c.run_id = run_digest.run_id
                  GROUP BY c.record_id) x)
        || (SELECT sha256(coalesce(string_agg(int8send(x.record_id) || x.digest, ''::bytea ORDER BY x.record_id), ''))
            FROM (SELECT m.record_id, sha256(string_agg(
                             record_send(ROW(m.trajectory_id, m.period)), ''::bytea
                             ORDER BY m.trajectory_id, m.period)) AS digest
                  FROM dbanon.membership m
                  WHERE m.run_id = run_digest.run_id
                  GROUP BY m.record_id) x))
    FROM dbanon.run r
    JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id
    WHERE r.run_id = run_digest.run_id
$$;
COMMENT ON FUNCTION dbanon.run_digest(bigint) IS
'SHA-256 over a run''s method, algorithm, parameters and suppressed counts, its dataset''s grid and revision now, and every
cloak and member row: equal digests mean that nothing the verdict rests on has changed. Takes: run_id. Returns: 32 bytes;
NULL if there is no such run. Raises: nothing. Example: SELECT encode(dbanon.run_digest(1), ''hex'').';

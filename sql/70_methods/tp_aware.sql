-- What PostGIS gathers for tp-aware alone: the requests its attack looks at.

CREATE OR REPLACE FUNCTION dbanon_internal.request_evidence(run_id bigint) RETURNS TABLE (
    published boolean, region_no integer, subject text, t double precision, content text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT true, o.region_no, ''::text, 0::double precision, o.content
    FROM (SELECT g.region_no, e.value::text AS content
    FROM ONLY dbanon.region g
    -- A value that is no array becomes an array inside an array: no request looks like that, so the attack refuses it.
    CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(
        CASE pg_catalog.jsonb_typeof(g.extra -> 'requests')
            WHEN 'array' THEN g.extra -> 'requests'
            ELSE pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array(g.extra -> 'requests'))
        END) WITH ORDINALITY e
    WHERE g.run_id = request_evidence.run_id AND g.extra ? 'requests'
    ORDER BY g.region_no, e.ordinality) o  -- the attack looks at the order within a row
    UNION ALL
    SELECT false, 0, q.subject, pg_catalog.date_part('epoch', q.sent_at), q.content::text
    FROM ONLY dbanon.request q
    -- A join would read the requests of all datasets in the order of the index.
    WHERE q.dataset_id = (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = request_evidence.run_id);
END;
COMMENT ON FUNCTION dbanon_internal.request_evidence(bigint) IS
'The requests a run would publish beside those its dataset holds.';

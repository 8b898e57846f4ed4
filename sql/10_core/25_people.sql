-- Who is who: people are compared across datasets by a keyed hash of their names, never by the names.

CREATE OR REPLACE FUNCTION dbanon_internal.find_dataset_key(dataset_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN d.own_subjects THEN sha256(p.key || int8send(d.dataset_id)) ELSE p.key END
    FROM ONLY dbanon.dataset d JOIN ONLY dbanon.population p ON p.population_id = d.population_id
    WHERE d.dataset_id = find_dataset_key.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_dataset_key IS
'The key with which the names of a dataset''s subjects are hashed: its population''s, or one of its own where each row is a subject.';

-- BEGIN ATOMIC, so that PostgreSQL inlines it: it is called for millions of names.
CREATE OR REPLACE FUNCTION dbanon_internal.hash_person(key bytea, subject text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN ('x' || encode(substring(sha256(key || convert_to(subject, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
COMMENT ON FUNCTION dbanon_internal.hash_person IS
'The code of a person in a population, 64 bits of a keyed hash of the name: two of ten million people share one with a chance of 1 in 300,000.';

-- What is kept of a subject's name where releases speak of it: a hash with a key that never leaves the database.

CREATE OR REPLACE FUNCTION dbanon_internal.person_key(dataset_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- The eight bytes begin with 0, as no name does: what has names of its own never meets what has not.
    SELECT p.key || CASE WHEN d.own_subjects THEN int8send(d.dataset_id) ELSE '' END
    FROM ONLY dbanon.dataset d JOIN ONLY dbanon.population p ON p.population_id = d.population_id
    WHERE d.dataset_id = person_key.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.person_key(bigint) IS
'What is put before the names of a dataset''s subjects to hash them: its population''s key, and its own number where its subjects are nobody
outside it.';

CREATE OR REPLACE FUNCTION dbanon_internal.person_code(dataset_id bigint, subject text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT substring(sha256(dbanon_internal.person_key(dataset_id) || convert_to(subject, 'UTF8')), 1, 16)
$$;
COMMENT ON FUNCTION dbanon_internal.person_code(bigint, text) IS
'The code of a subject of a dataset, as dbanon.person has it: equal for one name in all datasets of a population.';

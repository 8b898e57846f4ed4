-- Copies under other names: a subject's fixes, loaded again as another person's, are recognised by keyed hashes of some of them.
--
-- A code is the hash of three successive fixes of a trajectory: of their whole seconds and metres, so that a copy may name other
-- subjects, be cut elsewhere and come in another order. It is kept where the middle fix's hash is 0 modulo 64. A trajectory of one or
-- two fixes has the hashes of these, kept where they are 0 modulo 8. No adversary sees codes, so a fast hash with a secret seed will do.
-- Triggers write them, so that no way of writing trajectories leaves them out.

CREATE OR REPLACE FUNCTION dbanon_internal.code_fixes() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    seed bigint;
BEGIN
    -- Of what was deleted or renamed, codes go with the last row of the subject; those of a dataset that was ever published stay.
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM ONLY dbanon.fix_code f WHERE NOT EXISTS (
            SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = f.dataset_id);
        RETURN NULL;
    ELSIF TG_OP IN ('DELETE', 'UPDATE') THEN
        DELETE FROM ONLY dbanon.fix_code f USING (
            SELECT DISTINCT c.dataset_id, dbanon_internal.person_code(k.key, c.subject) AS person
            FROM (SELECT d.dataset_id, dbanon_internal.dataset_key(d.dataset_id) AS key FROM (SELECT DISTINCT dataset_id FROM changed) d
                  WHERE NOT EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id
                                    WHERE r.dataset_id = d.dataset_id) OFFSET 0) k
            JOIN changed c ON c.dataset_id = k.dataset_id
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.trajectory t WHERE t.dataset_id = c.dataset_id AND t.subject = c.subject)) gone
            WHERE f.dataset_id = gone.dataset_id AND f.person = gone.person;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN NULL;
    END IF;
    SELECT ('x' || encode(substring(i.key, 1, 8), 'hex'))::bit(64)::bigint INTO STRICT seed FROM ONLY dbanon.installation i;
    INSERT INTO dbanon.fix_code (dataset_id, person, code)
        -- Fixes are taken apart once, in their order; only where one is kept its neighbours are looked at. OFFSET 0 keeps the planner
        -- from computing an expression once for each use of it.
        WITH hashed AS (
            SELECT a.dataset_id, a.subject, (
                SELECT array_agg(hashfloat8extended(round(@postgis@.ST_Y(p.geom)), hashfloat8extended(
                    round(@postgis@.ST_X(p.geom)), hashfloat8extended(round(@postgis@.ST_M(p.geom)), seed))))
                FROM @postgis@.ST_DumpPoints(a.path) p) AS fixes
            FROM added a OFFSET 0
        ), kept AS MATERIALIZED (
            SELECT h.dataset_id, h.subject, CASE WHEN cardinality(h.fixes) < 3 THEN u.fix
                ELSE hashint8extended(h.fixes[u.place], hashint8extended(h.fixes[u.place - 1], h.fixes[u.place + 1])) END AS code
            FROM hashed h CROSS JOIN LATERAL unnest(h.fixes) WITH ORDINALITY u (fix, place)
            WHERE u.fix % CASE WHEN cardinality(h.fixes) < 3 THEN 8 ELSE 64 END = 0
        ), named AS (
            SELECT DISTINCT t.dataset_id, dbanon_internal.person_code(d.key, t.subject) AS person, t.code
            FROM kept t
            JOIN (SELECT s.dataset_id, dbanon_internal.dataset_key(s.dataset_id) AS key
                  FROM (SELECT DISTINCT dataset_id FROM kept) s OFFSET 0) d USING (dataset_id)
            WHERE t.code IS NOT NULL
        )
        SELECT n.dataset_id, n.person, n.code FROM named n
        WHERE NOT EXISTS (SELECT FROM ONLY dbanon.fix_code f
                          WHERE f.code = n.code AND f.dataset_id = n.dataset_id AND f.person = n.person);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.code_fixes() IS
'Keeps the codes of trajectories that are written, and deletes those of subjects of which nothing is left, in datasets never published.';

CREATE OR REPLACE FUNCTION dbanon_internal.recode_people() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- As dbanon_internal.dataset_key made it, which sees the new row.
    old_key CONSTANT bytea := (
        SELECT CASE WHEN OLD.own_subjects THEN sha256(p.key || int8send(OLD.dataset_id)) ELSE p.key END
        FROM ONLY dbanon.population p WHERE p.population_id = OLD.population_id);
    new_key CONSTANT bytea := dbanon_internal.dataset_key(OLD.dataset_id);
BEGIN
    UPDATE ONLY dbanon.fix_code f SET person = dbanon_internal.person_code(new_key, s.subject)
        FROM (SELECT DISTINCT t.subject FROM ONLY dbanon.trajectory t WHERE t.dataset_id = OLD.dataset_id) s
        WHERE f.dataset_id = OLD.dataset_id AND f.person = dbanon_internal.person_code(old_key, s.subject);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.recode_people() IS
'Gives the codes of a dataset the people of its new population.';

CREATE OR REPLACE FUNCTION dbanon_internal.copies_of(dataset_id bigint) RETURNS TABLE (of_dataset_id bigint, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET enable_nestloop = off
AS $$
    -- Right after a load the planner knows nothing of its codes, and would compare each with each.
    -- A code is shared where one person alone has it in each of the two datasets, and not the same one. Positions on a coarse grid, and
    -- people who stand at one place at one time, share codes by chance, about as often between datasets as within one: on generated cities
    -- and taxis at 1 m to 1 km, two halves of the people shared at most twice what several people of one half did, and at most 13 %. A copy
    -- has 5 times as much, and 1 %; half is always enough. A standard deviation is added, since codes that chance shares may be few.
    WITH drawn AS MATERIALIZED (
        -- Of very many codes, which are as good as random, some 200,000 will do.
        SELECT greatest(count(*) / 200000, 1) AS one_in FROM ONLY dbanon.fix_code f WHERE f.dataset_id = copies_of.dataset_id
    ), mine AS MATERIALIZED (
        SELECT f.code, min(f.person) AS person, count(DISTINCT f.person) AS people
        FROM ONLY dbanon.fix_code f
        WHERE f.dataset_id = copies_of.dataset_id AND f.code % (SELECT d.one_in FROM drawn d) = 0 GROUP BY f.code
    ), other AS MATERIALIZED (
        SELECT f.dataset_id FROM mine m JOIN ONLY dbanon.fix_code f ON f.code = m.code
        WHERE f.dataset_id <> copies_of.dataset_id AND f.person <> m.person
        GROUP BY f.dataset_id HAVING count(DISTINCT f.code) >= 5
    ), theirs AS MATERIALIZED (
        SELECT f.dataset_id, f.code, min(f.person) AS person, count(DISTINCT f.person) AS people
        FROM ONLY dbanon.fix_code f
        WHERE f.dataset_id IN (SELECT o.dataset_id FROM other o) AND f.code % (SELECT d.one_in FROM drawn d) = 0
        GROUP BY f.dataset_id, f.code
    ), counted AS (
        SELECT NULL::bigint AS dataset_id, count(*) FILTER (WHERE m.people = 1) AS single, count(*) AS every FROM mine m
        UNION ALL
        SELECT t.dataset_id, count(*) FILTER (WHERE t.people = 1), count(*) FROM theirs t GROUP BY t.dataset_id
    ), shared AS (
        SELECT t.dataset_id, count(*) AS codes, count(DISTINCT m.person) AS people
        FROM mine m JOIN theirs t USING (code)
        WHERE m.people = 1 AND t.people = 1 AND m.person <> t.person GROUP BY t.dataset_id
    )
    SELECT s.dataset_id, s.codes, s.people
    FROM shared s
    JOIN LATERAL (
        SELECT min(c.single) AS fewer, least(0.5, 5 * max(1 - c.single / c.every::float8)) AS by_chance
        FROM counted c WHERE coalesce(c.dataset_id, s.dataset_id) = s.dataset_id) c ON true
    WHERE s.codes >= 5 AND s.codes >= c.fewer * greatest(0.01, c.by_chance) + sqrt(c.fewer * c.by_chance)
    UNION ALL
    -- Within the dataset, what was added under other names is shared by two people, where chance would let more share much of it.
    SELECT copies_of.dataset_id, w.two, w.people
    FROM (SELECT count(*) FILTER (WHERE m.people = 2) AS two, count(*) FILTER (WHERE m.people > 2) AS more, count(*) AS every,
              count(DISTINCT m.person) FILTER (WHERE m.people = 2) AS people FROM mine m) w
    WHERE w.two >= 5 AND 4 * w.two >= w.every AND 4 * w.more <= w.two
$$;
COMMENT ON FUNCTION dbanon_internal.copies_of(bigint) IS
'Finds the datasets, the same one too, of which this one has fixes under other names: how many codes are shared, by how many people.';

CREATE OR REPLACE FUNCTION dbanon_internal.copied_from(dataset_id bigint) RETURNS TABLE (
    of_dataset_id bigint, name text, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.of_dataset_id, d.name, c.codes, c.people
    FROM dbanon_internal.copies_of(dataset_id) c
    JOIN ONLY dbanon.dataset d ON d.dataset_id = c.of_dataset_id
    WHERE EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = c.of_dataset_id)
    ORDER BY c.of_dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.copied_from(bigint) IS
'Finds the datasets with releases, withdrawn ones too, of which this one has fixes under other names.';

CREATE OR REPLACE FUNCTION dbanon_internal.copied_notices(dataset_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN c.of_dataset_id = copied_notices.dataset_id
        THEN 'Fixes of this dataset are in it under two names each: people would hide among copies of themselves. Load it without the copies.'
        ELSE format('Fixes of dataset ''%s'' are in this one under other names, or in another population. Once that one has a release, this '
                    'one is published only with a reason: what both say of one person would not be compared.', d.name) END
    FROM dbanon_internal.copies_of(dataset_id) c
    JOIN ONLY dbanon.dataset d ON d.dataset_id = c.of_dataset_id
    ORDER BY c.of_dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.copied_notices(bigint) IS
'Says of which datasets this one is a copy under other names.';

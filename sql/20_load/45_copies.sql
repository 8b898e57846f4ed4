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
    INSERT INTO dbanon.fix_code (dataset_id, person, code, trajectory_id)
        -- Fixes are taken apart once, in their order; only where one is kept its neighbours are looked at. OFFSET 0 keeps the planner
        -- from computing an expression once for each use of it.
        WITH hashed AS (
            SELECT a.dataset_id, a.subject, a.trajectory_id, (
                SELECT array_agg(hashfloat8extended(round(@postgis@.ST_Y(p.geom)), hashfloat8extended(
                    round(@postgis@.ST_X(p.geom)), hashfloat8extended(round(@postgis@.ST_M(p.geom)), seed))))
                FROM @postgis@.ST_DumpPoints(a.path) p) AS fixes
            -- A sample of a dataset is no copy of it that could be published.
            FROM added a WHERE EXISTS (SELECT FROM ONLY dbanon.dataset d WHERE d.dataset_id = a.dataset_id AND d.sample_of IS NULL) OFFSET 0
        ), kept AS MATERIALIZED (
            SELECT h.dataset_id, h.subject, h.trajectory_id, CASE WHEN cardinality(h.fixes) < 3 THEN u.fix
                ELSE hashint8extended(h.fixes[u.place], hashint8extended(h.fixes[u.place - 1], h.fixes[u.place + 1])) END AS code
            FROM hashed h CROSS JOIN LATERAL unnest(h.fixes) WITH ORDINALITY u (fix, place)
            WHERE u.fix % CASE WHEN cardinality(h.fixes) < 3 THEN 8 ELSE 64 END = 0
        ), named AS (
            SELECT t.dataset_id, dbanon_internal.person_code(d.key, t.subject) AS person, t.code, min(t.trajectory_id) AS trajectory_id
            FROM kept t
            JOIN (SELECT s.dataset_id, dbanon_internal.dataset_key(s.dataset_id) AS key
                  FROM (SELECT DISTINCT dataset_id FROM kept) s OFFSET 0) d USING (dataset_id)
            WHERE t.code IS NOT NULL GROUP BY t.dataset_id, 2, t.code
        )
        SELECT n.dataset_id, n.person, n.code, n.trajectory_id FROM named n
        -- By the index, whatever the planner knows of codes: OFFSET 0 keeps it from reading all of them.
        WHERE NOT EXISTS (SELECT FROM ONLY dbanon.fix_code f
                          WHERE f.code = n.code AND f.dataset_id = n.dataset_id AND f.person = n.person OFFSET 0);
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

CREATE OR REPLACE FUNCTION dbanon_internal.copies_of(dataset_id bigint, newest_before bigint DEFAULT NULL)
RETURNS TABLE (of_dataset_id bigint, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET enable_nestloop = off
AS $$
    -- Right after a load the planner knows nothing of its codes, and would compare each with each.
    WITH own AS MATERIALIZED (
        SELECT f.code FROM ONLY dbanon.fix_code f WHERE newest_before IS NULL AND f.dataset_id = copies_of.dataset_id
        UNION ALL
        SELECT f.code FROM ONLY dbanon.fix_code f WHERE f.trajectory_id > newest_before AND f.dataset_id = copies_of.dataset_id
    ), drawn AS MATERIALIZED (
        -- Of very many codes, which are as good as random, some 200,000 will do.
        SELECT greatest(count(*) / 200000, 1) AS one_in FROM own
    ), found AS MATERIALIZED (
        -- Each by the index, since there may be very many others.
        SELECT f.dataset_id, o.code, f.person
        FROM (SELECT DISTINCT w.code FROM own w WHERE w.code % (SELECT d.one_in FROM drawn d) = 0) o
        CROSS JOIN LATERAL (SELECT c.dataset_id, c.person FROM ONLY dbanon.fix_code c WHERE c.code = o.code OFFSET 0) f
    ), mine AS MATERIALIZED (
        -- Triggers write a code of a name once, so rows are names.
        SELECT f.code, min(f.person) AS first, max(f.person) AS last, count(*) AS names
        FROM found f WHERE f.dataset_id = copies_of.dataset_id GROUP BY f.code
    ), met AS MATERIALIZED (
        -- Codes that another dataset has, too, and not under the very same names.
        SELECT t.dataset_id, m.first, m.names AS mine, t.names AS theirs
        FROM (SELECT f.dataset_id, f.code, min(f.person) AS first, max(f.person) AS last, count(*) AS names
              FROM found f WHERE f.dataset_id <> copies_of.dataset_id GROUP BY f.dataset_id, f.code) t
        JOIN mine m ON m.code = t.code
        WHERE (m.first, m.last) <> (t.first, t.last)
    ), counted AS MATERIALIZED (
        -- How many codes are under so many names: of all codes of this dataset and of each that may be concerned; and of those that both
        -- have, here and there.
        SELECT copies_of.dataset_id AS dataset_id, 'all' AS kind, m.names, count(*) AS codes FROM mine m GROUP BY m.names
        UNION ALL
        SELECT c.dataset_id, 'all', c.names, count(*)
        FROM (SELECT f.dataset_id, count(*) AS names
              FROM ONLY dbanon.fix_code f
              WHERE f.dataset_id = ANY (ARRAY(SELECT m.dataset_id FROM met m GROUP BY m.dataset_id HAVING count(*) >= 5))
                  AND f.code % (SELECT d.one_in FROM drawn d) = 0
              GROUP BY f.dataset_id, f.code) c
        GROUP BY c.dataset_id, c.names
        UNION ALL
        SELECT m.dataset_id, side.kind, side.names, count(*)
        FROM met m CROSS JOIN LATERAL (VALUES ('here', m.mine), ('there', m.theirs)) side (kind, names)
        GROUP BY m.dataset_id, side.kind, side.names
    ), spread AS (
        SELECT c.dataset_id, c.kind, c.names, c.codes, sum(c.codes) OVER every AS every,
            coalesce(sum(c.codes) OVER (every ORDER BY c.names RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING), 0) AS fewer,
            coalesce(sum(c.codes) OVER (every ORDER BY c.names RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) AS more
        FROM counted c WINDOW every AS (PARTITION BY c.dataset_id, c.kind)
    ), explained AS (
        -- Of the codes under one name fewer, only as many as chance explains count as chance below: the others are copies themselves.
        SELECT s.*, coalesce(sum(CASE WHEN s.names = 1 THEN s.codes ELSE least(s.codes,
                sqrt((s.names + 1) / s.names::float8 * (s.fewer + 3) * (s.more + 3))) END)
            OVER (PARTITION BY s.dataset_id, s.kind ORDER BY s.names RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING), 0) AS by_chance
        FROM spread s
    ), doubled AS MATERIALIZED (
        -- How many names a person has. Different people who meet by chance, more of them at some places than at others, make a mixture of
        -- Poisson distributions: the numbers n(j) of codes under j names satisfy n(j)^2 <= (j + 1) / j n(j - 1) n(j + 1). Copies do not:
        -- where people have three names each, n(3) is great, and n(2) and n(4) are small. So j names are those of one person where n(j) is
        -- greater than that by a tenth of all codes; few codes vary, so 3 are added to each neighbour.
        SELECT s.dataset_id, s.kind, coalesce(max(s.names) FILTER (WHERE s.names > 1 AND s.codes >= 5
            AND s.codes - sqrt((s.names + 1) / s.names::float8 * (s.by_chance + 3) * (s.more + 3)) >= 0.1 * s.every), 1) AS names
        FROM explained s GROUP BY s.dataset_id, s.kind
    ), pair AS MATERIALIZED (
        -- Of few people with two names among many with one only the codes that both datasets have tell.
        SELECT t.dataset_id, greatest(i.names, h.names) AS mine, greatest(t.names, o.names) AS theirs
        FROM doubled t
        JOIN doubled i ON i.dataset_id = copies_of.dataset_id AND i.kind = 'all'
        JOIN doubled h ON h.dataset_id = t.dataset_id AND h.kind = 'here'
        JOIN doubled o ON o.dataset_id = t.dataset_id AND o.kind = 'there'
        WHERE t.dataset_id <> copies_of.dataset_id AND t.kind = 'all'
    ), judged AS (
        -- A code is of one person where it is under no more names than a person has.
        SELECT p.dataset_id, min(c.single) AS fewer, least(0.5, 5 * max(1 - c.single / c.every)) AS by_chance
        FROM pair p
        CROSS JOIN LATERAL (
            SELECT sum(c.codes) FILTER (WHERE c.names <= CASE WHEN c.dataset_id = p.dataset_id THEN p.theirs ELSE p.mine END)::float8 AS single,
                sum(c.codes)::float8 AS every
            FROM counted c
            WHERE c.dataset_id IN (p.dataset_id, copies_of.dataset_id) AND c.kind = 'all' GROUP BY c.dataset_id) c
        GROUP BY p.dataset_id
    )
    -- A code is shared where it is of one person in each of the two datasets. Positions on a coarse grid, and
    -- people who stand at one place at one time, share codes by chance, about as often between datasets as within one: on generated cities
    -- and taxis at 1 m to 1 km, two halves of the people shared at most twice what several people of one half did, and at most 13 %. A copy
    -- has 5 times as much, and 1 %; half is always enough. A standard deviation is added, since codes that chance shares may be few.
    SELECT s.dataset_id, s.codes, s.people
    FROM (SELECT m.dataset_id, count(*) AS codes, count(DISTINCT m.first) AS people
          FROM met m JOIN pair p ON p.dataset_id = m.dataset_id AND m.mine <= p.mine AND m.theirs <= p.theirs
          GROUP BY m.dataset_id) s
    JOIN judged j USING (dataset_id)
    WHERE s.codes >= 5 AND s.codes >= j.fewer * greatest(0.01, j.by_chance) + sqrt(j.fewer * j.by_chance)
    UNION ALL
    -- The dataset itself, where people have several names in it.
    SELECT copies_of.dataset_id, count(*), count(DISTINCT m.first)
    FROM mine m JOIN doubled d ON d.dataset_id = copies_of.dataset_id AND d.kind = 'all' AND m.names BETWEEN 2 AND d.names
    HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.copies_of(bigint, bigint) IS
'Finds the datasets, the same one too, of which this one has fixes under other names, or its trajectories since a number have: how many codes
are shared, by how many people.';

CREATE OR REPLACE FUNCTION dbanon_internal.copied_from(dataset_id bigint) RETURNS TABLE (
    of_dataset_id bigint, name text, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.of_dataset_id, d.name, c.codes, c.people
    FROM dbanon_internal.copies_of(dataset_id) c
    JOIN ONLY dbanon.dataset d ON d.dataset_id = c.of_dataset_id
    WHERE c.of_dataset_id = copied_from.dataset_id
        OR EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = c.of_dataset_id)
    ORDER BY c.of_dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.copied_from(bigint) IS
'Finds what a release of this dataset needs a reason for: the datasets with releases, withdrawn ones too, of which it has fixes under other
names; and itself, where people have several names in it.';

CREATE OR REPLACE FUNCTION dbanon_internal.subjects_of(dataset_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE STRICT ROWS 1000
SET search_path = pg_catalog, pg_temp
AS $$
    -- From one name to the next along the index: a dataset that grows has few names and very many trajectories.
    WITH RECURSIVE named (subject) AS (
        SELECT min(t.subject) FROM ONLY dbanon.trajectory t WHERE t.dataset_id = subjects_of.dataset_id
        UNION ALL
        SELECT (SELECT min(t.subject) FROM ONLY dbanon.trajectory t WHERE t.dataset_id = subjects_of.dataset_id AND t.subject > n.subject)
        FROM named n WHERE n.subject IS NOT NULL
    )
    SELECT n.subject FROM named n WHERE n.subject IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.subjects_of(bigint) IS
'Lists the names of a dataset''s subjects, each once.';

CREATE OR REPLACE FUNCTION dbanon_internal.named_in(dataset_id bigint, newest_before bigint) RETURNS TABLE (
    population_id bigint, name text, subjects bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Nothing is compared unless the load brought a name that is new to the population, and of another population no more than up to the
    -- first name that it does not have.
    WITH own AS MATERIALIZED (
        SELECT d.population_id FROM ONLY dbanon.dataset d WHERE d.dataset_id = named_in.dataset_id AND NOT d.own_subjects
    ), named AS MATERIALIZED (
        SELECT s.subject FROM dbanon_internal.subjects_of(named_in.dataset_id) s (subject) CROSS JOIN own
        WHERE EXISTS (
            -- In the order of their numbers, whose index leads to them, and not in that of names.
            SELECT FROM (SELECT DISTINCT o.subject FROM (
                SELECT t.subject FROM ONLY dbanon.trajectory t
                WHERE t.dataset_id = named_in.dataset_id AND t.trajectory_id > named_in.newest_before ORDER BY t.trajectory_id OFFSET 0) o) n
            -- OFFSET 0: each by the index, where a hash would be of all trajectories.
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.dataset e JOIN ONLY dbanon.trajectory o ON o.dataset_id = e.dataset_id
                              WHERE e.population_id = (SELECT w.population_id FROM own w) AND NOT e.own_subjects
                                  AND o.subject = n.subject AND o.trajectory_id <= named_in.newest_before OFFSET 0))
    ), dropped AS MATERIALIZED (
        -- Of datasets that were published and dropped, the codes of people are left.
        SELECT DISTINCT d.population_id, s.person
        FROM ONLY dbanon.dataset d
        JOIN ONLY dbanon.run r ON r.dataset_id = d.dataset_id
        JOIN ONLY dbanon.release l ON l.run_id = r.run_id
        CROSS JOIN LATERAL (SELECT unnest(g.people) AS person FROM ONLY dbanon.grouping g WHERE g.release_id = l.release_id
                            UNION ALL
                            SELECT e.person FROM ONLY dbanon.exposure e WHERE e.release_id = l.release_id) s
        WHERE d.dropped_at IS NOT NULL AND NOT d.own_subjects
    )
    SELECT p.population_id, p.name, (SELECT count(*) FROM named)
    FROM ONLY dbanon.population p
    WHERE p.population_id <> (SELECT w.population_id FROM own w) AND EXISTS (SELECT FROM named)
        AND EXISTS (SELECT FROM ONLY dbanon.dataset d WHERE d.population_id = p.population_id AND NOT d.own_subjects)
        AND NOT EXISTS (
            SELECT FROM named n
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.dataset d JOIN ONLY dbanon.trajectory t ON t.dataset_id = d.dataset_id
                              WHERE d.population_id = p.population_id AND NOT d.own_subjects AND t.subject = n.subject)
                AND (p.population_id, dbanon_internal.person_code(p.key, n.subject)) NOT IN (SELECT g.population_id, g.person FROM dropped g))
$$;
COMMENT ON FUNCTION dbanon_internal.named_in(bigint, bigint) IS
'Finds the other populations in which there are all names of a dataset, if trajectories since a number brought one that its own had not.';

CREATE OR REPLACE FUNCTION dbanon_internal.copied_notices(dataset_id bigint, newest_before bigint, load_id bigint DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found CONSTANT bigint[] := ARRAY(SELECT c.of_dataset_id FROM dbanon_internal.copies_of(dataset_id, newest_before) c ORDER BY 1);
    news bigint[];
BEGIN
    -- A dataset that is a copy is one every night: what a load has said whose rows are there still is not said again.
    UPDATE ONLY dbanon.load l SET copies = found
        WHERE l.load_id = copied_notices.load_id AND l.dataset_id = copied_notices.dataset_id AND l.loaded_at = now() AND l.loaded_by = session_user
            AND found <> '{}';
    news := ARRAY(
        SELECT f.id FROM unnest(found) f (id)
        WHERE NOT EXISTS (
            SELECT FROM ONLY dbanon.load l
            WHERE l.dataset_id = copied_notices.dataset_id AND l.load_id < copied_notices.load_id AND f.id = ANY (l.copies)
                AND EXISTS (SELECT FROM ONLY dbanon.trajectory t WHERE t.dataset_id = l.dataset_id AND t.load_id = l.load_id)));
    RETURN QUERY
    SELECT 'Fixes of this dataset are in it under several names each: people would hide among copies of themselves. It is published only with a '
        'reason. Load it without the copies.'
    WHERE copied_notices.dataset_id = ANY (news)
    UNION ALL
    SELECT format('Fixes of dataset%s %s are in this one under other names, or in another population. Once one of them has a release, this one is '
        'published only with a reason: their rows of one person would not be compared.', CASE WHEN count(*) > 1 THEN 's' END,
                  dbanon_internal.name_some(array_agg(format('''%s''', d.name) ORDER BY d.dataset_id)))
    FROM ONLY dbanon.dataset d WHERE d.dataset_id = ANY (news) AND d.dataset_id <> copied_notices.dataset_id HAVING count(*) > 0
    UNION ALL
    SELECT format('All names of people in this dataset (%s) are also in %s: %s. That is right for two fleets with equal numbers. If they are the '
        'same people, load them into the same population: releases are not compared across populations.',
                  dbanon_internal.format_count(max(n.subjects)), CASE WHEN count(*) > 1 THEN 'other populations' ELSE 'another population' END,
                  dbanon_internal.name_some(array_agg(format('''%s''', n.name) ORDER BY n.population_id)))
    FROM dbanon_internal.named_in(copied_notices.dataset_id, newest_before) n
    WHERE n.population_id NOT IN (SELECT d.population_id FROM ONLY dbanon.dataset d WHERE d.dataset_id = ANY (found)) HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION dbanon_internal.copied_notices(bigint, bigint, bigint) IS
'Says of which datasets this one is a copy under other names, except what an earlier load has said, and that its names are those of another population.';

-- Copies under other names: a subject's fixes, loaded again as another person's, are recognised by keyed hashes of some of them.
--
-- A code is the hash of three successive fixes of a trajectory: of their whole seconds and metres, so that a copy may name other
-- subjects, be cut elsewhere and come in another order. It is kept where the middle fix's hash is 0 modulo 64. A trajectory of one or
-- two fixes has the hashes of these, kept where they are 0 modulo 8. No adversary sees codes, so a fast hash with a secret seed will do.
-- Triggers write them, so that no way of writing trajectories leaves them out.
--
-- How many names has a person? n(j) codes are under j names. Different people who meet by chance, more of them at some places than at others, make a
-- mixture of Poisson distributions, for which n(j)^2 <= (j + 1) / j n(j - 1) n(j + 1). Copies break this inequality:
--   a crowd on a coarse grid    n(1) 900   n(2) 90   n(3) 9    90^2 = 8,100 <= 3 / 2 * 900 * 9 = 12,150: a person has one name
--   people with three names     n(1) 5     n(2) 3    n(3) 800  n(4) 2    800^2 = 640,000 > 4 / 3 * 3 * 2 = 8: a person has three
-- It is a matter of degree: n(j) counts where it is greater than the root of the right side by a tenth of all codes.

CREATE OR REPLACE FUNCTION dbanon_internal.code_fixes() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    seed bigint;
BEGIN
    -- Of what was deleted or renamed, codes go with the last row of the subject; those of a dataset that was ever published stay.
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM ONLY dbanon.fix_code code WHERE NOT EXISTS (
            SELECT FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id WHERE run.dataset_id = code.dataset_id);
        RETURN NULL;
    ELSIF TG_OP IN ('DELETE', 'UPDATE') THEN
        DELETE FROM ONLY dbanon.fix_code code USING (
            SELECT DISTINCT changed.dataset_id, dbanon_internal.hash_person(key.key, changed.subject) AS person
            FROM (SELECT dat.dataset_id, dbanon_internal.find_dataset_key(dat.dataset_id) AS key FROM (SELECT DISTINCT dataset_id FROM changed) dat
                  WHERE NOT EXISTS (SELECT FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
                                    WHERE run.dataset_id = dat.dataset_id) OFFSET 0) key
            JOIN changed ON changed.dataset_id = key.dataset_id
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.trajectory tra
                              WHERE tra.dataset_id = changed.dataset_id AND tra.subject = changed.subject)) gone
            WHERE code.dataset_id = gone.dataset_id AND code.person = gone.person;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN NULL; END IF;
    SELECT ('x' || encode(substring(ins.key, 1, 8), 'hex'))::bit(64)::bigint INTO STRICT seed FROM ONLY dbanon.installation ins;
    INSERT INTO dbanon.fix_code (dataset_id, person, code, trajectory_id)
        -- Fixes are taken apart once, in their order; only where one is kept its neighbours are looked at. OFFSET 0 keeps the planner
        -- from computing an expression once for each use of it.
        WITH hashed AS (
            SELECT added.dataset_id, added.subject, added.trajectory_id, (
                SELECT array_agg(hashfloat8extended(round(@postgis@.ST_Y(point.geom)), hashfloat8extended(
                    round(@postgis@.ST_X(point.geom)), hashfloat8extended(round(@postgis@.ST_M(point.geom)), seed))))
                FROM @postgis@.ST_DumpPoints(added.path) point) AS fixes
            -- A sample of a dataset is no copy of it that could be published.
            FROM added WHERE EXISTS (SELECT FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = added.dataset_id AND dat.sample_of IS NULL) OFFSET 0
        ), kept AS MATERIALIZED (
            SELECT hashed.dataset_id, hashed.subject, hashed.trajectory_id, CASE WHEN cardinality(hashed.fixes) < 3 THEN ele.fix
                ELSE hashint8extended(hashed.fixes[ele.place], hashint8extended(hashed.fixes[ele.place - 1], hashed.fixes[ele.place + 1])) END AS code
            FROM hashed CROSS JOIN LATERAL unnest(hashed.fixes) WITH ORDINALITY ele (fix, place)
            WHERE ele.fix % CASE WHEN cardinality(hashed.fixes) < 3 THEN 8 ELSE 64 END = 0
        ), named AS (
            SELECT kept.dataset_id, dbanon_internal.hash_person(key.key, kept.subject) AS person, kept.code, min(kept.trajectory_id) AS trajectory_id
            FROM kept
            JOIN (SELECT dat.dataset_id, dbanon_internal.find_dataset_key(dat.dataset_id) AS key
                  FROM (SELECT DISTINCT dataset_id FROM kept) dat OFFSET 0) key USING (dataset_id)
            WHERE kept.code IS NOT NULL GROUP BY kept.dataset_id, 2, kept.code
        )
        SELECT named.dataset_id, named.person, named.code, named.trajectory_id FROM named
        -- By the index, whatever the planner knows of codes: OFFSET 0 keeps it from reading all of them.
        WHERE NOT EXISTS (SELECT FROM ONLY dbanon.fix_code code
                          WHERE code.code = named.code AND code.dataset_id = named.dataset_id AND code.person = named.person OFFSET 0);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.code_fixes IS
'Keeps the codes of trajectories that are written, and deletes those of subjects of which nothing is left, in datasets never published.';

CREATE OR REPLACE FUNCTION dbanon_internal.recode_people() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- As dbanon_internal.find_dataset_key made it, which sees the new row.
    old_key CONSTANT bytea := (
        SELECT CASE WHEN OLD.own_subjects THEN sha256(pop.key || int8send(OLD.dataset_id)) ELSE pop.key END
        FROM ONLY dbanon.population pop WHERE pop.population_id = OLD.population_id);
    new_key CONSTANT bytea := dbanon_internal.find_dataset_key(OLD.dataset_id);
BEGIN
    UPDATE ONLY dbanon.fix_code code SET person = dbanon_internal.hash_person(new_key, gone.subject)
        FROM (SELECT DISTINCT tra.subject FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = OLD.dataset_id) gone
        WHERE code.dataset_id = OLD.dataset_id AND code.person = dbanon_internal.hash_person(old_key, gone.subject);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.recode_people IS 'Gives the codes of a dataset the people of its new population.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_copies(dataset_id bigint, newest_before bigint DEFAULT NULL)
RETURNS TABLE (of_dataset_id bigint, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET work_mem = '256MB' SET enable_nestloop = off
AS $$
    -- Dataset 7 was loaded; dataset 3 has codes, too. Which people of 7 are people of 3 under other names?
    --   in:   codes          7 Ann 11, 12, 13    7 Bob 14    3 Xen 11, 12, 13    3 Yul 99
    --   met:  codes of both, not under the same names: 11, 12, 13, each under one name here and one there; by chance there would be next to none
    --   out:  3, 3 codes, 1 person (if there were 5 codes: fewer say nothing)
    -- Right after a load the planner knows nothing of its codes, and would compare each with each.
    WITH own AS MATERIALIZED (
        SELECT code.code, code.person FROM ONLY dbanon.fix_code code WHERE newest_before IS NULL AND code.dataset_id = find_copies.dataset_id
        UNION ALL
        SELECT code.code, NULL FROM ONLY dbanon.fix_code code WHERE code.trajectory_id > newest_before AND code.dataset_id = find_copies.dataset_id
    ), thinning AS MATERIALIZED (
        -- Of very many codes, which are as good as random, some 200,000 will do.
        SELECT greatest(count(*) / 200000, 1) AS one_in FROM own
    ), found AS MATERIALIZED (
        -- Where all codes of this dataset were read, their holders in it are known.
        SELECT find_copies.dataset_id AS dataset_id, own.code, own.person FROM own
        WHERE newest_before IS NULL AND own.code % (SELECT thinning.one_in FROM thinning) = 0
        UNION ALL
        -- Other holders of each by the index, since there may be very many other codes. Nothing is looked up if all are of this dataset.
        SELECT holder.dataset_id, sample.code, holder.person
        FROM (SELECT DISTINCT own.code FROM own WHERE own.code % (SELECT thinning.one_in FROM thinning) = 0 AND (newest_before IS NOT NULL OR (
            SELECT min(code.dataset_id) < max(code.dataset_id) FROM ONLY dbanon.fix_code code))) sample
        CROSS JOIN LATERAL (
            SELECT code.dataset_id, code.person FROM ONLY dbanon.fix_code code
            WHERE code.code = sample.code AND (newest_before IS NOT NULL OR code.dataset_id <> find_copies.dataset_id) OFFSET 0) holder
    ), mine AS MATERIALIZED (
        -- Triggers write a code of a name once, so rows are names.
        SELECT found.code, min(found.person) AS first, max(found.person) AS last, count(*) AS names
        FROM found WHERE found.dataset_id = find_copies.dataset_id GROUP BY found.code
    ), met AS MATERIALIZED (
        -- Codes that another dataset has, too, and not under the very same names.
        SELECT theirs.dataset_id, mine.first, mine.names AS mine, theirs.names AS theirs
        FROM (SELECT found.dataset_id, found.code, min(found.person) AS first, max(found.person) AS last, count(*) AS names
              FROM found WHERE found.dataset_id <> find_copies.dataset_id GROUP BY found.dataset_id, found.code) theirs
        JOIN mine ON mine.code = theirs.code
        WHERE (mine.first, mine.last) <> (theirs.first, theirs.last)
    ), counted AS MATERIALIZED (
        -- How many codes are under so many names: of all codes of this dataset and of each that may be concerned; and of those that both
        -- have, here and there.
        SELECT find_copies.dataset_id AS dataset_id, 'all' AS kind, mine.names, count(*) AS codes FROM mine GROUP BY mine.names
        UNION ALL
        SELECT shared.dataset_id, 'all', shared.names, count(*)
        FROM (SELECT code.dataset_id, count(*) AS names
              FROM ONLY dbanon.fix_code code
              WHERE code.dataset_id = ANY (ARRAY(SELECT met.dataset_id FROM met GROUP BY met.dataset_id HAVING count(*) >= 5))
                  AND code.code % (SELECT thinning.one_in FROM thinning) = 0
              GROUP BY code.dataset_id, code.code) shared
        GROUP BY shared.dataset_id, shared.names
        UNION ALL
        SELECT met.dataset_id, side.kind, side.names, count(*)
        FROM met CROSS JOIN LATERAL (VALUES ('here', met.mine), ('there', met.theirs)) side (kind, names)
        GROUP BY met.dataset_id, side.kind, side.names
    ), spread AS (
        SELECT counted.dataset_id, counted.kind, counted.names, counted.codes, sum(counted.codes) OVER total AS total,
            coalesce(sum(counted.codes) FILTER (WHERE counted.names = 1) OVER total, 0) AS singles,
            coalesce(sum(counted.codes) OVER (total ORDER BY counted.names RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING), 0) AS fewer,
            coalesce(sum(counted.codes) OVER (total ORDER BY counted.names RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) AS more
        FROM counted WINDOW total AS (PARTITION BY counted.dataset_id, counted.kind)
    ), explained AS (
        -- Of the codes under one name fewer, only as many as chance explains count as chance below: the others are copies themselves.
        SELECT spread.*, coalesce(sum(CASE WHEN spread.names = 1 THEN spread.codes ELSE least(spread.codes,
                sqrt((spread.names + 1) / spread.names::float8 * (spread.fewer + 3) * (spread.more + 3))) END)
            OVER (PARTITION BY spread.dataset_id, spread.kind ORDER BY spread.names RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING), 0) AS by_chance
        FROM spread
    ), doubled AS MATERIALIZED (
        -- How many names a person has, by the inequality at the head of this file. Few codes vary, so 3 are added to each neighbour; and 1.5
        -- times the root of the codes under other numbers of names than j and one, which only crowds on coarse grids have many of.
        SELECT exp.dataset_id, exp.kind, coalesce(max(exp.names) FILTER (WHERE exp.names > 1 AND exp.codes >= 5
            AND exp.codes - sqrt((exp.names + 1) / exp.names::float8 * (exp.by_chance + 3) * (exp.more + 3))
                >= greatest(0.1 * exp.total, 1.5 * sqrt(exp.total - exp.codes - exp.singles))), 1) AS names
        FROM explained exp GROUP BY exp.dataset_id, exp.kind
    ), pair AS MATERIALIZED (
        -- Of few people with two names among many with one only the codes that both datasets have tell.
        SELECT whole.dataset_id, greatest(ours.names, here.names) AS mine, greatest(whole.names, there.names) AS theirs
        FROM doubled whole
        JOIN doubled ours ON ours.dataset_id = find_copies.dataset_id AND ours.kind = 'all'
        JOIN doubled here ON here.dataset_id = whole.dataset_id AND here.kind = 'here'
        JOIN doubled there ON there.dataset_id = whole.dataset_id AND there.kind = 'there'
        WHERE whole.dataset_id <> find_copies.dataset_id AND whole.kind = 'all'
    ), judged AS (
        -- A code is of one person where it is under no more names than a person has.
        SELECT pair.dataset_id, min(rate.single) AS fewer, least(0.5, 5 * max(1 - rate.single / rate.total)) AS by_chance
        FROM pair
        CROSS JOIN LATERAL (
            SELECT sum(counted.codes) FILTER (
                    WHERE counted.names <= CASE WHEN counted.dataset_id = pair.dataset_id THEN pair.theirs ELSE pair.mine END)::float8 AS single,
                sum(counted.codes)::float8 AS total
            FROM counted
            WHERE counted.dataset_id IN (pair.dataset_id, find_copies.dataset_id) AND counted.kind = 'all' GROUP BY counted.dataset_id) rate
        GROUP BY pair.dataset_id
    )
    -- A code is shared where it is of one person in each of the two datasets. Positions on a coarse grid, and
    -- people who stand at one place at one time, share codes by chance, about as often between datasets as within one: on generated cities
    -- and taxis at 1 m to 1 km, two halves of the people shared at most twice what several people of one half did, and at most 13 %. A copy
    -- has 5 times as much, and 1 %; half of very many is enough. A standard deviation is added, since codes that chance shares may be few.
    SELECT shared.dataset_id, shared.codes, shared.people
    FROM (SELECT met.dataset_id, count(*) AS codes, count(DISTINCT met.first) AS people
          FROM met JOIN pair ON pair.dataset_id = met.dataset_id AND met.mine <= pair.mine AND met.theirs <= pair.theirs
          GROUP BY met.dataset_id) shared
    JOIN judged USING (dataset_id)
    WHERE shared.codes >= 5 AND shared.codes >= judged.fewer * greatest(0.01, judged.by_chance) + sqrt(judged.fewer * judged.by_chance)
    UNION ALL
    -- The dataset itself, where people have several names in it.
    SELECT find_copies.dataset_id, count(*), count(DISTINCT mine.first)
    FROM mine JOIN doubled ON doubled.dataset_id = find_copies.dataset_id AND doubled.kind = 'all' AND mine.names BETWEEN 2 AND doubled.names
    HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.find_copies IS
'Finds the datasets, the same one too, of which this one has fixes under other names, or its trajectories since a number have: how many codes
are shared, by how many people.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_published_copies(dataset_id bigint) RETURNS TABLE (
    of_dataset_id bigint, name text, codes bigint, people bigint)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.of_dataset_id, d.name, c.codes, c.people
    FROM dbanon_internal.find_copies(dataset_id) c
    JOIN ONLY dbanon.dataset d ON d.dataset_id = c.of_dataset_id
    WHERE c.of_dataset_id = find_published_copies.dataset_id
        OR EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = c.of_dataset_id)
    ORDER BY c.of_dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_published_copies IS
'Finds what a release of this dataset needs a reason for: the datasets with releases, withdrawn ones too, of which it has fixes under other
names; and itself, where people have several names in it.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_subjects(dataset_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE STRICT ROWS 1000 SET search_path = pg_catalog, pg_temp AS $$
    -- From one name to the next along the index: a dataset that grows has few names and very many trajectories.
    WITH RECURSIVE named (subject) AS (
        SELECT min(t.subject) FROM ONLY dbanon.trajectory t WHERE t.dataset_id = list_subjects.dataset_id
        UNION ALL
        SELECT (SELECT min(t.subject) FROM ONLY dbanon.trajectory t WHERE t.dataset_id = list_subjects.dataset_id AND t.subject > n.subject)
        FROM named n WHERE n.subject IS NOT NULL
    )
    SELECT n.subject FROM named n WHERE n.subject IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.list_subjects IS 'Lists the names of a dataset''s subjects, each once.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_named_populations(dataset_id bigint, newest_before bigint) RETURNS TABLE (
    population_id bigint, name text, subjects bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Dataset 7 of fleet-a has Ann and Bob, and its load brought Bob. In which other populations are all its names?
    --   in:   own names      Ann, Bob; Bob is new to fleet-a
    --   others               fleet-b has Ann, Bob, Cid;  fleet-c has Ann: its first missing name ends the search
    --   out:  fleet-b, 2 names
    -- Nothing is compared unless the load brought a name that is new to the population, and of another population no more than up to the
    -- first name that it does not have.
    WITH own AS MATERIALIZED (
        SELECT dat.population_id FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = find_named_populations.dataset_id AND NOT dat.own_subjects
    ), named AS MATERIALIZED (
        SELECT sub.subject FROM dbanon_internal.list_subjects(find_named_populations.dataset_id) sub (subject) CROSS JOIN own
        WHERE EXISTS (
            -- In the order of their numbers, whose index leads to them, and not in that of names.
            SELECT FROM (SELECT DISTINCT added.subject FROM (
                SELECT tra.subject FROM ONLY dbanon.trajectory tra
                WHERE tra.dataset_id = find_named_populations.dataset_id AND tra.trajectory_id > find_named_populations.newest_before
                ORDER BY tra.trajectory_id OFFSET 0) added) nam
            -- OFFSET 0: each by the index, where a hash would be of all trajectories.
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.dataset dat JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = dat.dataset_id
                              WHERE dat.population_id = (SELECT own.population_id FROM own) AND NOT dat.own_subjects
                                  AND tra.subject = nam.subject AND tra.trajectory_id <= find_named_populations.newest_before OFFSET 0))
    ), dropped AS MATERIALIZED (
        -- Of datasets that were published and dropped, the codes of people are left.
        SELECT DISTINCT dat.population_id, stated.person
        FROM ONLY dbanon.dataset dat
        JOIN ONLY dbanon.run run ON run.dataset_id = dat.dataset_id
        JOIN ONLY dbanon.release rel ON rel.run_id = run.run_id
        CROSS JOIN LATERAL (SELECT unnest(gro.people) AS person FROM ONLY dbanon.grouping gro WHERE gro.release_id = rel.release_id
                            UNION ALL
                            SELECT exp.person FROM ONLY dbanon.exposure exp WHERE exp.release_id = rel.release_id) stated
        WHERE dat.dropped_at IS NOT NULL AND NOT dat.own_subjects
    )
    SELECT pop.population_id, pop.name, (SELECT count(*) FROM named)
    FROM ONLY dbanon.population pop
    WHERE pop.population_id <> (SELECT own.population_id FROM own) AND EXISTS (SELECT FROM named)
        AND EXISTS (SELECT FROM ONLY dbanon.dataset dat WHERE dat.population_id = pop.population_id AND NOT dat.own_subjects)
        AND NOT EXISTS (
            SELECT FROM named
            WHERE NOT EXISTS (SELECT FROM ONLY dbanon.dataset dat JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = dat.dataset_id
                              WHERE dat.population_id = pop.population_id AND NOT dat.own_subjects AND tra.subject = named.subject)
                AND (pop.population_id, dbanon_internal.hash_person(pop.key, named.subject))
                    NOT IN (SELECT dropped.population_id, dropped.person FROM dropped))
$$;
COMMENT ON FUNCTION dbanon_internal.find_named_populations IS
'Finds the other populations in which there are all names of a dataset, if trajectories since a number brought one that its own had not.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_copies(dataset_id bigint, newest_before bigint, load_id bigint DEFAULT NULL) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found CONSTANT bigint[] := ARRAY(SELECT cop.of_dataset_id FROM dbanon_internal.find_copies(dataset_id, newest_before) cop ORDER BY 1);
    news bigint[];
BEGIN
    -- A dataset that is a copy is one every night: what a load has said whose rows are there still is not said again.
    UPDATE ONLY dbanon.load load SET copies = found
        WHERE load.load_id = note_copies.load_id AND load.dataset_id = note_copies.dataset_id AND load.loaded_at = now()
            AND load.loaded_by = session_user
            AND found <> '{}';
    news := ARRAY(
        SELECT ele.id FROM unnest(found) ele (id)
        WHERE NOT EXISTS (
            SELECT FROM ONLY dbanon.load load
            WHERE load.dataset_id = note_copies.dataset_id AND load.load_id < note_copies.load_id AND ele.id = ANY (load.copies)
                AND EXISTS (SELECT FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = load.dataset_id AND tra.load_id = load.load_id)));
    RETURN QUERY
    SELECT 'Fixes of this dataset are in it under several names each: people would hide among copies of themselves. It is published only with a '
        'reason. Load it without the copies.'
    WHERE note_copies.dataset_id = ANY (news)
    UNION ALL
    SELECT format('Fixes of dataset%s %s are in this one under other names, or in another population. Once one of them has a release, this one is '
        'published only with a reason: their rows of one person would not be compared.', CASE WHEN count(*) > 1 THEN 's' END,
                  dbanon_internal.name_some(array_agg(format('''%s''', dat.name) ORDER BY dat.dataset_id)))
    FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = ANY (news) AND dat.dataset_id <> note_copies.dataset_id HAVING count(*) > 0
    UNION ALL
    SELECT format('All names of people in this dataset (%s) are also in %s: %s. That is right for two fleets with equal numbers. If they are the '
        'same people, load them into the same population: releases are not compared across populations.',
                  dbanon_internal.format_count(max(nam.subjects)), CASE WHEN count(*) > 1 THEN 'other populations' ELSE 'another population' END,
                  dbanon_internal.name_some(array_agg(format('''%s''', nam.name) ORDER BY nam.population_id)))
    FROM dbanon_internal.find_named_populations(note_copies.dataset_id, newest_before) nam
    WHERE nam.population_id NOT IN (SELECT dat.population_id FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = ANY (found)) HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_copies IS
'Says of which datasets this one is a copy under other names, except what an earlier load has said, and that its names are those of another population.';

-- What is known of releases: later runs are judged by it, so it must stay as it was published.
--
-- Who may change what, and how. All else is refused, also to the owner and to a superuser, and leaves a line in the server's log:
--   release           dbanon.publish adds, with what it promises (freeze_promise), dbanon.unpublish withdraws once (guard_release); an audit
--                     line each
--   release_<number>  nobody (refuse_change)
--   grouping, asked,  dbanon.publish adds them before the release; dbanon.forget_subject replaces one person's number where
--   exposure          the population has no data of that person any more (guard_groups); an audit line a statement
--   published_cell,   dbanon.publish adds them before the release, nobody changes them (guard_groups)
--   published_atom
--   fix_code          loading adds; dbanon.forget_subject deletes those of the person (guard_codes)
--   method            upgrades write it (guard_methods)
--   population        its key stays once a dataset of it has a release; installation: as soon as there is one (guard_key)
--   dataset, run      population, naming, settle time, method and parameters stay (guard_people, guard_run)
-- Where triggers are switched off, keyed hashes tell: dbanon.release.groups_sum, cells_sum and promise_hash. Of methods, a digest does.

-- BEGIN ATOMIC, so that PostgreSQL inlines it: it is called for millions of rows.
CREATE OR REPLACE FUNCTION dbanon_internal.hash_row(key bytea, period bytea, people bigint[]) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN ('x' || encode(substring(sha256(key || period || array_send(people)), 1, 8), 'hex'))::bit(64)::bigint;
COMMENT ON FUNCTION dbanon_internal.hash_row IS
'64 bits of a keyed hash of a row of dbanon.grouping, exposure or asked: of its period, or content and windows, as they are sent, and its people.';

CREATE OR REPLACE FUNCTION dbanon_internal.replace_person(people bigint[], person bigint, stand_in bigint, members integer) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(ele.person ORDER BY ele.nth > members, ele.person)
    FROM unnest(array_replace(people, person, stand_in)) WITH ORDINALITY ele (person, nth)
$$;
COMMENT ON FUNCTION dbanon_internal.replace_person IS
'The people of a group with another code for one of them, in ascending order again: first those who hide one another (null: all), then guests.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_groups_key(relation text, release_id bigint, dataset_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(convert_to(relation, 'UTF8') || int8send(release_id) || dbanon_internal.find_dataset_key(dataset_id))
$$;
COMMENT ON FUNCTION dbanon_internal.make_groups_key IS
'The key with which the rows that a table has of a release are hashed, made from that of its population, which no operator reads.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_groups_sum(release_id bigint, dataset_id bigint) RETURNS numeric
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET parallel_setup_cost = 0
SET parallel_tuple_cost = 0
AS $$
DECLARE
    grouping_key CONSTANT bytea := dbanon_internal.make_groups_key('grouping', release_id, dataset_id);
    exposure_key CONSTANT bytea := dbanon_internal.make_groups_key('exposure', release_id, dataset_id);
    asked_key CONSTANT bytea := dbanon_internal.make_groups_key('asked', release_id, dataset_id);
BEGIN
    -- A sum depends on no order, and forgetting a person changes a few of its terms. An exclusive or would not see a row that is there twice.
    RETURN (SELECT coalesce(sum(dbanon_internal.hash_row(grouping_key, range_send(gro.period) || coalesce(int4send(gro.members), '')
                || coalesce(array_send(gro.contents), ''), gro.people)), 0)
            FROM ONLY dbanon.grouping gro WHERE gro.release_id = compute_groups_sum.release_id)
         + (SELECT coalesce(sum(dbanon_internal.hash_row(exposure_key, multirange_send(exp.period), ARRAY[exp.person])), 0)
            FROM ONLY dbanon.exposure exp WHERE exp.release_id = compute_groups_sum.release_id)
         + (SELECT coalesce(sum(dbanon_internal.hash_row(asked_key, int8send(ask.content)
                || coalesce(int8send(ask.windows) || int8send(ask.present) || int8send(ask.met), ''), ask.people)), 0)
            FROM ONLY dbanon.asked ask WHERE ask.release_id = compute_groups_sum.release_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_groups_sum IS 'The sum of keyed hashes of what is stored of whom a release speaks, as it is now.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_promise(run_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Of a lost release only its time is known: it is taken for one of places that stands alone. It alone has no k.
    SELECT coalesce(
        (SELECT jsonb_build_object('hides', coalesce(met.traits ->> 'hides', 'place'), 'hidden_by', met.traits -> 'hidden_by', 'k', run.params -> 'k',
                                   'alone', dbanon_internal.stands_alone(run.method, run.algorithm),
                                   'l', coalesce(run.params ->> 'atom_l', run.params ->> 'l'), 't', coalesce(run.params ->> 'atom_t', run.params ->> 't'),
                                   'times', (SELECT range_agg(per.period)::text FROM ONLY dbanon.period per
                                             WHERE per.run_id = run.run_id AND met.traits ->> 'hides' = 'sender'))
         FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method WHERE run.run_id = make_promise.run_id),
        '{"hides": "place", "alone": true}')
$$;
COMMENT ON FUNCTION dbanon_internal.make_promise IS
'What later runs need to know of a run that is published, from its parameters and the traits of its method now; NULL is that of a lost release.';

-- BEGIN ATOMIC, so that PostgreSQL inlines it: it is called for all releases of a population.
CREATE OR REPLACE FUNCTION dbanon_internal.hash_promise(key bytea, release dbanon.release) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN ('x' || encode(substring(sha256(key || record_send(ROW(
    release.release_id, release.span, release.reach, release.content, release.window_s, release.overlap_reason IS NOT NULL, release.extent,
    release.readers, release.series_id, release.bounds,
    convert_to(release.promise::text, 'UTF8')))), 1, 8), 'hex'))::bit(64)::bigint;
COMMENT ON FUNCTION dbanon_internal.hash_promise IS
'64 bits of a hash, with the key of its population, of all in the row of a release by which later runs are compared with it.';

CREATE OR REPLACE FUNCTION dbanon_internal.freeze_promise() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.promise IS NOT NULL THEN  -- taken away: it is not signed again
        RETURN NEW;
    END IF;
    NEW.promise := dbanon_internal.make_promise(NEW.run_id);
    NEW.promise_hash := dbanon_internal.hash_promise(pop.key, NEW) FROM ONLY dbanon.population pop
        WHERE pop.population_id = coalesce(NEW.population_id, (
            SELECT dat.population_id FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
            WHERE run.run_id = NEW.run_id));
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.freeze_promise IS
'Stores what a release promises when it is published, or that of an earlier version at the upgrade, and the keyed hash of its row.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_unchanged_groups(run_id bigint, new_release bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed dbanon.release;
BEGIN
    SELECT rel.* INTO changed
        FROM ONLY dbanon.run own
        JOIN ONLY dbanon.dataset people ON people.dataset_id = own.dataset_id
        JOIN ONLY dbanon.population pop ON pop.population_id = people.population_id
        CROSS JOIN ONLY dbanon.release rel
        LEFT JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        LEFT JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        -- The rows of all, since those say which are compared.
        WHERE own.run_id = demand_unchanged_groups.run_id AND coalesce(rel.population_id, dat.population_id) = pop.population_id
            AND (rel.promise_hash IS DISTINCT FROM dbanon_internal.hash_promise(pop.key, rel)
                OR rel.release_id IN (
                    SELECT known.release_id
                    FROM dbanon_internal.list_compared(demand_unchanged_groups.run_id, demand_unchanged_groups.new_release) known)
                AND rel.groups_sum <> dbanon_internal.compute_groups_sum(rel.release_id, run.dataset_id))
        ORDER BY rel.release_id LIMIT 1;
    IF changed.release_id IS NOT NULL THEN
        RAISE EXCEPTION 'The stored facts of a release must be as they were at its publication, for run % to be compared with it. The facts of % '
            '(number %) were changed since.', demand_unchanged_groups.run_id, changed.name, changed.release_id
            USING ERRCODE = 'DA005', DETAIL = 'Its groups of people, its row, or the key of its population, do not match its keyed hash.',
                  HINT = 'Restore its rows of dbanon.grouping, dbanon.exposure, dbanon.asked and dbanon.release, and the key in dbanon.population, from a backup.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_unchanged_groups IS
'Refuses to compare a run with a release of which not the same is stored as when it was published.';

-- ---- guards

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_known(operation text, relation text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- To the server's log: a line of the audit would go with the transaction that the error ends.
    RAISE LOG 'dbanon: % was refused % on dbanon.%', session_user, operation, relation;
    RAISE EXCEPTION 'The stored facts of a release must stay as they were at its publication. Got % on dbanon.%.', operation, relation
        USING ERRCODE = 'DA006', DETAIL = 'Later runs are compared with it.', HINT = 'To erase a person, call dbanon.forget_subject.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_known IS 'Refuses a change of what is known of releases, and writes the login into the server''s log.';

CREATE OR REPLACE FUNCTION dbanon_internal.hash_forgotten_person(dataset_id bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT dbanon_internal.hash_person(dbanon_internal.find_dataset_key(dataset_id), nullif(current_setting('dbanon.forgotten', true), ''))
$$;
COMMENT ON FUNCTION dbanon_internal.hash_forgotten_person IS
'The code in a dataset of the person whom the setting dbanon.forgotten names, which gives no right, since guards look whether that person is gone.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_stand_in() RETURNS bigint
LANGUAGE sql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- A hash, so that a caller who chooses the settings cannot make it the code of another person.
    SELECT dbanon_internal.hash_person(uuid_send(nullif(current_setting('dbanon.drawn', true), '')::uuid),
                                       nullif(current_setting('dbanon.forgotten', true), ''))
$$;
COMMENT ON FUNCTION dbanon_internal.make_stand_in IS
'The code that takes the place of the person whom the setting dbanon.forgotten names, made from the random UUID in the setting dbanon.drawn.';

CREATE OR REPLACE FUNCTION dbanon_internal.has_subject(dataset_id bigint, subject text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM ONLY dbanon.trajectory t WHERE t.dataset_id = has_subject.dataset_id AND t.subject = has_subject.subject)
$$;
COMMENT ON FUNCTION dbanon_internal.has_subject IS 'Whether a dataset has a trajectory of a subject.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_groups() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query CONSTANT text := CASE TG_TABLE_NAME
        WHEN 'grouping' THEN 'SELECT s.release_id, range_send(s.period) || coalesce(int4send(s.members), '''') '
                             '|| coalesce(array_send(s.contents), '''') AS period, s.people, s.members FROM %I s'
        WHEN 'asked' THEN 'SELECT s.release_id, int8send(s.content) || coalesce(int8send(s.windows) || int8send(s.present) || int8send(s.met), '''') '
                          'AS period, s.people, NULL::integer AS members FROM %I s'
        ELSE 'SELECT s.release_id, multirange_send(s.period) AS period, ARRAY[s.person] AS people, NULL::integer AS members FROM %I s' END;
    allowed boolean := false;
BEGIN
    IF TG_OP = 'INSERT' THEN
        -- A publication stores them first, and the release after them.
        PERFORM FROM (SELECT DISTINCT added.release_id FROM added) touched JOIN ONLY dbanon.release rel ON rel.release_id = touched.release_id;
        allowed := NOT FOUND;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ('grouping', 'exposure', 'asked') THEN
        -- It must replace one number by the one drawn and nothing else: that of the person named, of whom there are no data.
        EXECUTE format($query$
            WITH old AS MATERIALIZED (%s), new AS MATERIALIZED (%s), gone AS MATERIALIZED (
                SELECT touched.release_id, dbanon_internal.hash_forgotten_person(run.dataset_id) AS person
                FROM (SELECT DISTINCT old.release_id FROM old) touched
                JOIN ONLY dbanon.release rel ON rel.release_id = touched.release_id JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
            ), stand_in AS MATERIALIZED (
                SELECT ele.person FROM new CROSS JOIN LATERAL unnest(new.people) ele (person)
                EXCEPT SELECT ele.person FROM old CROSS JOIN LATERAL unnest(old.people) ele (person)
            )
            SELECT NOT EXISTS (SELECT FROM old) OR (
                (SELECT array_agg(stand_in.person) FROM stand_in) = ARRAY[dbanon_internal.make_stand_in()]
                AND NOT EXISTS (
                    SELECT old.release_id, old.period,
                        dbanon_internal.replace_person(old.people, gone.person, dbanon_internal.make_stand_in(), old.members)
                    FROM old LEFT JOIN gone ON gone.release_id = old.release_id
                    EXCEPT ALL SELECT new.release_id, new.period, new.people FROM new)
                AND NOT EXISTS (
                    SELECT FROM ONLY dbanon.dataset dat
                    WHERE dbanon_internal.has_subject(dat.dataset_id, current_setting('dbanon.forgotten', true))
                        AND dbanon_internal.hash_forgotten_person(dat.dataset_id) IN (SELECT gone.person FROM gone)))
            $query$, format(query, 'changed'), format(query, 'added')) INTO allowed;
    END IF;
    IF NOT allowed THEN
        PERFORM dbanon_internal.refuse_known(TG_OP, TG_TABLE_NAME);
    END IF;
    IF TG_OP = 'UPDATE' THEN
        EXECUTE format($query$
            UPDATE ONLY dbanon.release rel SET groups_sum = rel.groups_sum + gain.more
            FROM (SELECT signed.release_id, sum(signed.sign * dbanon_internal.hash_row(
                        dbanon_internal.make_groups_key($1, signed.release_id, signed.dataset_id), signed.period, signed.people)::numeric) AS more
                  FROM (SELECT noted.*, run.dataset_id
                        FROM (SELECT old.*, -1 AS sign FROM (%s) old UNION ALL SELECT new.*, 1 FROM (%s) new) noted
                        JOIN ONLY dbanon.release rel ON rel.release_id = noted.release_id JOIN ONLY dbanon.run run ON run.run_id = rel.run_id) signed
                  GROUP BY signed.release_id) gain
            WHERE rel.release_id = gain.release_id
            $query$, format(query, 'changed'), format(query, 'added')) USING TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_groups IS
'Keeps who was hidden with whom in a release, whom it showed and which cells it tells apart, except that a person who was forgotten gets
another number; then carries dbanon.release.groups_sum on.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_codes() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM FROM ONLY dbanon.release;
    ELSE
        PERFORM FROM (SELECT DISTINCT changed.dataset_id, changed.person FROM changed) touched
            JOIN (SELECT DISTINCT run.dataset_id FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id) pub
                ON pub.dataset_id = touched.dataset_id
            WHERE TG_OP = 'UPDATE' OR touched.person IS DISTINCT FROM dbanon_internal.hash_forgotten_person(touched.dataset_id)
                OR dbanon_internal.has_subject(touched.dataset_id, current_setting('dbanon.forgotten', true));
    END IF;
    IF FOUND THEN
        PERFORM dbanon_internal.refuse_known(TG_OP, TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_codes IS
'Keeps the hashes of fixes of a dataset that was ever published, except those of a person who was forgotten.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_key() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE TG_OP = 'TRUNCATE' OR TG_TABLE_NAME = 'installation' OR d.population_id = (to_jsonb(OLD) ->> 'population_id')::bigint;
    IF FOUND THEN
        PERFORM dbanon_internal.refuse_known(TG_OP, TG_TABLE_NAME);
    END IF;
    RETURN coalesce(NEW, OLD);
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_key IS
'Keeps the key of a population that has a release, and that of a database that has one: with another, people and their fixes would look new.';

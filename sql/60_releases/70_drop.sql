-- What can be taken back: a run that was never published, and a person.

CREATE OR REPLACE FUNCTION dbanon_internal.hold_run(run_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.reap_run(run_id);
    -- Before the row is waited for: who writes the run's rows holds it for long.
    IF EXISTS (SELECT FROM dbanon.run r WHERE r.run_id = hold_run.run_id AND r.worker IS NOT NULL) THEN
        RETURN false;
    END IF;
    -- The row lock keeps workers from taking the run, and waits for a publication that already holds it.
    PERFORM FROM dbanon.run r WHERE r.run_id = hold_run.run_id FOR UPDATE;
    RETURN NOT EXISTS (SELECT FROM dbanon.run r WHERE r.run_id = hold_run.run_id AND r.worker IS NOT NULL);
END
$$;
COMMENT ON FUNCTION dbanon_internal.hold_run IS 'Keeps workers from a run until the transaction ends, unless one has it.';

CREATE OR REPLACE FUNCTION dbanon.drop_run(run_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    free boolean := dbanon_internal.hold_run(run_id);
    run dbanon.run;
    dropped bigint;
BEGIN
    SELECT stored.* INTO run FROM dbanon.run stored WHERE stored.run_id = drop_run.run_id;
    IF run.run_id IS NULL THEN
        PERFORM dbanon_internal.refuse_no_run(drop_run.run_id);
    END IF;
    -- The groups of a published run are needed to measure every later release, withdrawn or not.
    IF EXISTS (SELECT FROM dbanon.release rel WHERE rel.run_id = run.run_id) THEN
        RAISE EXCEPTION 'A run that was ever published must stay, withdrawn or not. Run % was published.', run.run_id
            USING ERRCODE = 'DA007', DETAIL = 'An adversary knows published rows permanently.',
                  HINT = coalesce('To take its rows from analysts, withdraw it: ' || (
                      SELECT string_agg(dbanon_internal.build_withdrawal(rel), '; ' ORDER BY rel.name)
                      FROM dbanon.release rel WHERE rel.run_id = run.run_id AND rel.withdrawn_at IS NULL) || '.',
                      'There is nothing to do: it was withdrawn.');
    END IF;
    IF NOT free OR run.todo IS NOT NULL THEN
        RAISE EXCEPTION 'Run % is %, and was not dropped.', run.run_id,
                CASE WHEN free THEN 'waiting to be worked on' ELSE 'being worked on' END
            USING ERRCODE = 'DA013', DETAIL = format('Status of run %s: %s.', run.run_id, run.status),
                  HINT = format('Cancel it first: SELECT dbanon.cancel_run(%s).', run.run_id);
    END IF;
    SELECT coalesce(sum(cardinality(rec.regions)), 0) INTO dropped FROM dbanon.record rec WHERE rec.run_id = run.run_id;
    DELETE FROM dbanon.run stored WHERE stored.run_id = run.run_id;
    RETURN dropped;
END
$$;
COMMENT ON FUNCTION dbanon.drop_run IS
'Deletes a run with its cloaks, members and verifications. It refuses a run that was ever published, that waits in the queue, or that a worker works
on.
Arguments:
- run_id: the number of the run.
Returns: how many cloaks were deleted.
Raises: DA001. DA007 if it was ever published. DA013 if it is in the queue or being worked on.
Example: SELECT dbanon.drop_run(1).';

CREATE OR REPLACE FUNCTION dbanon_internal.normalise_name(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    -- What Arrow, which reads the files, takes for blanks.
    SELECT normalize(btrim(name, E'\t\n\x0B\f\r\x1C\x1D\x1E\x1F \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006'
                                 '\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000'), NFC)
$$;
COMMENT ON FUNCTION dbanon_internal.normalise_name IS 'A subject''s name as loading stores it: without blanks around it, in Unicode''s composed form.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_word_pattern(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    -- What is longer was never stored as a subject, and would be too complex a pattern: this one finds nothing.
    SELECT CASE WHEN length(name) > 1000 THEN '(?!x)x'
                ELSE '(?<![[:alnum:]])' || regexp_replace(name, '([^[:alnum:][:space:]])', '\\\1', 'g') || '(?![[:alnum:]])' END
$$;
COMMENT ON FUNCTION dbanon_internal.build_word_pattern IS 'A regular expression that finds a name where no letter or digit touches it.';

CREATE OR REPLACE FUNCTION dbanon_internal.names_subject(content jsonb, name text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM jsonb_path_query(content, 'strict $.** ? (@.type() == "string" || @.type() == "number")') v (value)
        CROSS JOIN LATERAL (SELECT dbanon_internal.normalise_name(v.value #>> '{}') AS text) s
        -- A number is found in too many places that mean something else, times above all: it has to be the whole.
        WHERE s.text = ANY (dbanon_internal.list_name_forms(name)) OR (name ~ '[[:alpha:]]' AND s.text ~ dbanon_internal.build_word_pattern(name)))
$$;
COMMENT ON FUNCTION dbanon_internal.names_subject IS 'Whether a value of a rejected row is a subject''s name, or holds it as a word (p7 in p7/morning).';

CREATE OR REPLACE FUNCTION dbanon_internal.report_live_releases(release_ids bigint[], trajectories bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    live CONSTANT record := dbanon_internal.name_releases(release_ids);
    -- Those that show the subject exactly.
    exact CONSTANT record := dbanon_internal.name_releases(ARRAY(
        SELECT rel.release_id FROM dbanon.release rel
        WHERE rel.release_id = ANY (release_ids) AND EXISTS (
            SELECT FROM dbanon.membership mem
            JOIN dbanon.record rec ON rec.run_id = mem.run_id AND rec.record_id = mem.record_id
            CROSS JOIN LATERAL unnest(rec.regions) ele (region_no)
            JOIN dbanon.region reg ON reg.run_id = rec.run_id AND reg.region_no = ele.region_no AND reg.crowd = 1
            WHERE mem.run_id = rel.run_id AND mem.trajectory_id = ANY (trajectories))));
BEGIN
    IF live.number > 0 THEN
        RAISE NOTICE '% made with this person''s data and unchanged: %. To remove it there too, withdraw them: %. Or replace them with a new run, '
            'which reveals the forgotten person to the readers of both and therefore needs replace => true, allow_overlap => true and a reason.',
            dbanon_internal.format_quantity(live.number, 'live release was', 'live releases were'), live.named, live.withdraw;
    END IF;
    IF exact.number > 0 THEN
        RAISE NOTICE 'In these releases the person is not hidden but published exactly: %. Withdraw them until they are replaced: %.', exact.named, exact.withdraw;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.report_live_releases IS
'Names the live releases among some, and those of them in which one of some trajectories is published exactly.';

CREATE OR REPLACE FUNCTION dbanon_internal.forget_statistics() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source text;
BEGIN
    -- Statistics hold values: the most frequent ones, and some of the others.
    FOREACH source IN ARRAY ARRAY['trajectory (subject)', 'request (subject)', 'quasi_identifier (subject)', 'quarantine (content)',
                                  'load (source)', 'fix_code (person)'] LOOP
        EXECUTE 'ANALYZE dbanon.' || source;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.forget_statistics IS 'Samples the columns that may hold names of subjects again.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_other_datasets(dataset_id bigint, subject text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(
        SELECT o.name
        FROM dbanon.dataset d JOIN dbanon.dataset o ON o.population_id = d.population_id AND o.dataset_id <> d.dataset_id
        WHERE d.dataset_id = list_other_datasets.dataset_id AND NOT d.own_subjects AND NOT o.own_subjects
          AND EXISTS (SELECT FROM dbanon.trajectory t WHERE t.dataset_id = o.dataset_id AND t.subject = list_other_datasets.subject)
        ORDER BY o.name)
$$;
COMMENT ON FUNCTION dbanon_internal.list_other_datasets IS 'Names the other datasets of a population that have trajectories of the same person.';

CREATE OR REPLACE FUNCTION dbanon_internal.erase_subject(
    dataset_id bigint, subject text, person bigint, dropped_runs bigint[], stand_in bigint) RETURNS TABLE (what text, rows bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH run AS (
        -- One statement, so that all of it sees the rows as they were: each part names the subject in another table.
        DELETE FROM dbanon.run run WHERE run.run_id = ANY (dropped_runs) RETURNING 1
    ), trajectory AS (
        DELETE FROM dbanon.trajectory tra
            WHERE tra.dataset_id = erase_subject.dataset_id AND tra.subject = erase_subject.subject RETURNING 1
    ), request AS (
        DELETE FROM dbanon.request req
            WHERE req.dataset_id = erase_subject.dataset_id AND req.subject = erase_subject.subject RETURNING 1
    ), quasi_identifier AS (
        DELETE FROM dbanon.quasi_identifier qid
            WHERE qid.dataset_id = erase_subject.dataset_id AND qid.subject = erase_subject.subject RETURNING 1
    ), quarantine AS (
        DELETE FROM dbanon.quarantine qua USING dbanon.load load
            WHERE load.load_id = qua.load_id AND load.dataset_id = erase_subject.dataset_id
              AND dbanon_internal.names_subject(qua.content, erase_subject.subject) RETURNING 1
    ), source AS (
        UPDATE dbanon.load load SET source = regexp_replace(load.source, dbanon_internal.build_word_pattern(erase_subject.subject), 'forgotten', 'g')
            WHERE load.dataset_id = erase_subject.dataset_id AND load.source ~ dbanon_internal.build_word_pattern(erase_subject.subject) RETURNING 1
    ), released AS (
        -- Not where another dataset has the name: there the person is not forgotten, and is measured by the code in what comes next.
        SELECT rel.release_id
        FROM dbanon.dataset dat JOIN dbanon.dataset other ON other.population_id = dat.population_id
        JOIN dbanon.run run ON run.dataset_id = other.dataset_id JOIN dbanon.release rel ON rel.run_id = run.run_id
        WHERE dat.dataset_id = erase_subject.dataset_id
            AND cardinality(dbanon_internal.list_other_datasets(erase_subject.dataset_id, erase_subject.subject)) = 0
    ), grouping_ AS (
        UPDATE dbanon.grouping gro SET people = dbanon_internal.replace_person(gro.people, erase_subject.person, stand_in, gro.members)
            WHERE erase_subject.person = ANY (gro.people) AND gro.release_id IN (SELECT released.release_id FROM released) RETURNING 1
    ), asked AS (
        UPDATE dbanon.asked ask
            SET people = ARRAY(SELECT ele FROM unnest(array_replace(ask.people, erase_subject.person, stand_in)) ele ORDER BY ele)
            WHERE erase_subject.person = ANY (ask.people) AND ask.release_id IN (SELECT released.release_id FROM released) RETURNING 1
    ), exposure AS (
        UPDATE dbanon.exposure exp SET person = stand_in
            WHERE exp.person = erase_subject.person AND exp.release_id IN (SELECT released.release_id FROM released) RETURNING 1
    ), fix_code AS (
        -- Those of datasets that were dropped, too: no subject can be forgotten there any more.
        DELETE FROM dbanon.fix_code code
            WHERE code.person = erase_subject.person AND code.dataset_id IN (
                SELECT dat.dataset_id FROM dbanon.dataset dat
                WHERE dat.dataset_id = erase_subject.dataset_id OR dat.dropped_at IS NOT NULL) RETURNING 1
    )
    VALUES ('trajectories', (SELECT count(*) FROM trajectory)), ('requests', (SELECT count(*) FROM request)),
        ('quasi-identifiers', (SELECT count(*) FROM quasi_identifier)),
        ('quarantined rows', (SELECT count(*) FROM quarantine)), ('names of sources', (SELECT count(*) FROM source)),
        ('places in groups of releases', (SELECT count(*) FROM grouping_) + (SELECT count(*) FROM exposure) + (SELECT count(*) FROM asked)),
        ('hashes of fixes', (SELECT count(*) FROM fix_code)), ('runs dropped', (SELECT count(*) FROM run))
$$;
COMMENT ON FUNCTION dbanon_internal.erase_subject IS
'Deletes what a dataset has of a subject; and replaces its code by another in what is kept of releases, so that their sizes stay, unless another
dataset of the population has the name.';

CREATE OR REPLACE FUNCTION dbanon_internal.hold_dataset(name text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held bigint;
    samples bigint[];
    busy bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'Data must be erased in a transaction that is read committed. This one is %.', current_setting('transaction_isolation')
            USING ERRCODE = 'DA015', DETAIL = 'It would not see runs that were made since it began.',
                  HINT = 'Begin another: BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    -- The lock of loads; and the row, which every submission, publication and other kind of load needs.
    PERFORM dbanon_internal.lock_dataset(name);
    SELECT dat.dataset_id INTO held FROM dbanon.dataset dat WHERE dat.name = hold_dataset.name AND dat.dropped_at IS NULL FOR UPDATE;
    IF held IS NULL THEN
        RAISE EXCEPTION 'The dataset must exist. There is none named %.', coalesce(dbanon_internal.quote_text(name), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.dataset.', HINT = 'List the datasets: SELECT * FROM dbanon.datasets.';
    END IF;
    -- Samples have the same people, and go: the sweep that asked for them ends.
    samples := ARRAY(SELECT dat.dataset_id FROM dbanon.dataset dat WHERE dat.sample_of = held ORDER BY dat.dataset_id FOR UPDATE);
    -- No worker takes a run with nothing to do: its row is enough.
    PERFORM FROM dbanon.run run WHERE run.dataset_id = ANY (held || samples) AND run.todo IS NULL AND run.worker IS NULL FOR UPDATE;
    SELECT run.run_id INTO busy FROM dbanon.run run
        WHERE run.dataset_id = ANY (held || samples) AND (run.todo IS NOT NULL OR run.worker IS NOT NULL) AND NOT dbanon_internal.hold_run(run.run_id)
        ORDER BY run.run_id LIMIT 1;
    IF busy IS NOT NULL THEN
        RAISE EXCEPTION 'Run % of the dataset is being worked on, and nothing was erased.', busy
            USING ERRCODE = 'DA013', DETAIL = 'It may have read the data to erase.',
                  HINT = format('Cancel it first: SELECT dbanon.cancel_run(%s).', busy);
    END IF;
    DELETE FROM dbanon.run run WHERE run.dataset_id = ANY (samples);
    DELETE FROM dbanon.dataset dat WHERE dat.dataset_id = ANY (samples);
    RETURN held;
END
$$;
COMMENT ON FUNCTION dbanon_internal.hold_dataset IS
'Keeps loads, submissions, publications and workers from a dataset until the transaction ends, and drops the samples of it. Raises an error if there
is no such dataset, if a worker has a run of it, or if the transaction is not read committed.';

CREATE OR REPLACE FUNCTION dbanon.forget_subject(dataset text, subject text, again boolean DEFAULT false) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held bigint := dbanon_internal.hold_dataset(dataset);
    given text := nullif(dbanon_internal.normalise_name(subject), '');
    -- A whole number may be there in another form.
    who text := coalesce((
        SELECT form.name FROM unnest(dbanon_internal.list_name_forms(given)) WITH ORDINALITY form (name, nth)
        WHERE EXISTS (SELECT FROM dbanon.trajectory tra WHERE tra.dataset_id = held AND tra.subject = form.name)
            OR EXISTS (SELECT FROM dbanon.request req WHERE req.dataset_id = held AND req.subject = form.name)
            OR EXISTS (SELECT FROM dbanon.quasi_identifier qid WHERE qid.dataset_id = held AND qid.subject = form.name)
        ORDER BY form.nth LIMIT 1), given);
    forgotten bigint := dbanon_internal.hash_person(dbanon_internal.find_dataset_key(held), who);
    paths bigint[] := ARRAY(SELECT tra.trajectory_id FROM dbanon.trajectory tra WHERE tra.dataset_id = held AND tra.subject = who);
    runs bigint[] := ARRAY(SELECT DISTINCT mem.run_id FROM dbanon.run run JOIN dbanon.membership mem ON mem.run_id = run.run_id
                           WHERE run.dataset_id = held AND mem.trajectory_id = ANY (paths));
    releases bigint[] := ARRAY(
        SELECT rel.release_id FROM dbanon.release rel JOIN dbanon.run run ON run.run_id = rel.run_id
        WHERE run.dataset_id = held AND (rel.run_id = ANY (runs) OR EXISTS (
            SELECT FROM dbanon.grouping gro WHERE gro.release_id = rel.release_id AND forgotten = ANY (gro.people)) OR EXISTS (
            SELECT FROM dbanon.exposure exp WHERE exp.release_id = rel.release_id AND exp.person = forgotten)));
    besides text[];
    counts json;
BEGIN
    PERFORM dbanon_internal.lock_population(held);
    -- Runs that were published stay, with their groups; a random code, which no adversary can foresee, takes over the subject's place in
    -- these. Guards let that pass where the person named here is gone.
    PERFORM set_config('dbanon.forgotten', who, true), set_config('dbanon.drawn', gen_random_uuid()::text, true);
    SELECT json_object_agg(era.what, era.rows) INTO counts FROM dbanon_internal.erase_subject(held, who, forgotten,
        ARRAY(SELECT unnest(runs) EXCEPT SELECT rel.run_id FROM dbanon.release rel), dbanon_internal.make_stand_in()) era;
    PERFORM set_config('dbanon.forgotten', '', true), set_config('dbanon.drawn', '', true);
    IF dbanon_internal.sum_counts(counts::jsonb) = 0 THEN
        RAISE EXCEPTION 'The person to forget must be in the dataset. Nothing of that name is in %.', dataset
            USING ERRCODE = 'DA001', DETAIL = 'Looked in loaded rows, in rows that loads could not use, and in published rows.',
                  HINT = 'Check its spelling, capital letters too, and the dataset.';
    END IF;
    PERFORM dbanon_internal.report_live_releases(releases, paths);
    besides := dbanon_internal.list_other_datasets(held, who);
    IF cardinality(besides) > 0 THEN
        RAISE NOTICE 'The same name is in other datasets of the population, where the person is not forgotten: %. Forget it there, too.',
            array_to_string(besides, ', ');
    END IF;
    IF NOT again THEN
        INSERT INTO dbanon.forgotten (population_id, code)
            SELECT dat.population_id, forgotten FROM dbanon.dataset dat WHERE dat.dataset_id = held AND NOT dat.own_subjects
            ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO dbanon.audit (action, dataset, detail)
        VALUES ('forget', forget_subject.dataset, counts::jsonb || CASE WHEN again THEN '{"again": true}' ELSE '{}' END::jsonb);
    PERFORM dbanon_internal.forget_statistics();
    RETURN QUERY SELECT pair.key, pair.value::bigint FROM json_each_text(counts) pair;
END
$$;
COMMENT ON FUNCTION dbanon.forget_subject IS
'Erases a person from a dataset: trajectories, requests, quasi-identifiers, rejected rows that name the person, and the runs with the person that were
never published. In the stored facts of releases, a random code replaces the hash of the name, so that their sizes stay, unless another dataset of the
population has the person. Later loads into datasets of the population leave the person out, recognised by a keyed hash of the name, until
dbanon.remember_subject is called. Live releases made with the data stay, and a notice names them. It does not reach deleted rows that the server
keeps until VACUUM, nor its logs and backups.
Arguments:
- dataset: name of the dataset.
- subject: name of the person, as in the dataset.
- again: let later loads bring the name again, as another person.
Returns: one row a kind of thing.
- what: the kind of thing.
- rows: how many rows.
Raises: DA001 if there is no such dataset or person. DA013 while a run of the dataset is being worked on. DA015 in a transaction that is not read
committed.
Example: SELECT * FROM dbanon.forget_subject(''taxi'', ''p7'').';

CREATE OR REPLACE FUNCTION dbanon.remember_subject(population text, subject text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_people dbanon.population;
    lifted boolean;
BEGIN
    SELECT pop.* INTO of_people FROM ONLY dbanon.population pop WHERE pop.name = remember_subject.population;
    IF of_people.population_id IS NULL THEN
        RAISE EXCEPTION 'The population must exist. There is none named %.', coalesce(dbanon_internal.quote_text(population), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.population.', HINT = 'List them: SELECT DISTINCT population FROM dbanon.datasets.';
    ELSIF coalesce(btrim(subject), '') = '' THEN
        RAISE EXCEPTION 'The person to remember must have a name. Got none.'
            USING ERRCODE = 'DA011', DETAIL = 'Nothing was changed.',
            HINT = 'Name the person as the source does: SELECT dbanon.remember_subject(''default'', ''p7'').';
    END IF;
    DELETE FROM ONLY dbanon.forgotten forg WHERE forg.population_id = of_people.population_id
        AND forg.code IN (SELECT dbanon_internal.hash_person(of_people.key, form.name)
                          FROM unnest(dbanon_internal.list_name_forms(dbanon_internal.normalise_name(subject))) form (name));
    lifted := FOUND;
    INSERT INTO dbanon.audit (action, detail) VALUES ('remember', jsonb_build_object('population', of_people.name, 'lifted', lifted));
    RETURN lifted;
END
$$;
COMMENT ON FUNCTION dbanon.remember_subject IS
'Lets loads bring a forgotten person again. Erased data do not come back. For the stored facts of releases, the person is new.
Arguments:
- population: name of the population, as in dbanon.datasets.
- subject: name of the person.
Returns: whether the person had been forgotten. It is false for a name that was never forgotten, also for a misspelled one, since names are not kept.
Raises: DA001 if there is no such population. DA011 without a name.
Example: SELECT dbanon.remember_subject(''default'', ''p7'').';

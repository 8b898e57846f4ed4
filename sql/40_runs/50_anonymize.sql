-- The whole way from psql: submit, wait for a worker to finish, publish.

CREATE OR REPLACE FUNCTION dbanon_internal.read_commit_error() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    COMMIT;  -- always fails: a function cannot commit
    RETURN NULL;
EXCEPTION WHEN invalid_transaction_termination THEN
    RETURN SQLERRM;
END
$$;
COMMENT ON FUNCTION dbanon_internal.read_commit_error IS
'What this server says, in its own language, of a COMMIT within a transaction block: dbanon.anonymize compares it with
the message it got.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_submittable(
    publish_as text, replace boolean, end_readers boolean, readers text[], grow boolean, allow_overlap boolean, reason text, within boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
    IF within THEN
        RAISE EXCEPTION 'dbanon.anonymize must be called outside a transaction block. It was called inside one.'
            USING ERRCODE = 'DA015', DETAIL = 'No worker sees a run before it is committed.',
                  HINT = 'End the transaction with COMMIT first. In psql, \set AUTOCOMMIT on, and give each CALL a separate -c. Do not call it in '
                      'a block with EXCEPTION or in a procedure with SET. Or queue the run with SELECT dbanon.submit_run(...).';
    END IF;
    IF NOT EXISTS (SELECT FROM dbanon.workers) THEN
        RAISE EXCEPTION 'No worker is up to compute the run: there is none, and nothing was submitted.'
            USING ERRCODE = 'DA017', DETAIL = 'dbanon.workers is empty.',
                  HINT = 'Start one on any machine that reaches this server: dbanon worker. Or queue the run with SELECT dbanon.submit_run(...).';
    END IF;
    PERFORM dbanon_internal.demand_override_reason(allow_overlap, reason);
    IF publish_as IS NOT NULL THEN
        PERFORM dbanon_internal.demand_release_options(publish_as, replace, end_readers, readers, grow);
    ELSIF replace OR end_readers OR allow_overlap OR grow OR readers IS NOT NULL THEN
        RAISE EXCEPTION '% must come with the name of a release. Got none.',
                CASE WHEN replace THEN 'replace' WHEN end_readers THEN 'end_readers' WHEN allow_overlap THEN 'allow_overlap'
                     WHEN grow THEN 'grow' ELSE 'readers' END
            USING ERRCODE = 'DA011', DETAIL = 'It is an option of the publication. Without a name nothing is published.',
                  HINT = 'Name the release: publish_as => ''taxi_k5''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_submittable IS 'Refuses a call of dbanon.anonymize that could not be submitted or published.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_release_options(
    name text, replace boolean, end_readers boolean, readers text[], grow boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.demand_release_name(demand_release_options.name);
    PERFORM dbanon_internal.demand_replacement(end_readers, replace);
    PERFORM dbanon_internal.demand_free_name(demand_release_options.name, replace, grow);
    PERFORM dbanon_internal.choose_readers(demand_release_options.name, replace OR grow, readers);
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_release_options IS 'Refuses, before a run, options with which its release could not be made.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_refusal(run_id bigint, name text, state text, sentence text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
    refused CONSTANT text := CASE WHEN name COLLATE "C" ~ '^[a-z][a-z0-9_]{0,49}$' THEN name END;
    control CONSTANT text := format('[%s-%s%s-%s]', chr(1), chr(31), chr(127), chr(159));
    -- DA002 and DA011 quote what the caller gave, and the server's own sentences may quote data.
    explanation CONSTANT text := CASE
        WHEN state IN ('DA002', 'DA011') THEN format('The arguments cannot be used (SQLSTATE %s).', state)
        WHEN state LIKE 'DA%' THEN left(regexp_replace(sentence, control, ' ', 'g'), 1000)
        ELSE format('The server refused it (SQLSTATE %s). Its log says why.', state) END;
BEGIN
    -- A line of the audit stays permanently, so it holds no sentence.
    INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
        SELECT 'publish_refused', dat.name, run.run_id, refused, jsonb_build_object('sqlstate', state)
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id WHERE run.run_id = note_refusal.run_id;
    BEGIN
        UPDATE ONLY dbanon.run run SET publish_error = concat_ws(': ', 'Not published as ' || refused, explanation)
            WHERE run.run_id = note_refusal.run_id;
    EXCEPTION WHEN lock_not_available OR serialization_failure THEN  -- the session that has the run's row is publishing it
        NULL;
    END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_refusal IS
'Writes into dbanon.runs and dbanon.audit that a run was not published; the next publication of the run takes it from dbanon.runs.';

CREATE OR REPLACE FUNCTION dbanon_internal.try_publish(
    run_id bigint, name text, replace boolean, allow_overlap boolean, reason text, end_readers boolean, readers text[], grow boolean,
    OUT rows bigint, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    rows := dbanon.publish(run_id, name, replace, allow_overlap, reason, end_readers, readers, grow);
EXCEPTION WHEN OTHERS OR query_canceled THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM dbanon_internal.note_refusal(run_id, name, state, message);
END
$$;
COMMENT ON FUNCTION dbanon_internal.try_publish IS
'Publishes as dbanon.publish does; if that is refused, notes it and returns the error, which the caller raises in a later transaction.';

CREATE OR REPLACE FUNCTION dbanon_internal.raise_refusal(state text, message text, detail text, hint text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', message USING ERRCODE = state, DETAIL = detail, HINT = hint;
END
$$;
COMMENT ON FUNCTION dbanon_internal.raise_refusal IS 'Raises an error that dbanon_internal.try_publish returned.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_progress(run_id bigint, last_line text, OUT line text, OUT ended boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state dbanon.runs;
BEGIN
    PERFORM dbanon_internal.reap_runs();
    SELECT run.* INTO state FROM dbanon.runs run WHERE run.run_id = describe_progress.run_id;
    ended := state.run_id IS NULL OR state.status NOT IN ('queued', 'running', 'computed');
    line := CASE WHEN NOT ended THEN format('Run %s: %s', state.run_id, state.progress) END;
    IF NOT EXISTS (SELECT FROM dbanon.workers) AND NOT ended THEN
        line := format('Run %s: waiting for a worker. There is none, start one with: dbanon worker', run_id);
    END IF;
    line := nullif(line, last_line);
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_progress IS 'How far a run is, for dbanon.anonymize.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_verified(run_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state dbanon.run;
BEGIN
    SELECT run.* INTO state FROM dbanon.run run WHERE run.run_id = demand_verified.run_id;
    IF state.run_id IS NULL THEN
        PERFORM dbanon_internal.refuse_no_run(demand_verified.run_id);
    END IF;
    IF state.status <> 'verified' THEN
        RAISE EXCEPTION '%', coalesce(state.error, format('Run %s must be verified. It is %s.', state.run_id, state.status))
            USING ERRCODE = CASE state.status WHEN 'refused' THEN 'DA004' ELSE 'DA016' END,
                  DETAIL = format('Run %s (%s, %s) is %s.', state.run_id, state.method, state.algorithm, state.status),
                  HINT = format('See it: SELECT * FROM dbanon.runs WHERE run_id = %s.', state.run_id);
    END IF;
    RETURN state.status;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_verified IS 'Raises a run''s own error unless it is verified.';

-- The procedure has no settings (with them it could not commit), so it looks up nothing by an unqualified name.
CREATE OR REPLACE PROCEDURE dbanon.anonymize(
    dataset text, method text, params jsonb DEFAULT '{}', publish_as text DEFAULT NULL, algorithm text DEFAULT NULL,
    seed bigint DEFAULT NULL, replace boolean DEFAULT false, allow_overlap boolean DEFAULT false, reason text DEFAULT NULL,
    end_readers boolean DEFAULT false, readers text[] DEFAULT NULL, grow boolean DEFAULT false, allow_no_requests boolean DEFAULT false,
    INOUT run_id bigint DEFAULT NULL, INOUT verdict text DEFAULT NULL, INOUT rows_published bigint DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    news record;
    last_line text;
    within boolean;
    tried record;
BEGIN
    -- Refused in any case, since a block that catches errors cannot commit; but in other words within a transaction block.
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        within := SQLERRM OPERATOR(pg_catalog.=) dbanon_internal.read_commit_error();
    END;
    IF NOT within THEN
        COMMIT;
        -- Here and below: with a new snapshot for each statement, whatever the login is used to.
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    END IF;
    PERFORM dbanon_internal.demand_submittable(publish_as, replace, end_readers, readers, grow, allow_overlap, reason, within);
    run_id := dbanon.submit_run(dataset, method, params, algorithm, seed, allow_no_requests);
    COMMIT;
    RAISE NOTICE 'Run % is queued. It goes on if you stop waiting. SELECT dbanon.cancel_run(%) ends it.', run_id, run_id;
    LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        SELECT line.line, line.ended INTO news FROM dbanon_internal.describe_progress(run_id, last_line) line;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        IF news.line IS NOT NULL THEN
            last_line := news.line;
            RAISE NOTICE '%', last_line;
        END IF;
        EXIT WHEN news.ended;
        PERFORM pg_catalog.pg_sleep(0.2);
    END LOOP;
    verdict := dbanon_internal.demand_verified(run_id);
    IF publish_as IS NULL THEN
        FOR last_line IN SELECT note FROM dbanon_internal.list_run_notices(run_id) note LOOP
            RAISE NOTICE '%', last_line;
        END LOOP;
    ELSE
        RAISE NOTICE 'Run % is verified. If it cannot be published now, it can later: %.', run_id, pg_catalog.format(
            'SELECT dbanon.publish(%s, %L%s%s%s%s%s)', run_id, publish_as, CASE WHEN replace THEN ', replace => true' END,
            CASE WHEN end_readers THEN ', end_readers => true' END,
            CASE WHEN allow_overlap THEN pg_catalog.format(', allow_overlap => true, reason => %L', reason) END,
            dbanon_internal.build_readers_argument(readers), CASE WHEN grow THEN ', grow => true' END);
        SELECT done.* INTO tried
            FROM dbanon_internal.try_publish(run_id, publish_as, replace, allow_overlap, reason, end_readers, readers, grow) done;
        rows_published := tried.rows;
        IF tried.state IS NOT NULL THEN
            COMMIT;
            PERFORM dbanon_internal.raise_refusal(
                tried.state, tried.message, pg_catalog.btrim(pg_catalog.format('%s Run %s is verified, and not published.', tried.detail, run_id)),
                pg_catalog.btrim(pg_catalog.format('%s It is noted in dbanon.runs.', tried.hint)));
        END IF;
    END IF;
END
$$;
COMMENT ON PROCEDURE dbanon.anonymize IS
'Submits a run, reports how far a worker is with it, and publishes it if the attack found nothing. It waits until all of that is done. Ctrl-C ends the
waiting, not the run.
Arguments:
- dataset: @Running.dataset@
- method: the method, as listed in dbanon.methods.
- params: parameters of the method, as a JSON object (see dbanon.method_parameters).
- publish_as: @Running.publish@ NULL publishes nothing.
- algorithm: @Running.algorithm@
- seed: @Running.seed@
- replace: @Running.replace@
- allow_overlap: @Running.allow_overlap@
- reason: @Running.reason@
- end_readers: @Running.end_readers@
- readers: @Running.readers@
- grow: @Running.grow@
- allow_no_requests: @Running.allow_no_requests@
Returns: one row.
- run_id: the number of the run. Leave it out of the call.
- verdict: verified or refused. Leave it out of the call.
- rows_published: how many rows the release has. Leave it out of the call.
Raises: DA015 inside a transaction block. DA017 if no worker is up. DA001 to DA003, DA011 and DA024 before anything is done. DA016 with the sentence of the
run if it failed or was cancelled. DA004 if the attack refused it. Errors of dbanon.publish are noted in dbanon.runs and dbanon.audit, too.
Example: CALL dbanon.anonymize(dataset => ''taxi'', method => ''METHOD'', params => ''{"k": 20}'', publish_as => ''taxi_k20'').';

-- What may be published from this database, and who consents to a run: one row of dbanon.policy, which an administrator changes.

CREATE OR REPLACE FUNCTION dbanon_internal.describe_policy(run_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Whoever submitted the run, or signs no longer, does not count; nor does a signature of rows that were not those verified last.
    SELECT nullif(jsonb_strip_nulls(to_jsonb(pol) - 'one' || jsonb_build_object('signatures', nullif(pol.signatures, 0), 'signed', (
        SELECT jsonb_agg(jsonb_build_object('login', sig.login, 'at', sig.signed_at) ORDER BY sig.signed_at, sig.login)
        FROM ONLY dbanon.signature sig
        JOIN ONLY dbanon.run run ON run.run_id = sig.run_id AND run.created_by <> sig.login
        JOIN pg_roles signer ON signer.rolname = sig.login
        JOIN pg_roles rol ON rol.rolname = pol.signers AND pg_has_role(signer.oid, rol.oid, 'MEMBER')
        WHERE pol.signatures > 0 AND sig.run_id = describe_policy.run_id AND sig.digest = (
            SELECT ver.digest FROM ONLY dbanon.verification ver WHERE ver.run_id = sig.run_id ORDER BY ver.verification_id DESC LIMIT 1)))), '{}')
    FROM ONLY dbanon.policy pol
$$;
COMMENT ON FUNCTION dbanon_internal.describe_policy IS
'What the policy asks of a run, and who signed the rows that were verified last; null where it asks for nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_count_error(run_id bigint) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- In squares of 2 km or nearly, at a moment where rows hold at one.
    SELECT round(eva.value::numeric, 2) FROM dbanon.evaluations eva
    WHERE eva.run_id = find_count_error.run_id AND eva.name = 'count_error' AND eva.value IS NOT NULL
    ORDER BY eva.evaluation_id DESC, abs(eva.side_m - 2000), eva.asked LIMIT 1
$$;
COMMENT ON FUNCTION dbanon_internal.find_count_error IS 'How far counts of a run are off by its last evaluation, as a share; null where it was not measured.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_policy(run_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    policy CONSTANT dbanon.policy := (SELECT pol FROM ONLY dbanon.policy pol);
    asked CONSTANT jsonb := dbanon_internal.describe_policy(run_id);
    signed CONSTANT integer := coalesce(jsonb_array_length(asked -> 'signed'), 0);
    broken record;
BEGIN
    -- Whole sentences, so that the error of a period of a job can show them.
    SELECT fault.text, fault.hint INTO broken
    FROM ONLY dbanon.run run
    CROSS JOIN LATERAL (
        SELECT coalesce(mea.window_s, ceil(extract(epoch FROM upper(spa.span) - lower(spa.span)))) AS window_s
        FROM dbanon_internal.find_row_meaning(run.run_id) mea, dbanon_internal.find_run_span(run.run_id) spa (span)) says
    CROSS JOIN dbanon_internal.find_count_error(run.run_id) found (error)
    CROSS JOIN LATERAL (VALUES
        (policy.one, format('Table dbanon.policy must have a row for run %s to be published. It has none.', run.run_id),
            'Have an administrator add it: INSERT INTO dbanon.policy DEFAULT VALUES;'),
        (policy.methods IS NULL OR run.method = ANY (policy.methods),
            format('A run must use a method that the policy allows to be published. Run %s uses %s. Allowed: %s.',
                   run.run_id, run.method, coalesce(nullif(array_to_string(policy.methods, ', '), ''), 'none')), NULL),
        (policy.least_k IS NULL OR (run.params ->> 'k')::numeric >= policy.least_k,
            format('A run must have a k that the policy allows to be published. That of run %s is %s, and must be %s or more.',
                   run.run_id, run.params ->> 'k', policy.least_k), NULL),
        (policy.longest_window_s IS NULL OR says.window_s <= policy.longest_window_s,
            format('A run must have records as short as the policy asks to be published. Those of run %s last %s s, and may last %s s.',
                   run.run_id, says.window_s, policy.longest_window_s), NULL),
        (policy.largest_error IS NULL OR found.error IS NOT NULL,
            format('A run must be measured to be published, since the policy limits its error. Run %s was not.', run.run_id),
            format('Measure it: `dbanon evaluate %s`.', run.run_id)),
        (policy.largest_error IS NULL OR found.error <= policy.largest_error,
            format('A run must have counts as good as the policy asks to be published. In squares of 2 km those of run %s have an error of %s, and '
                   'may have one of %s.', run.run_id, found.error, policy.largest_error), NULL),
        (signed >= policy.signatures,
            format('A run must be signed as often as the policy asks to be published. Signatures of run %s: %s of %s.', run.run_id, signed, policy.signatures),
            format('Have others than its submitter, of the role that signs, sign the digest on its page: SELECT dbanon.sign_run(%s, ...).',
                   run.run_id))) fault (met, text, hint)
    WHERE run.run_id = demand_policy.run_id AND fault.met IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        PERFORM dbanon_internal.raise_refusal('DA025', broken.text, 'Table dbanon.policy says what may be published.',
                                              coalesce(broken.hint, 'Make a run that it allows: CALL dbanon.anonymize(...).'));
    END IF;
    RETURN asked;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_policy IS 'Refuses a run that the policy does not allow, or that too few have signed; returns what it asks, and who signed.';

CREATE OR REPLACE FUNCTION dbanon_internal.open_held_periods(run_id bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    UPDATE dbanon.job_period jpe SET state = 'publish', tries = 0, next_at = clock_timestamp(), sqlstate = NULL, error = NULL, finished_at = NULL
        WHERE jpe.state = 'held' AND jpe.sqlstate = 'DA025' AND (open_held_periods.run_id IS NULL OR jpe.run_id = open_held_periods.run_id)
$$;
COMMENT ON FUNCTION dbanon_internal.open_held_periods IS 'Lets jobs publish what the policy had them hold, of one run or of all (null).';

CREATE OR REPLACE FUNCTION dbanon_internal.grant_signing(role text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA dbanon TO %I', role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION dbanon.sign_run(bigint, text) TO %I', role);
END
$$;
COMMENT ON FUNCTION dbanon_internal.grant_signing IS 'Lets members of a role call dbanon.sign_run, which refuses all but those whom the policy names.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_policy() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    methods CONSTANT text[] := ARRAY(SELECT met.name FROM ONLY dbanon.method met ORDER BY met.name);
BEGIN
    PERFORM dbanon_internal.refuse_name('method', ele.name, methods) FROM unnest(NEW.methods) ele (name) WHERE (ele.name = ANY (methods)) IS NOT TRUE;
    IF NOT EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = NEW.signers) AND NEW.signers IS NOT NULL THEN
        RAISE EXCEPTION 'Those who sign must be members of a role of this server. There is no role %.', dbanon_internal.quote_text(NEW.signers)
            USING ERRCODE = 'DA011', DETAIL = 'Column signers of dbanon.policy.', HINT = format('CREATE ROLE %I NOLOGIN;', NEW.signers);
    END IF;
    PERFORM dbanon_internal.grant_signing(NEW.signers);
    INSERT INTO dbanon.audit (action, detail)
        VALUES ('change_policy', coalesce(to_jsonb(NEW), '{}') - 'one' || jsonb_build_object('was', to_jsonb(OLD) - 'one'));
    PERFORM dbanon_internal.open_held_periods(NULL);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_policy IS 'Refuses a policy that names no method or role, notes who changed it, and lets jobs try again.';

CREATE OR REPLACE FUNCTION dbanon.sign_run(run_id bigint, digest text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    policy CONSTANT dbanon.policy := (SELECT pol FROM ONLY dbanon.policy pol);
    run dbanon.run;
    verdict dbanon.verification;
    signed integer;
BEGIN
    IF policy.signatures > 0 IS NOT TRUE THEN
        RAISE EXCEPTION 'A run can only be signed where the policy asks for signatures. It asks for none.'
            USING ERRCODE = 'DA013', DETAIL = 'Column signatures of dbanon.policy.', HINT = 'Publish without: SELECT dbanon.publish(...).';
    END IF;
    SELECT stored.* INTO run FROM ONLY dbanon.run stored WHERE stored.run_id = sign_run.run_id;
    IF NOT EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = policy.signers AND pg_has_role(session_user, rol.oid, 'MEMBER'))
        OR run.created_by = session_user THEN
        RAISE EXCEPTION 'A run must be signed by a member of role % who did not submit it. % is not one.', quote_ident(policy.signers), quote_ident(session_user)
            USING ERRCODE = 'DA014', DETAIL = 'Table dbanon.policy names the role.',
                  HINT = 'Have another login sign it. An administrator lets one in: GRANT <role> TO <login>;';
    END IF;
    IF run.run_id IS NULL THEN PERFORM dbanon_internal.refuse_no_run(sign_run.run_id); END IF;
    SELECT ver.* INTO verdict FROM ONLY dbanon.verification ver WHERE ver.run_id = run.run_id ORDER BY ver.verification_id DESC LIMIT 1;
    IF run.status <> 'verified' OR verdict.passed IS NOT TRUE OR encode(verdict.digest, 'hex') IS DISTINCT FROM lower(sign_run.digest) THEN
        RAISE EXCEPTION 'A signature must be of the digest that passed the latest verification. Got another for run %.', run.run_id
            USING ERRCODE = 'DA005', DETAIL = 'Its rows may have changed, and were verified again, since its page was made.',
                  HINT = format('Have its page made again, and read it: `dbanon report %s`.', run.run_id);
    END IF;
    INSERT INTO dbanon.signature (run_id, digest) VALUES (run.run_id, verdict.digest) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'sign', dat.name, run.run_id, jsonb_build_object('digest', lower(sign_run.digest))
            FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id;
    END IF;
    signed := jsonb_array_length(dbanon_internal.describe_policy(run.run_id) -> 'signed');
    IF signed >= policy.signatures THEN PERFORM dbanon_internal.open_held_periods(run.run_id); END IF;
    RETURN signed;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Run % is being published or held by another session, and was not signed.', sign_run.run_id
        USING ERRCODE = 'DA013', DETAIL = 'That session did not end within 10 seconds.', HINT = 'Sign it again in a moment.';
END
$$;
COMMENT ON FUNCTION dbanon.sign_run IS
'Consents to the publication of a run, as the policy may ask (table dbanon.policy). A signature is of the rows that were attacked: it lapses when they
are verified anew with another digest, when its login leaves the role that signs, or when the run is dropped. When enough have signed, a job that was held goes on.
Arguments:
- run_id: the number of the run.
- digest: the digest of the rows that were attacked, as the page and the card of the run show it.
Returns: how many signatures the run has now.
Raises: DA001. DA005 for another digest. DA013 where the policy asks for none, or while the run is being published. DA014 for who submitted
the run, or is no member of the role that signs.
Example: SELECT dbanon.sign_run(1, ''5d41402abc4b2a76b9719d911017c592ae2b3c4d5e6f708192a3b4c5d6e7f809'').';

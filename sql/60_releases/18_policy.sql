-- What may be published from this database, and who consents to a run: one row of dbanon.policy, which an administrator changes.

CREATE OR REPLACE FUNCTION dbanon_internal.may_sign(login name, run_id bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Superusers are members of every role. From PostgreSQL 16 on, the login that made a role is a member that may not become it.
    SELECT EXISTS (
        SELECT FROM ONLY dbanon.policy pol JOIN pg_roles rol ON rol.rolname = pol.signers
        JOIN pg_roles signer ON signer.rolname = may_sign.login AND NOT signer.rolsuper
        WHERE pg_has_role(signer.oid, rol.oid, CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)
            AND NOT EXISTS (SELECT FROM ONLY dbanon.run run WHERE run.run_id = may_sign.run_id AND run.created_by = may_sign.login))
$$;
COMMENT ON FUNCTION dbanon_internal.may_sign IS 'Whether a login is of the role that signs, and did not submit the run.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_policy(run_id bigint, digest bytea) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT nullif(jsonb_strip_nulls(to_jsonb(pol) - 'one' || jsonb_build_object('signatures', nullif(pol.signatures, 0), 'signed', (
        SELECT jsonb_agg(jsonb_build_object('login', sig.login, 'at', sig.signed_at) ORDER BY sig.signed_at, sig.login)
        FROM ONLY dbanon.signature sig
        WHERE pol.signatures > 0 AND sig.run_id = describe_policy.run_id AND sig.digest = describe_policy.digest
            AND dbanon_internal.may_sign(sig.login, sig.run_id)))), '{}')
    FROM ONLY dbanon.policy pol
$$;
COMMENT ON FUNCTION dbanon_internal.describe_policy IS
'What the policy asks of a run, and who signed its rows of a digest; null where it asks for nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_policy_fault(
    run_id bigint, digest bytea DEFAULT NULL, OUT text text, OUT hint text, OUT waits boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    policy CONSTANT dbanon.policy := (SELECT pol FROM ONLY dbanon.policy pol);
    of_rows CONSTANT bytea := coalesce(find_policy_fault.digest, (dbanon_internal.find_verdict(run_id)).digest);
    signed CONSTANT integer := coalesce(jsonb_array_length(dbanon_internal.describe_policy(run_id, of_rows) -> 'signed'), 0);
    other CONSTANT text := 'Make a run that it allows: CALL dbanon.anonymize(...).';
BEGIN
    -- Whole sentences, so that the error of a period of a job can show them.
    SELECT fault.text, fault.hint, fault.waits INTO find_policy_fault.text, find_policy_fault.hint, find_policy_fault.waits
    FROM ONLY dbanon.run run
    CROSS JOIN LATERAL (
        SELECT coalesce(mea.window_s, ceil(extract(epoch FROM upper(spa.span) - lower(spa.span)))) AS window_s
        FROM dbanon_internal.find_row_meaning(run.run_id) mea, dbanon_internal.find_run_span(run.run_id) spa (span)) says
    LEFT JOIN LATERAL (
        -- The worst of all measurements of these rows, or others would be drawn until one fits.
        SELECT fig.side_m, coalesce(fig.value, 'Infinity') AS error
        FROM (SELECT DISTINCT ON (eva.evaluation_id) eva.* FROM dbanon.evaluations eva
              WHERE eva.run_id = run.run_id AND eva.name = 'count_error' AND eva.evaluated_at >= (
                  SELECT min(ver.checked_at) FROM ONLY dbanon.verification ver WHERE ver.run_id = run.run_id AND ver.digest = of_rows)
              ORDER BY eva.evaluation_id, abs(eva.side_m - 2000), eva.asked) fig
        ORDER BY error DESC LIMIT 1) found ON true
    CROSS JOIN LATERAL (VALUES
        (1, policy.one, format('Table dbanon.policy must have a row for run %s to be published. It has none.', run.run_id),
            'Have an administrator add it: INSERT INTO dbanon.policy DEFAULT VALUES;', true),
        (2, policy.methods IS NULL OR run.method = ANY (policy.methods),
            format('A run must use a method that the policy allows to be published. Run %s uses %s. Allowed: %s.',
                   run.run_id, run.method, coalesce(nullif(array_to_string(policy.methods, ', '), ''), 'none')), other, false),
        (3, policy.least_k IS NULL OR (run.params ->> 'k')::numeric >= policy.least_k,
            format('A run must have a k that the policy allows to be published. That of run %s is %s, and must be %s or more.',
                   run.run_id, run.params ->> 'k', policy.least_k), other, false),
        (4, policy.longest_window_s IS NULL OR says.window_s <= policy.longest_window_s,
            format('A run must have records as short as the policy asks to be published. Those of run %s last %s s, and the policy allows %s s.',
                   run.run_id, says.window_s, policy.longest_window_s), other, false),
        (5, policy.largest_error IS NULL OR found.error IS NOT NULL,
            format('A run must be measured to be published, since the policy limits its error. Run %s was not.', run.run_id),
            format('Have it measured: dbanon evaluate %s.', run.run_id), true),
        (6, policy.largest_error IS NULL OR found.error <= policy.largest_error,
            format('A run must have counts as good as the policy asks to be published. In squares of %s m those of run %s have an error of %s, '
                   'and may have one of %s.', found.side_m, run.run_id, round(found.error::numeric, 3), policy.largest_error), other, false),
        (7, signed >= policy.signatures,
            format('A run must be signed as often as the policy asks to be published. Signatures of run %s: %s of %s.',
                   run.run_id, signed, policy.signatures),
            format('Have others than its submitter, of the role that signs, sign the digest on its page: SELECT dbanon.sign_run(%s, ...).',
                   run.run_id), true)) fault (nth, met, text, hint, waits)
    WHERE run.run_id = find_policy_fault.run_id AND fault.met IS NOT TRUE ORDER BY fault.nth LIMIT 1;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_policy_fault IS
'Why the policy does not allow a run with rows of a digest (null: of the last attack), what to do, and whether that can still come; null where it allows it.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_policy(run_id bigint, digest bytea DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fault CONSTANT record := dbanon_internal.find_policy_fault(run_id, digest);
BEGIN
    IF fault.text IS NOT NULL THEN
        PERFORM dbanon_internal.raise_refusal('DA025', fault.text, 'Table dbanon.policy says what may be published.', fault.hint);
    END IF;
    RETURN dbanon_internal.describe_policy(run_id, digest);
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_policy IS 'Refuses a run that the policy does not allow, or that too few have signed; returns what it asks, and who signed.';

CREATE OR REPLACE FUNCTION dbanon_internal.grant_signing(role text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA dbanon TO %1$I; GRANT EXECUTE ON FUNCTION dbanon.sign_run(bigint, text) TO %1$I', role);
END
$$;
COMMENT ON FUNCTION dbanon_internal.grant_signing IS 'Lets members of a role call dbanon.sign_run, which refuses all but those whom the policy names.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_policy() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    methods CONSTANT text[] := ARRAY(SELECT met.name FROM ONLY dbanon.method met ORDER BY met.name);
    unfit CONSTANT text := CASE WHEN NEW.signers IS NOT NULL THEN dbanon_internal.find_unfit_reader(ARRAY[NEW.signers]) END;
BEGIN
    PERFORM dbanon_internal.refuse_name('method', ele.name, methods) FROM unnest(NEW.methods) ele (name) WHERE (ele.name = ANY (methods)) IS NOT TRUE;
    IF unfit IS NOT NULL THEN
        RAISE EXCEPTION 'Those who sign must be members of a role of this server that is not dbanon''s own. Got %.', unfit
            USING ERRCODE = 'DA011', DETAIL = 'Column signers of dbanon.policy.', HINT = format('CREATE ROLE %I NOLOGIN;', NEW.signers);
    END IF;
    IF OLD.signers <> coalesce(NEW.signers, '') AND EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = OLD.signers) THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION dbanon.sign_run(bigint, text) FROM %1$I; REVOKE USAGE ON SCHEMA dbanon FROM %1$I', OLD.signers);
    END IF;
    PERFORM dbanon_internal.grant_signing(NEW.signers);
    INSERT INTO dbanon.audit (action, detail) VALUES ('change_policy', coalesce(to_jsonb(NEW), '{}') - 'one' || jsonb_build_object('was', to_jsonb(OLD) - 'one'));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_policy IS 'Refuses a policy that names no method or role, moves the right to sign, and notes who changed it.';

CREATE OR REPLACE FUNCTION dbanon.sign_run(run_id bigint, digest text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    policy CONSTANT dbanon.policy := (SELECT pol FROM ONLY dbanon.policy pol);
    run dbanon.run;
    verdict CONSTANT dbanon.verification := dbanon_internal.find_verdict(run_id);
BEGIN
    IF policy.signatures > 0 IS NOT TRUE THEN
        RAISE EXCEPTION 'A run can only be signed where the policy asks for signatures. It asks for none.'
            USING ERRCODE = 'DA013', DETAIL = 'Column signatures of dbanon.policy.', HINT = 'Publish without signing: SELECT dbanon.publish(...).';
    END IF;
    IF NOT dbanon_internal.may_sign(session_user, sign_run.run_id) THEN
        RAISE EXCEPTION 'A run must be signed by a member of role % who did not submit it and is no superuser. % is none such.', quote_ident(policy.signers), quote_ident(session_user)
            USING ERRCODE = 'DA014', DETAIL = 'Table dbanon.policy names the role.',
                  HINT = 'Have another login sign it. An administrator lets one in: GRANT <role> TO <login>;';
    END IF;
    SELECT stored.* INTO run FROM ONLY dbanon.run stored WHERE stored.run_id = sign_run.run_id;
    IF run.run_id IS NULL THEN PERFORM dbanon_internal.refuse_no_run(sign_run.run_id); END IF;
    IF run.status <> 'verified' OR verdict.passed IS NOT TRUE OR encode(verdict.digest, 'hex') IS DISTINCT FROM lower(sign_run.digest) THEN
        RAISE EXCEPTION 'A signature must be of the digest that passed the latest verification. That of run % is another.', run.run_id
            USING ERRCODE = 'DA005', DETAIL = 'Its rows may have changed, and were verified again, since its page was made.',
                  HINT = format('Have its page made again, and read it: dbanon report %s.', run.run_id);
    END IF;
    INSERT INTO dbanon.signature (run_id, digest) VALUES (run.run_id, verdict.digest) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'sign', dat.name, run.run_id, jsonb_build_object('digest', lower(sign_run.digest))
            FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id;
    END IF;
    RETURN jsonb_array_length(dbanon_internal.describe_policy(run.run_id, verdict.digest) -> 'signed');
END
$$;
COMMENT ON FUNCTION dbanon.sign_run IS
'Consents to the publication of a run, as the policy may ask (table dbanon.policy). A signature is of the rows that were attacked: it lapses when they
are verified anew with another digest, when its login leaves the role that signs, or when the run is dropped. A job that was held for it goes on.
Arguments:
- run_id: the number of the run.
- digest: the digest of the rows that were attacked, as the page and the card of the run show it.
Returns: how many signatures the run has now.
Raises: DA001. DA005 for another digest. DA013 where the policy asks for none. DA014 for the submitter, superusers, and logins outside the role.
Example: SELECT dbanon.sign_run(1, ''5d41402abc4b2a76b9719d911017c592ae2b3c4d5e6f708192a3b4c5d6e7f809'').';

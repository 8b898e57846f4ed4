-- Triggers write dbanon.audit, so that every way of changing something leaves a line.
--
-- A line stays permanently, so it holds nothing that may have to be forgotten: no subject, no coordinate, no name of a file. What users
-- word themselves are names (of datasets, populations, releases, roles, sets of quasi-identifiers) and reasons of overlaps that were allowed.

CREATE OR REPLACE FUNCTION dbanon_internal.guard_audit() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'Table dbanon.audit must only grow. Got % on it.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = 'The record of actions must stay.', HINT = 'Read it: SELECT * FROM dbanon.audit.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_audit IS 'Refuses every change of what dbanon.audit holds.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_dataset() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dbanon.audit (action, dataset, detail)
            SELECT 'create', added.name, jsonb_build_object('srid', added.srid, 'grid_m', added.grid_m, 'grid_s', added.grid_s)
            FROM added ORDER BY added.dataset_id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO dbanon.audit (action, dataset) SELECT 'delete', changed.name FROM changed ORDER BY changed.dataset_id;
    ELSIF (NEW.population_id, NEW.settle_s) <> (OLD.population_id, OLD.settle_s) THEN
        INSERT INTO dbanon.audit (action, dataset, detail)
            SELECT 'settle', NEW.name, jsonb_build_object('population', pop.name, 'settle_s', NEW.settle_s,
                'was', jsonb_build_object('population', was.name, 'settle_s', OLD.settle_s))
            FROM ONLY dbanon.population pop, ONLY dbanon.population was
            WHERE pop.population_id = NEW.population_id AND was.population_id = OLD.population_id;
    ELSE
        INSERT INTO dbanon.audit (action, dataset, detail) VALUES ('regrid', NEW.name,
            jsonb_build_object('srid', NEW.srid, 'grid_m', NEW.grid_m, 'grid_s', NEW.grid_s, 'was', jsonb_build_object(
                'dataset', OLD.name, 'srid', OLD.srid, 'grid_m', OLD.grid_m, 'grid_s', OLD.grid_s)));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_dataset IS 'Writes who made, deleted, renamed or regridded a dataset, or gave it another population or settle time.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_load() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not source and quarantined: a file may be called after a person, and both can be read in dbanon.load.
    INSERT INTO dbanon.audit (action, dataset, detail)
        SELECT 'load', d.name, jsonb_build_object(
            'load_id', NEW.load_id, 'kind', NEW.kind, 'rows_read', NEW.rows_read, 'rows_kept', NEW.rows_kept)
        FROM ONLY dbanon.dataset d WHERE d.dataset_id = NEW.dataset_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_load IS 'Writes who loaded what kind of rows and how many, once they are counted.';

CREATE OR REPLACE FUNCTION dbanon_internal.strip_texts(params jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    -- The set of quasi-identifiers of a run need not exist when it is submitted, so its name may be anything.
    SELECT coalesce(jsonb_object_agg(pair.key, pair.value), '{}') FROM jsonb_each(params) pair
    WHERE pair.value::text ~ '^("([-0-9.:+TZ ]{0,50}|-?Infinity)"|[^"]*)$' OR EXISTS (
        SELECT FROM ONLY dbanon.method met CROSS JOIN LATERAL jsonb_array_elements(met.parameters) par
        WHERE par ->> 'name' = pair.key AND par -> 'choices' @> pair.value)
$$;
COMMENT ON FUNCTION dbanon_internal.strip_texts IS 'The parameters of a run but for texts that are no number, no time and no choice that a method offers.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_run() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'submit', dat.name, added.run_id,
                jsonb_build_object('method', added.method, 'algorithm', added.algorithm, 'params', dbanon_internal.strip_texts(added.params - 'seed'))
            FROM added LEFT JOIN ONLY dbanon.dataset dat ON dat.dataset_id = added.dataset_id ORDER BY added.run_id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'drop', dat.name, changed.run_id,
                jsonb_build_object('method', changed.method, 'algorithm', changed.algorithm, 'status', changed.status)
            FROM changed LEFT JOIN ONLY dbanon.dataset dat ON dat.dataset_id = changed.dataset_id ORDER BY changed.run_id;
    ELSE
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT CASE WHEN NEW.cancel_requested_at IS NOT NULL THEN 'cancel' WHEN NEW.todo = 'evaluate' THEN 'evaluate' ELSE 'reverify' END,
                dat.name, NEW.run_id, jsonb_build_object('status', OLD.status)
            FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = NEW.dataset_id;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_run IS
'Writes who submitted, cancelled or dropped a run, or asked for its verification or evaluation, with its parameters but without its
seed.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_releases CONSTANT text := 'SELECT r.dataset_id, count(*) AS rows FROM %I c LEFT JOIN ONLY dbanon.release l USING (release_id) '
        'LEFT JOIN ONLY dbanon.run r USING (run_id) GROUP BY r.dataset_id';
    counting CONSTANT text := CASE TG_TABLE_NAME
        WHEN 'quarantine' THEN 'SELECT l.dataset_id, count(*) AS rows FROM %I c LEFT JOIN ONLY dbanon.load l USING (load_id) GROUP BY l.dataset_id'
        WHEN 'signature' THEN 'SELECT r.dataset_id, count(*) AS rows FROM %I c LEFT JOIN ONLY dbanon.run r USING (run_id) GROUP BY r.dataset_id'
        WHEN 'grouping' THEN of_releases WHEN 'exposure' THEN of_releases WHEN 'asked' THEN of_releases
        ELSE 'SELECT c.dataset_id, count(*) AS rows FROM %I c GROUP BY c.dataset_id' END;
    counted CONSTANT text := CASE TG_OP WHEN 'INSERT' THEN format(counting, 'added') WHEN 'DELETE' THEN format(counting, 'changed')
        -- A row that went from one dataset to another counts for both.
        WHEN 'UPDATE' THEN format(counting || ' UNION ALL ' || counting, 'changed', 'added')
        ELSE 'SELECT NULL::bigint AS dataset_id, NULL::bigint AS rows' END;
BEGIN
    -- Also where our own functions do it: whether they do cannot be determined, since callers write into the stack of calls.
    EXECUTE format(
        'INSERT INTO dbanon.audit (action, dataset, detail) '
        'SELECT ''change'', d.name, jsonb_strip_nulls(jsonb_build_object( '
        '    ''table'', $1, ''statement'', $2, ''transaction'', pg_current_xact_id()::text, ''rows'', max(n.rows))) '
        'FROM (%s) n LEFT JOIN ONLY dbanon.dataset d USING (dataset_id) GROUP BY d.name ORDER BY d.name', counted)
        USING TG_TABLE_NAME, TG_OP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_rows IS
'Writes which table a statement changed and how many rows of each dataset, a load or forgetting too: a line a dataset and statement.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_verification() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dbanon.audit (action, dataset, run_id, detail)
        SELECT 'verify', dat.name, added.run_id, jsonb_strip_nulls(jsonb_build_object('attack', met.attack, 'passed', added.passed))
        FROM added
        LEFT JOIN ONLY dbanon.run run ON run.run_id = added.run_id
        -- A worker may write any name of an attack: only that of the run's method is kept.
        LEFT JOIN ONLY dbanon.method met ON met.name = run.method AND met.attack = added.attack
        LEFT JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        ORDER BY added.verification_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_verification IS 'Writes who recorded which verdict on a run.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_release() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
        SELECT CASE TG_OP WHEN 'INSERT' THEN 'publish' ELSE 'unpublish' END, dat.name, NEW.run_id, NEW.name,
            CASE TG_OP WHEN 'INSERT' THEN jsonb_strip_nulls(jsonb_build_object(
                'rows', NEW.rows, 'overlap', NEW.overlap, 'overlap_reason', NEW.overlap_reason, 'readers', NEW.readers)) ELSE '{}' END
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id WHERE run.run_id = NEW.run_id
        UNION ALL
        SELECT 'lose', NULL, NULL, NEW.name, jsonb_build_object(
            'population', pop.name, 'since', lower(NEW.span), 'until', upper(NEW.span), 'reach_s', extract(epoch FROM NEW.reach))
        FROM ONLY dbanon.population pop WHERE pop.population_id = NEW.population_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_release IS 'Writes who published or withdrew a release, with the figures and the reason where it overlaps others.';

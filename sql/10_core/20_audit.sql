-- Who did what: triggers write dbanon.audit, so that no way of doing it leaves no line.
--
-- A line is there for ever, so it holds nothing that may have to be forgotten: no subject, no coordinate, no name of a file.

CREATE OR REPLACE FUNCTION dbanon_internal.guard_audit() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A line counts on while its transaction lasts, before anybody else can see it.
    IF TG_OP = 'UPDATE' AND OLD.detail ->> 'transaction' = pg_current_xact_id_if_assigned()::text
        AND to_jsonb(NEW) - 'detail' = to_jsonb(OLD) - 'detail' AND NEW.detail - ARRAY['rows', 'statements'] = OLD.detail - ARRAY['rows', 'statements']
        AND coalesce((NEW.detail ->> 'rows')::bigint, 0) >= coalesce((OLD.detail ->> 'rows')::bigint, 0)
        AND (NEW.detail ->> 'statements')::bigint > (OLD.detail ->> 'statements')::bigint THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'Table dbanon.audit must only grow. Got % on it.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = 'Who did what must stay.', HINT = 'Read it: SELECT * FROM dbanon.audit.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_audit() IS
'Refuses every change of what dbanon.audit holds; only the rows of a change are added up until its transaction ends. Trigger on
dbanon.audit. Takes: nothing. Returns: the line. Raises: DA006. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_dataset() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dbanon.audit (action, dataset, detail)
            SELECT 'create', a.name, jsonb_build_object('srid', a.srid, 'grid_m', a.grid_m, 'grid_s', a.grid_s)
            FROM added a ORDER BY a.dataset_id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO dbanon.audit (action, dataset) SELECT 'delete', c.name FROM changed c ORDER BY c.dataset_id;
    ELSE
        INSERT INTO dbanon.audit (action, dataset, detail) VALUES ('regrid', NEW.name,
            jsonb_build_object('srid', NEW.srid, 'grid_m', NEW.grid_m, 'grid_s', NEW.grid_s, 'was', jsonb_build_object(
                'dataset', OLD.name, 'srid', OLD.srid, 'grid_m', OLD.grid_m, 'grid_s', OLD.grid_s)));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_dataset() IS
'Writes who made, deleted, renamed or regridded a dataset. Trigger on dbanon.dataset. Takes: nothing. Returns: nothing.
Raises: nothing of its own. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_load() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not source and quarantined: a file may be called after a person, and both can be read in dbanon.load.
    INSERT INTO dbanon.audit (action, dataset, detail)
        SELECT 'load', d.name, jsonb_build_object(
            'load_id', a.load_id, 'kind', a.kind, 'rows_read', a.rows_read, 'rows_kept', a.rows_kept)
        FROM added a LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = a.dataset_id ORDER BY a.load_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_load() IS
'Writes who loaded what kind of rows and how many. Trigger on dbanon.load. Takes: nothing. Returns: nothing. Raises: nothing
of its own. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_run() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'submit', d.name, a.run_id,
                jsonb_build_object('method', a.method, 'algorithm', a.algorithm, 'params', a.params - 'seed')
            FROM added a LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = a.dataset_id ORDER BY a.run_id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT 'drop', d.name, c.run_id,
                jsonb_build_object('method', c.method, 'algorithm', c.algorithm, 'status', c.status)
            FROM changed c LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = c.dataset_id ORDER BY c.run_id;
    ELSE
        INSERT INTO dbanon.audit (action, dataset, run_id, detail)
            SELECT CASE WHEN NEW.cancel_requested_at IS NULL THEN 'reverify' ELSE 'cancel' END, d.name, NEW.run_id, jsonb_build_object('status', OLD.status)
            FROM ONLY dbanon.dataset d WHERE d.dataset_id = NEW.dataset_id;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_run() IS
'Writes who submitted, cancelled or dropped a run, or asked for its verification, with its parameters but without its seed.
Trigger on dbanon.run. Takes: nothing. Returns: nothing. Raises: nothing of its own. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Backwards along the index to the newest line of the transaction, instead of all of the last thousand.
SET enable_bitmapscan = off
SET enable_seqscan = off
SET enable_sort = off
AS $$
DECLARE
    done CONSTANT jsonb := jsonb_build_object(
        'table', TG_TABLE_NAME, 'statement', TG_OP, 'transaction', pg_current_xact_id()::text);
    counting CONSTANT text := CASE TG_TABLE_NAME
        WHEN 'quarantine' THEN 'SELECT l.dataset_id, count(*) AS rows FROM %I c LEFT JOIN ONLY dbanon.load l USING (load_id) GROUP BY l.dataset_id'
        ELSE 'SELECT c.dataset_id, count(*) AS rows FROM %I c GROUP BY c.dataset_id' END;
    counted text := CASE TG_OP WHEN 'INSERT' THEN format(counting, 'added') WHEN 'DELETE' THEN format(counting, 'changed')
        -- A row that went from one dataset to another counts for both.
        WHEN 'UPDATE' THEN format(counting || ' UNION ALL ' || counting, 'changed', 'added')
        ELSE 'SELECT NULL::bigint AS dataset_id, NULL::bigint AS rows' END;
    touched record;
BEGIN
    -- Also where our own functions do it: whether they do cannot be told for certain, since callers write into the stack of calls.
    FOR touched IN EXECUTE format('SELECT d.name, max(n.rows) AS rows FROM (%s) n LEFT JOIN ONLY dbanon.dataset d USING (dataset_id) '
                                  'GROUP BY d.name ORDER BY d.name', counted) LOOP
        -- One line a transaction, for each dataset; nobody writes a thousand others in between. Another after every 100
        -- statements: each leaves a dead version of its line behind, which the next one has to pass.
        UPDATE dbanon.audit a
            SET detail = a.detail || jsonb_strip_nulls(jsonb_build_object(
                'rows', (a.detail ->> 'rows')::bigint + touched.rows, 'statements', (a.detail ->> 'statements')::integer + 1))
            WHERE a.audit_id = (
                SELECT b.audit_id FROM ONLY dbanon.audit b
                WHERE b.audit_id > (SELECT max(c.audit_id) - 1000 FROM ONLY dbanon.audit c)
                    AND b.detail - ARRAY['rows', 'statements'] = done AND b.dataset IS NOT DISTINCT FROM touched.name
                ORDER BY b.audit_id DESC LIMIT 1)
              AND (a.detail ->> 'statements')::integer < 100;
        IF NOT FOUND THEN
            INSERT INTO dbanon.audit (action, dataset, detail)
                VALUES ('change', touched.name, done || jsonb_strip_nulls(jsonb_build_object('rows', touched.rows, 'statements', 1)));
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_rows() IS
'Writes who inserted into, updated or deleted from what was loaded or what a load could not use, and how many rows, a load or
forgetting too: a line for each dataset, table, kind of statement and transaction. Trigger on the tables that hold it. Takes:
nothing. Returns: nothing. Raises: nothing of its own. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_verification() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dbanon.audit (action, dataset, run_id, detail)
        SELECT 'verify', d.name, a.run_id, jsonb_build_object('attack', a.attack, 'passed', a.passed)
        FROM added a
        LEFT JOIN ONLY dbanon.run r ON r.run_id = a.run_id
        LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        ORDER BY a.verification_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_verification() IS
'Writes who recorded which verdict on a run. Trigger on dbanon.verification. Takes: nothing. Returns: nothing. Raises: nothing
of its own. Example: fires by itself.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_release() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
        SELECT CASE TG_OP WHEN 'INSERT' THEN 'publish' ELSE 'unpublish' END, d.name, NEW.run_id, NEW.name,
            CASE TG_OP WHEN 'INSERT' THEN jsonb_strip_nulls(jsonb_build_object(
                'rows', NEW.rows, 'overlap', NEW.overlap, 'overlap_reason', NEW.overlap_reason)) ELSE '{}' END
        FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id WHERE r.run_id = NEW.run_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_release() IS
'Writes who published or withdrew a release, with the figures and the reason where it overlaps others. Trigger on
dbanon.release. Takes: nothing. Returns: nothing. Raises: nothing of its own. Example: fires by itself.';

DROP TRIGGER IF EXISTS guard_rows ON dbanon.audit;
DROP TRIGGER IF EXISTS guard_update ON dbanon.audit;
CREATE TRIGGER guard_rows BEFORE DELETE OR TRUNCATE ON dbanon.audit
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.guard_audit();
CREATE TRIGGER guard_update BEFORE UPDATE ON dbanon.audit FOR EACH ROW EXECUTE FUNCTION dbanon_internal.guard_audit();

DROP TRIGGER IF EXISTS audit_insert ON dbanon.dataset;
DROP TRIGGER IF EXISTS audit_update ON dbanon.dataset;
DROP TRIGGER IF EXISTS audit_delete ON dbanon.dataset;
CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.dataset REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_dataset();
CREATE TRIGGER audit_update AFTER UPDATE ON dbanon.dataset FOR EACH ROW
    WHEN (OLD.name <> NEW.name OR OLD.srid <> NEW.srid OR OLD.grid_m <> NEW.grid_m OR OLD.grid_s <> NEW.grid_s)
    EXECUTE FUNCTION dbanon_internal.audit_dataset();
CREATE TRIGGER audit_delete AFTER DELETE ON dbanon.dataset REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_dataset();

DROP TRIGGER IF EXISTS audit_insert ON dbanon.load;
CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.load REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_load();

DO $$
DECLARE
    loaded text;
    way text;
BEGIN
    FOREACH loaded IN ARRAY ARRAY['trajectory', 'request', 'site', 'poi', 'cell', 'quasi_identifier', 'quarantine'] LOOP
        FOREACH way IN ARRAY ARRAY['change', 'insert', 'update', 'delete', 'truncate'] LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS audit_%s ON dbanon.%I', way, loaded);
        END LOOP;
        EXECUTE format('CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.%I REFERENCING NEW TABLE AS added '
            'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_rows()', loaded);
        EXECUTE format('CREATE TRIGGER audit_update AFTER UPDATE ON dbanon.%I REFERENCING OLD TABLE AS changed '
            'NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_rows()', loaded);
        EXECUTE format('CREATE TRIGGER audit_delete AFTER DELETE ON dbanon.%I REFERENCING OLD TABLE AS changed '
            'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_rows()', loaded);
        EXECUTE format('CREATE TRIGGER audit_truncate AFTER TRUNCATE ON dbanon.%I '
            'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_rows()', loaded);
    END LOOP;
END
$$;

DROP TRIGGER IF EXISTS audit_insert ON dbanon.run;
DROP TRIGGER IF EXISTS audit_cancel ON dbanon.run;
DROP TRIGGER IF EXISTS audit_ask ON dbanon.run;
DROP TRIGGER IF EXISTS audit_delete ON dbanon.run;
CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.run REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_run();
CREATE TRIGGER audit_cancel AFTER UPDATE ON dbanon.run FOR EACH ROW
    WHEN (OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL)
    EXECUTE FUNCTION dbanon_internal.audit_run();
CREATE TRIGGER audit_ask AFTER UPDATE ON dbanon.run FOR EACH ROW
    WHEN (OLD.todo IS NULL AND NEW.todo IS NOT NULL)
    EXECUTE FUNCTION dbanon_internal.audit_run();
CREATE TRIGGER audit_delete AFTER DELETE ON dbanon.run REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_run();

DROP TRIGGER IF EXISTS audit_insert ON dbanon.verification;
CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.verification REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.audit_verification();

DROP TRIGGER IF EXISTS audit_insert ON dbanon.release;
DROP TRIGGER IF EXISTS audit_withdrawal ON dbanon.release;
CREATE TRIGGER audit_insert AFTER INSERT ON dbanon.release FOR EACH ROW EXECUTE FUNCTION dbanon_internal.audit_release();
CREATE TRIGGER audit_withdrawal AFTER UPDATE ON dbanon.release FOR EACH ROW
    WHEN (OLD.withdrawn_at IS NULL AND NEW.withdrawn_at IS NOT NULL) EXECUTE FUNCTION dbanon_internal.audit_release();

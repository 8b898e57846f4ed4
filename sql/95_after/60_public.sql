-- Rights of PUBLIC that analysts do not need are taken, or given back, as the administrator has chosen: other programs use the same things,
-- so nothing is taken unasked. What is taken is recorded. The login does that, since the admin role may not.

DO $$
DECLARE
    before boolean;
    restricted boolean;
    thing record;
    one record;
    views bigint;
    functions bigint;
    names text;
    left_open bigint;
BEGIN
    SELECT ins.public_restricted, coalesce(@restrict_public@, ins.public_restricted) INTO before, restricted FROM dbanon.installation ins;
    UPDATE dbanon.installation SET public_restricted = restricted;
    PERFORM set_config('role', current_setting('dbanon.began_as'), true);

    IF restricted AND NOT before THEN
        SELECT count(*) FILTER (WHERE pub.kind = 'TABLE'), count(*) FILTER (WHERE pub.kind = 'FUNCTION'),
            string_agg(pub.name, ', ' ORDER BY pub.kind DESC, pub.name)
        INTO views, functions, names FROM pg_temp.list_public_things() pub WHERE pub.ours AND 'PUBLIC' = ANY (pub.grantees);
        IF names IS NOT NULL THEN
            RAISE NOTICE 'Taken from PUBLIC, and given to pg_monitor and dbanon''s roles: % and % that show locks, counters and estimates.',
                dbanon_internal.format_quantity(views, 'view'), dbanon_internal.format_quantity(functions, 'function')
                USING ERRCODE = 'DA018', DETAIL = format('These are %s.', names);
        END IF;
    END IF;
    IF restricted THEN
        FOR thing IN SELECT * FROM pg_temp.list_public_things() pub WHERE pub.ours LOOP
            IF 'PUBLIC' = ANY (thing.grantees) THEN
                INSERT INTO dbanon.changed_right (object, grantee) VALUES (thing.name, 'PUBLIC') ON CONFLICT DO NOTHING;
                EXECUTE format('REVOKE %s ON %s %s FROM PUBLIC', thing.privilege, thing.kind, thing.name);
            END IF;
            FOR one IN
                SELECT * FROM (VALUES ('pg_monitor', 'pg_monitor'), ('admin', '@admin@'), ('operator', '@operator@'), ('worker', '@worker@'))
                    gra (grantee, role) WHERE gra.role <> ALL (thing.grantees)
            LOOP
                INSERT INTO dbanon.changed_right (object, grantee) VALUES (thing.name, one.grantee) ON CONFLICT DO NOTHING;
                EXECUTE format('GRANT %s ON %s %s TO %I', thing.privilege, thing.kind, thing.name, one.role);
            END LOOP;
        END LOOP;
    ELSIF before THEN
        PERFORM pg_temp.give_back('@prefix@');
    END IF;

    SELECT count(*) INTO left_open FROM pg_temp.list_public_things() pub WHERE restricted AND 'PUBLIC' = ANY (pub.grantees);
    IF left_open > 0 THEN
        RAISE WARNING 'The server''s locks, counters and large objects and PostGIS''s estimates (%) stay open to every login: this one may not '
            'take them from PUBLIC. Upgrade once as a superuser, or see docs/administrators/analyst-threats.md.',
            dbanon_internal.format_quantity(left_open, 'view or function', 'views and functions')
            USING ERRCODE = 'DA018';
    ELSIF NOT restricted THEN
        RAISE NOTICE 'Every login of this database can read the server''s locks and counters and PostGIS''s estimates, and write large objects: '
            'see docs/administrators/analyst-threats.md. In a database of dbanon''s own, take these rights away: --restrict-public of `dbanon db upgrade` or '
            '`dbanon db script`, or `SELECT dbanon_setup.install(restrict_public => true)`.'
            USING ERRCODE = 'DA018';
    END IF;
    IF NOT pg_has_role('@admin@', 'pg_signal_backend', 'MEMBER') THEN
        RAISE NOTICE 'Role @admin@ cannot end the sessions of readers of a withdrawn release: it is no member of pg_signal_backend, and this login '
            'may not grant that.'
            USING ERRCODE = 'DA018';
    END IF;
    IF NOT pg_has_role('@operator@', '@analyst@', 'MEMBER') THEN
        RAISE WARNING 'Operators may not read the releases: this login may not grant that. Run `GRANT @analyst@ TO @operator@` as a superuser.'
            USING ERRCODE = 'DA018';
    END IF;
END
$$;

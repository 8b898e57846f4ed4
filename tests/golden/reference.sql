-- Everything in the schemas dbanon, dbanon_internal and published that docs/reference tells of, as JSON: who may do what, and what the comments say.
WITH role (name) AS (
    VALUES ('operator'), ('worker'), ('analyst')
), relation AS (
    SELECT c.oid, c.relnamespace, c.relname AS name, CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END AS kind,
        regexp_replace(obj_description(c.oid, 'pg_class'), ' \w{64}\.$', ' a checksum.') AS comment
    FROM pg_class c
    WHERE c.relnamespace IN ('dbanon'::regnamespace, 'published'::regnamespace) AND c.relkind IN ('r', 'v', 'm', 'p')
        AND NOT EXISTS (SELECT FROM dbanon.release l WHERE l.name = c.relname AND c.relnamespace = 'published'::regnamespace)
), attribute AS (
    SELECT a.attrelid, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod) AS type,
        col_description(a.attrelid, a.attnum) AS comment
    FROM pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped
), allowed AS (
    SELECT r.oid, o.name AS role, string_agg(s.said, ', ' ORDER BY p.place) AS said
    FROM relation r
    CROSS JOIN role o
    CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE'), (5, 'TRUNCATE')) p (place, command)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN has_table_privilege('dbanon_' || o.name, r.oid, p.command) THEN lower(p.command)
        WHEN p.command IN ('SELECT', 'INSERT', 'UPDATE') THEN (
            SELECT format('%s (%s)', lower(p.command), string_agg(a.attname, ', ' ORDER BY a.attnum))
            FROM attribute a
            WHERE a.attrelid = r.oid AND has_column_privilege('dbanon_' || o.name, r.oid, a.attnum, p.command)
            HAVING count(*) > 0)
        END) s (said)
    GROUP BY r.oid, o.name
)
SELECT jsonb_build_object('kind', r.kind, 'name', r.name, 'schema', r.relnamespace::regnamespace, 'comment', r.comment,
    'rights', (SELECT jsonb_object_agg(w.role, w.said) FROM allowed w WHERE w.oid = r.oid),
    'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', a.type, 'comment', a.comment)
                ORDER BY a.attnum) FROM attribute a WHERE a.attrelid = r.oid))
FROM relation r
UNION ALL
SELECT jsonb_build_object('kind', CASE p.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END, 'name', p.proname,
    'schema', p.pronamespace::regnamespace,
    'comment', obj_description(p.oid, 'pg_proc'),
    'arguments', pg_get_function_arguments(p.oid), 'result', pg_get_function_result(p.oid),
    'definer', p.prosecdef,
    'rights', (SELECT jsonb_object_agg(o.name, CASE WHEN has_function_privilege('dbanon_' || o.name, p.oid, 'EXECUTE')
                                                    THEN 'call' END) FROM role o))
FROM pg_proc p WHERE p.pronamespace::regnamespace::text ~ '^(dbanon|published)'

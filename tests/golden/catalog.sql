-- One line for everything dbanon has in the catalog of a database; schema.txt is what a fresh upgrade must give.
WITH ours AS (
    SELECT n.oid, n.nspname FROM pg_namespace n WHERE n.nspname IN ('dbanon', 'dbanon_internal', 'published', 'published_inner')
), relation AS (
    SELECT c.*, o.nspname || '.' || c.relname AS full_name FROM pg_class c JOIN ours o ON o.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')
), grantee AS (
    SELECT r.oid, r.rolname::text AS name FROM pg_roles r UNION ALL SELECT 0, 'PUBLIC'
), line (text) AS (
    SELECT format('schema %s owner %s', o.nspname, pg_get_userbyid(n.nspowner))
    FROM ours o JOIN pg_namespace n USING (oid)
    UNION ALL
    SELECT format('role %s%s%s', r.rolname, CASE WHEN r.rolcanlogin THEN ' LOGIN' END,
                  CASE WHEN r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolbypassrls THEN ' POWERFUL' END)
    FROM pg_roles r WHERE r.rolname IN ('dbanon_admin', 'dbanon_operator', 'dbanon_worker', 'dbanon_analyst')
    UNION ALL
    SELECT format('member %s of %s', pg_get_userbyid(m.member), pg_get_userbyid(m.roleid))
    FROM pg_auth_members m WHERE pg_get_userbyid(m.member) IN ('dbanon_operator', 'dbanon_worker', 'dbanon_analyst')
    UNION ALL
    SELECT format('%s %s owner %s', CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE c.relkind::text END,
                  c.full_name, pg_get_userbyid(c.relowner))
    FROM relation c
    UNION ALL
    SELECT format('column %s %s %s %s%s%s%s', c.full_name, lpad(a.attnum::text, 2, '0'), a.attname,
                  format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ' NOT NULL' END,
                  ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid),
                  CASE a.attidentity WHEN 'a' THEN ' ALWAYS AS IDENTITY' WHEN 'd' THEN ' BY DEFAULT AS IDENTITY' END)
    FROM relation c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    UNION ALL
    SELECT format('definition %s %s', c.full_name, regexp_replace(pg_get_viewdef(c.oid), '\s+', ' ', 'g'))
    FROM relation c WHERE c.relkind = 'v'
    UNION ALL
    SELECT format('constraint %s %s %s', c.full_name, k.conname, regexp_replace(pg_get_constraintdef(k.oid), '\s+', ' ', 'g'))
    FROM relation c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n'
    UNION ALL
    SELECT format('index %s', pg_get_indexdef(i.indexrelid)) FROM relation c JOIN pg_index i ON i.indrelid = c.oid
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(t.oid))
    FROM relation c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
    UNION ALL
    SELECT format('function %s.%s(%s) returns %s %s %s %s%s%s %s', o.nspname, p.proname,
                  pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid),
                  CASE p.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
                  CASE p.proparallel WHEN 's' THEN 'PARALLEL SAFE' WHEN 'r' THEN 'PARALLEL RESTRICTED' ELSE 'PARALLEL UNSAFE' END,
                  CASE WHEN p.proisstrict THEN 'STRICT ' END, CASE WHEN p.prosecdef THEN 'SECURITY DEFINER ' END,
                  p.proconfig::text, pg_get_userbyid(p.proowner))
    FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
    UNION ALL
    SELECT format('grant schema %s %s %s', o.nspname, g.name, a.privilege_type)
    FROM ours o JOIN pg_namespace n USING (oid) CROSS JOIN aclexplode(n.nspacl) a JOIN grantee g ON g.oid = a.grantee
    WHERE a.grantee <> n.nspowner
    UNION ALL
    SELECT format('grant relation %s %s %s', c.full_name, g.name, string_agg(a.privilege_type, ',' ORDER BY a.privilege_type))
    FROM relation c CROSS JOIN aclexplode(c.relacl) a JOIN grantee g ON g.oid = a.grantee
    WHERE a.grantee <> c.relowner GROUP BY c.full_name, g.name
    UNION ALL
    SELECT format('grant column %s.%s %s %s', c.full_name, t.attname, g.name,
                  string_agg(a.privilege_type, ',' ORDER BY a.privilege_type))
    FROM relation c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN aclexplode(t.attacl) a
    JOIN grantee g ON g.oid = a.grantee GROUP BY c.full_name, t.attname, g.name
    UNION ALL
    SELECT format('grant function %s.%s(%s) %s', o.nspname, p.proname, pg_get_function_identity_arguments(p.oid), g.name)
    FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
    CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a JOIN grantee g ON g.oid = a.grantee
    WHERE a.grantee <> p.proowner AND p.prosecdef
    UNION ALL
    SELECT format('method %s %s %s %s', m.name, m.region_type, m.attack, m.columns) FROM dbanon.method m
)
SELECT text FROM line ORDER BY text COLLATE "C"

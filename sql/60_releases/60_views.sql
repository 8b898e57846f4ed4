-- Views for those who work with dbanon in SQL.

-- The registry.

CREATE OR REPLACE VIEW dbanon.methods AS
SELECT
    m.name AS method,
    a.value ->> 'name' AS algorithm,
    a.ord = 1 AS is_default,
    m.summary,
    a.value ->> 'summary' AS algorithm_summary,
    coalesce(nullif(a.value ->> 'guarantee', ''), m.guarantee) AS guarantee,
    m.attack,
    m.paper
FROM dbanon.method m
CROSS JOIN LATERAL jsonb_array_elements(m.algorithms) WITH ORDINALITY AS a (value, ord)
ORDER BY m.name, a.ord;

CREATE OR REPLACE VIEW dbanon.method_parameters AS
SELECT
    m.name AS method,
    p.value ->> 'name' AS parameter,
    p.ord::integer AS place,
    p.value ->> 'type' AS type,
    nullif(p.value ->> 'unit', '') AS unit,
    p.value ->> 'default_text' AS default_value,
    (p.value ->> 'minimum')::numeric AS minimum,
    (p.value ->> 'maximum')::numeric AS maximum,
    nullif(ARRAY(SELECT jsonb_array_elements_text(p.value -> 'choices')), '{}') AS choices,
    p.value ->> 'requirement' AS requirement,
    nullif(ARRAY(SELECT jsonb_array_elements_text(p.value -> 'algorithms')), '{}') AS algorithms,
    p.value ->> 'help' AS help
FROM dbanon.method m
CROSS JOIN LATERAL jsonb_array_elements(m.parameters) WITH ORDINALITY AS p (value, ord)
ORDER BY m.name, p.ord;

CREATE OR REPLACE VIEW dbanon.releases AS
SELECT l.release_id, l.name, l.withdrawn_at IS NULL AS live, l.run_id, d.name AS dataset, r.method, r.algorithm,
    CASE jsonb_typeof(r.params -> 'k') WHEN 'number' THEN (r.params -> 'k')::integer END AS k,
    l.rows, l.published_at, l.published_by, l.withdrawn_at, l.withdrawn_by, l.overlap, l.overlap_reason, l.readers, l.bounds
FROM dbanon.release l
LEFT JOIN dbanon.run r ON r.run_id = l.run_id
LEFT JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id;

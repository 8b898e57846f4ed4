-- Views for those who work with dbanon in SQL.

-- The registry.

CREATE OR REPLACE VIEW dbanon.methods AS
SELECT
    met.name AS method,
    alg.value ->> 'name' AS algorithm,
    alg.ord = 1 AS is_default,
    met.summary,
    alg.value ->> 'summary' AS algorithm_summary,
    coalesce(nullif(alg.value ->> 'guarantee', ''), met.guarantee) AS guarantee,
    met.attack,
    met.paper
FROM dbanon.method met
CROSS JOIN LATERAL jsonb_array_elements(met.algorithms) WITH ORDINALITY AS alg (value, ord)
ORDER BY met.name, alg.ord;

CREATE OR REPLACE VIEW dbanon.method_parameters AS
SELECT
    met.name AS method,
    par.value ->> 'name' AS parameter,
    par.ord::integer AS place,
    par.value ->> 'type' AS type,
    nullif(par.value ->> 'unit', '') AS unit,
    par.value ->> 'default_text' AS default_value,
    (par.value ->> 'minimum')::numeric AS minimum,
    (par.value ->> 'maximum')::numeric AS maximum,
    nullif(ARRAY(SELECT jsonb_array_elements_text(par.value -> 'choices')), '{}') AS choices,
    par.value ->> 'requirement' AS requirement,
    nullif(ARRAY(SELECT jsonb_array_elements_text(par.value -> 'algorithms')), '{}') AS algorithms,
    par.value ->> 'help' AS help
FROM dbanon.method met
CROSS JOIN LATERAL jsonb_array_elements(met.parameters) WITH ORDINALITY AS par (value, ord)
ORDER BY met.name, par.ord;

CREATE OR REPLACE VIEW dbanon.releases AS
SELECT l.release_id, l.name, l.withdrawn_at IS NULL AS live, l.run_id, d.name AS dataset, r.method, r.algorithm,
    CASE jsonb_typeof(r.params -> 'k') WHEN 'number' THEN (r.params -> 'k')::integer END AS k,
    l.rows, l.published_at, l.published_by, l.withdrawn_at, l.withdrawn_by, l.overlap, l.overlap_reason, l.readers, l.bounds,
    l.percent_left_out, round((r.metrics ->> 'longer_side_50_m')::numeric) AS longer_side_m,
    -- Of the last evaluation, in squares of 2 km or nearly, at a moment where rows hold at one.
    (SELECT round(eva.value::numeric, 2) FROM dbanon.evaluations eva
     WHERE eva.run_id = l.run_id AND eva.name = 'count_error' AND eva.value IS NOT NULL
     ORDER BY eva.evaluation_id DESC, abs(eva.side_m - 2000), eva.asked LIMIT 1) AS count_error
FROM dbanon.release l
LEFT JOIN dbanon.run r ON r.run_id = l.run_id
LEFT JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id;

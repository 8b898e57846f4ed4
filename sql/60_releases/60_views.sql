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
SELECT rel.release_id, rel.name, rel.withdrawn_at IS NULL AS live, rel.run_id, dat.name AS dataset, run.method, run.algorithm,
    CASE jsonb_typeof(run.params -> 'k') WHEN 'number' THEN (run.params -> 'k')::integer END AS k,
    rel.rows, rel.published_at, rel.published_by, rel.withdrawn_at, rel.withdrawn_by, rel.overlap, rel.overlap_reason, rel.readers, rel.bounds,
    rel.percent_left_out, round((run.metrics ->> 'longer_side_50_m')::numeric) AS longer_side_m,
    -- Of the last evaluation, in squares of 2 km or nearly, at a moment where rows hold at one.
    (SELECT round(eva.value::numeric, 2) FROM dbanon.evaluations eva
     WHERE eva.run_id = rel.run_id AND eva.name = 'count_error' AND eva.value IS NOT NULL
     ORDER BY eva.evaluation_id DESC, abs(eva.side_m - 2000), eva.asked LIMIT 1) AS count_error
FROM dbanon.release rel
LEFT JOIN dbanon.run run ON run.run_id = rel.run_id
LEFT JOIN dbanon.dataset dat ON dat.dataset_id = run.dataset_id;

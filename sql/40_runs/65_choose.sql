-- Which methods promise something for a dataset, with parameters that fit its grids. It computes no run.

CREATE OR REPLACE FUNCTION dbanon_internal.suggest_params(about dbanon.dataset, traits jsonb, parameters jsonb, at bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Lengths are raised to the next multiple: of the dataset's grid, or of the parameter of which they are a multiple.
    WITH item AS (
        SELECT ele.value ->> 'name' AS name, ele.value ->> 'multiple_of' AS base, ele.value -> 'default' AS usual, pro.value AS proposed,
            coalesce(pro.value, nullif(ele.value -> 'default', 'null')) AS value,
            CASE WHEN ele.value ->> 'name' IN ('grid_s', 'step_s') THEN about.grid_s WHEN ele.value ->> 'name' = 'grid_m' THEN about.grid_m::numeric END AS unit
        FROM jsonb_array_elements(parameters) ele
        CROSS JOIN LATERAL (SELECT traits -> 'proposed' -> 'params' -> (ele.value ->> 'name') AS value) pro
        WHERE ele.value -> 'algorithms' = '[]' OR ele.value -> 'algorithms' ? (traits -> 'proposed' ->> 'algorithm')
    )
    SELECT coalesce(jsonb_object_agg(item.name, fit.value) FILTER (WHERE item.proposed IS NOT NULL OR item.unit > 0 AND fit.value <> item.usual), '{}')
        || CASE WHEN traits ->> 'instant' IS NULL OR at IS NULL THEN '{}' ELSE jsonb_build_object(traits ->> 'instant', at) END
    FROM item LEFT JOIN item base ON base.name = item.base
    CROSS JOIN LATERAL (SELECT coalesce(item.unit, ceil(base.value::numeric / base.unit) * base.unit) AS unit) one
    CROSS JOIN LATERAL (
        SELECT CASE WHEN one.unit IS NULL THEN item.value ELSE to_jsonb(trim_scale(ceil(item.value::numeric / one.unit) * one.unit)) END AS value) fit
$$;
COMMENT ON FUNCTION dbanon_internal.suggest_params IS
'The parameters that a method proposes, at the least multiples of a dataset''s grids that are no smaller; for a method of one instant, at that one.';

CREATE OR REPLACE FUNCTION dbanon.choose_method(dataset text) RETURNS TABLE (
    method text, algorithm text, params jsonb, hides text, facts text, publish_as text, statement text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    about CONSTANT dbanon.dataset := dbanon_internal.demand_dataset(dataset);
    known record;
BEGIN
    SELECT size.*, tra.* INTO known FROM dbanon_internal.measure_data(about.dataset_id) size CROSS JOIN (
        SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY (own.last_s - own.first_s) / nullif(@postgis@.ST_NPoints(own.path) - 1, 0)) AS every,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY own.last_s) AS at
        FROM ONLY dbanon.trajectory own WHERE own.dataset_id = about.dataset_id) tra;
    SELECT concat_ws(', ', dbanon_internal.format_quantity(known.subjects, 'person', 'people'),
            dbanon_internal.format_quantity((floor(known.last_s / 86400) - floor(known.first_s / 86400))::bigint + 1, 'day'),
            'a fix every ' || round(known.every::numeric) || ' s',
            string_agg(dbanon_internal.format_quantity(inp.rows, rtrim(replace(inp.input, '_', '-'), 's')), ', '),
            dbanon_internal.format_quantity((SELECT count(*) FROM ONLY dbanon.poi poi WHERE poi.dataset_id = about.dataset_id),
                                            'point of interest', 'points of interest'))
        INTO facts
        FROM dbanon_internal.count_inputs(about.dataset_id, '{"reads": ["requests", "sites", "quasi_identifiers", "cells"], "joins": []}', '{}') inp;
    RETURN QUERY
        SELECT met.name, alg.name, par.params, met.traits -> 'requires' ->> 'hides', choose_method.facts, pub.name, format(
            'CALL dbanon.anonymize(%L, %L, %L, publish_as => %L, algorithm => %L)', about.name, met.name, par.params, pub.name, alg.name)
        FROM ONLY dbanon.method met
        CROSS JOIN LATERAL (SELECT met.traits -> 'proposed' ->> 'algorithm' AS name) alg
        CROSS JOIN LATERAL (SELECT dbanon_internal.suggest_params(about, met.traits, met.parameters, CASE WHEN known.fixes > known.subjects
            THEN floor(known.at / about.grid_s)::bigint * about.grid_s END) AS params) par
        -- A view's name, and free.
        CROSS JOIN LATERAL (SELECT coalesce(nullif(rtrim(left(regexp_replace(regexp_replace(
            lower(about.name COLLATE "C"), '[^a-z0-9]+', '_', 'g'), '^[^a-z]+', ''), 36), '_'), ''), 'release') || '_k' || (par.params ->> 'k') AS name) nam
        CROSS JOIN LATERAL (
            SELECT say.name FROM generate_series(1, 1000) nth
            CROSS JOIN LATERAL (SELECT nam.name || CASE nth WHEN 1 THEN '' ELSE '_' || nth END AS name) say
            WHERE NOT EXISTS (SELECT FROM dbanon.release rel WHERE rel.name = say.name AND rel.withdrawn_at IS NULL) ORDER BY nth LIMIT 1) pub
        WHERE met.traits ? 'requires' AND known.subjects >= (par.params ->> 'k')::bigint AND dbanon_internal.find_lacking(
            about, met.traits, dbanon_internal.complete_params(met.name, alg.name, par.params), '{}') IS NULL
        ORDER BY met.traits -> 'requires' ->> 'input' = 'people', met.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'A dataset must have something that a method hides, and at least as many people as the k that is proposed. Dataset % has: %.',
                dbanon_internal.quote_text(about.name), facts
            USING ERRCODE = 'DA024', DETAIL = 'Most methods propose k = 5.', HINT = 'Load more.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon.choose_method IS
'Says which methods promise something for a dataset, by what it has, with parameters that fit it. It computes no run and writes nothing.
Arguments:
- dataset: @Planning.dataset@
Returns: one row a method. The method with the rarest need comes first.
- method: the method, as listed in dbanon.methods.
- algorithm: the algorithm that is proposed.
- params: the parameters that are proposed. Lengths are multiples of the grids of the dataset.
- hides: what the method hides.
- facts: what the dataset has.
- publish_as: a name for the release.
- statement: the statement that computes and publishes it.
Raises: DA001 where there is no such dataset. DA024 where no method promises anything.
Example: SELECT method, params, statement FROM dbanon.choose_method(''taxi'').';

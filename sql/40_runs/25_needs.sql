-- What a method needs to promise anything. Whoever plans, submits or schedules a run asks dbanon_internal.find_lack.

CREATE OR REPLACE FUNCTION dbanon_internal.has_input(about dbanon.dataset, input text, params jsonb) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH own AS (
        SELECT coalesce(params ->> 'at', params ->> 'start', params ->> 'since', '-Infinity')::double precision AS since,
            coalesce((params ->> 'at')::double precision + about.grid_s, (params ->> 'until')::double precision, 'Infinity') AS until,
            coalesce(params ->> 'max_gap_s', '0')::double precision AS gap
    ), tra AS NOT MATERIALIZED (
        SELECT tra.* FROM own JOIN ONLY dbanon.trajectory tra ON tra.first_s < own.until AND tra.last_s >= own.since - own.gap
        WHERE tra.dataset_id = about.dataset_id
    )
    SELECT CASE input
        WHEN 'people' THEN (SELECT count(*) = 2 FROM (SELECT FROM tra GROUP BY tra.subject LIMIT 2) two)
        WHEN 'requests' THEN EXISTS (
            SELECT FROM own JOIN ONLY dbanon.request req ON req.sent_at >= to_timestamp(own.since) AND req.sent_at < to_timestamp(own.until)
            WHERE req.dataset_id = about.dataset_id AND EXISTS (
                SELECT FROM tra WHERE tra.subject = req.subject
                    AND extract(epoch FROM req.sent_at)::double precision BETWEEN floor(tra.first_s) - about.grid_s AND tra.last_s + own.gap + about.grid_s))
        -- Of the whole path, not only of its part in that time.
        WHEN 'sites' THEN EXISTS (
            SELECT FROM tra JOIN ONLY dbanon.site site ON @postgis@.ST_DWithin(tra.path, site.geom, 10000) WHERE site.dataset_id = about.dataset_id)
        WHEN 'quasi_identifiers' THEN EXISTS (
            SELECT FROM own JOIN ONLY dbanon.quasi_identifier qid ON qid.at >= to_timestamp(own.since) AND qid.at < to_timestamp(own.until)
            WHERE qid.dataset_id = about.dataset_id AND qid.set_name = coalesce(params ->> 'qid_set', 'default') AND EXISTS (
                SELECT FROM tra WHERE tra.subject = qid.subject
                    AND extract(epoch FROM qid.at)::double precision BETWEEN floor(tra.first_s) - about.grid_s AND tra.last_s + own.gap + about.grid_s))
        WHEN 'cells' THEN EXISTS (SELECT FROM ONLY dbanon.cell cel WHERE cel.dataset_id = about.dataset_id)
        WHEN 'pois' THEN EXISTS (
            SELECT FROM ONLY dbanon.cell cel JOIN ONLY dbanon.poi poi ON poi.dataset_id = cel.dataset_id AND @postgis@.ST_Intersects(cel.geom, poi.geom)
            WHERE cel.dataset_id = about.dataset_id)
    END
    FROM own
$$;
COMMENT ON FUNCTION dbanon_internal.has_input IS
'Whether a dataset has of an input what a run of these parameters could use: of people two in its time, of sites one within 10 km of a path, of
requests and quasi-identifiers one of a person who is seen then, of points of interest one in a cell.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_lacking(about dbanon.dataset, traits jsonb, params jsonb, given text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ned.input FROM (
        SELECT ele.value AS input, ele.ordinality AS place FROM jsonb_array_elements_text(traits -> 'reads') WITH ORDINALITY ele
        UNION ALL
        SELECT traits -> 'requires' ->> 'input', 100
        WHERE traits -> 'requires' -> 'unless' = '{}' OR NOT params @> (traits -> 'requires' -> 'unless')) ned
    WHERE ned.input IS NOT NULL AND ned.input <> ALL (given) AND NOT dbanon_internal.has_input(about, ned.input, params)
    ORDER BY ned.place LIMIT 1
$$;
COMMENT ON FUNCTION dbanon_internal.find_lacking IS
'Finds the first input that a method reads, or must have to promise anything, and a dataset lacks, but for those that are given; NULL
where there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_lack(
    about dbanon.dataset, method text, params jsonb, given text[], OUT sentence text, OUT remedy text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    traits CONSTANT jsonb := (SELECT met.traits FROM ONLY dbanon.method met WHERE met.name = find_lack.method);
    lacking CONSTANT text := dbanon_internal.find_lacking(about, traits, params, given);
    is_timed CONSTANT boolean := coalesce(params ->> 'at', params ->> 'start', params ->> 'since', params ->> 'until') IS NOT NULL
        AND lacking NOT IN ('cells', 'pois');
    others text;
BEGIN
    IF lacking IS NULL THEN RETURN; END IF;
    SELECT string_agg(format('%s of %s, which hides %s', met.traits -> 'proposed' ->> 'algorithm', met.name, met.traits -> 'requires' ->> 'hides'),
                      ', or ' ORDER BY met.name) INTO others
        FROM ONLY dbanon.method met
        WHERE met.name <> find_lack.method AND met.traits ? 'requires' AND dbanon_internal.find_lacking(
            about, met.traits, (met.traits -> 'proposed' -> 'params') || jsonb_build_object('since', params -> 'since', 'until', params -> 'until'),
            ARRAY(SELECT 'people' WHERE 'people' = ANY (given))) IS NULL;
    sentence := format('%s hides %s, and dataset %s has no %s%s.', method, traits -> 'requires' ->> 'hides', dbanon_internal.quote_text(about.name),
        CASE lacking WHEN 'people' THEN 'two people' WHEN 'pois' THEN 'points of interest in its cells' WHEN 'sites' THEN 'sites within 10 km of people'
                     WHEN 'quasi_identifiers' THEN 'quasi-identifiers at times at which their people are seen'
                     WHEN 'requests' THEN CASE WHEN EXISTS (SELECT FROM ONLY dbanon.request req WHERE req.dataset_id = about.dataset_id)
                         THEN 'requests at times at which their senders are seen' ELSE lacking END
                     ELSE lacking END,
        CASE WHEN is_timed THEN ' in the time of the run' ELSE '' END);
    remedy := concat_ws(' ', format('Load some: SELECT * FROM dbanon.import_%s(...).', CASE lacking WHEN 'people' THEN 'trajectories' ELSE lacking END),
        CASE WHEN is_timed THEN 'Or choose another time.' END,
        CASE WHEN others IS NOT NULL THEN format('Or take %s.', others) END,
        CASE lacking WHEN 'requests' THEN 'Or give allow_no_requests => true, which hides no person.' END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_lack IS
'Says what a dataset lacks without which a run would promise nothing, and what to do: load it, take a method that fits, or allow it;
NULL where nothing is lacking.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_needs(about dbanon.dataset, method text, params jsonb, given text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lack CONSTANT record := dbanon_internal.find_lack(about, method, params, given);
BEGIN
    IF lack.sentence IS NOT NULL THEN
        RAISE EXCEPTION '%', lack.sentence USING ERRCODE = 'DA024', DETAIL = 'The run would promise nothing.', HINT = lack.remedy;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_needs IS 'Refuses a run that would promise nothing.';

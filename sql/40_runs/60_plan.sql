-- What a run would meet, said without computing or writing anything: one plan for all methods, from what is there, from the
-- parameters and from earlier runs. What only a computation can find out, a run reports.

CREATE OR REPLACE FUNCTION dbanon_internal.measure_data(dataset_id bigint) RETURNS TABLE (
    subjects bigint, trajectories bigint, fixes bigint, first_s double precision, last_s double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT (SELECT count(*) FROM (SELECT FROM ONLY dbanon.trajectory s WHERE s.dataset_id = measure_data.dataset_id GROUP BY s.subject) g),
        count(*), coalesce(sum(@postgis@.ST_NPoints(t.path)), 0)::bigint,
        min(t.first_s), max(t.last_s)
    FROM ONLY dbanon.trajectory t WHERE t.dataset_id = measure_data.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.measure_data IS
'Counts the trajectories of a dataset and finds its first and last time in unix seconds, which are NULL where it is empty.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_inputs(dataset_id bigint, traits jsonb, params jsonb) RETURNS TABLE (
    input text, rows bigint, needed boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT inp.input, CASE inp.input
            WHEN 'requests' THEN (SELECT count(*) FROM ONLY dbanon.request req WHERE req.dataset_id = count_inputs.dataset_id)
            WHEN 'sites' THEN (SELECT count(*) FROM ONLY dbanon.site site WHERE site.dataset_id = count_inputs.dataset_id)
            WHEN 'cells' THEN (SELECT count(*) FROM ONLY dbanon.cell cel WHERE cel.dataset_id = count_inputs.dataset_id)
            WHEN 'quasi_identifiers' THEN (SELECT count(*) FROM ONLY dbanon.quasi_identifier qid
                WHERE qid.dataset_id = count_inputs.dataset_id AND qid.set_name = coalesce(params ->> 'qid_set', 'default'))
        END, inp.needed
    FROM (SELECT ele.value AS input, true AS needed, ele.ordinality AS place
          FROM jsonb_array_elements_text(traits -> 'reads') WITH ORDINALITY ele
          UNION ALL
          SELECT ele.value, false, ele.ordinality FROM jsonb_array_elements_text(traits -> 'joins') WITH ORDINALITY ele) inp
    ORDER BY inp.needed DESC, inp.place
$$;
COMMENT ON FUNCTION dbanon_internal.count_inputs IS
'Counts the rows of each input that a method reads (without which it cannot run) or joins, beside trajectories.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_planned_span(
    traits jsonb, params jsonb, grid_s integer, first_s double precision, last_s double precision) RETURNS tstzrange
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- The instant looked at; or from where a parameter says that rows begin, else from the first slot of the data, to the end.
    SELECT CASE WHEN s.begins < s.ends THEN tstzrange(to_timestamp(s.begins), to_timestamp(s.ends)) END
    FROM (SELECT (params ->> (traits ->> 'instant'))::double precision AS instant) i
    CROSS JOIN LATERAL (
        SELECT coalesce(i.instant,
                   (SELECT (params ->> b.value)::double precision FROM jsonb_array_elements_text(traits -> 'begins') WITH ORDINALITY b
                    WHERE params ->> b.value IS NOT NULL ORDER BY b.ordinality LIMIT 1),
                   floor(first_s / grid_s) * grid_s) AS begins,
               coalesce(i.instant + grid_s, (params ->> 'until')::double precision, floor(last_s / grid_s) * grid_s + grid_s) AS ends) s
$$;
COMMENT ON FUNCTION dbanon_internal.find_planned_span IS
'The time that the rows of a run may cover, by its parameters and the extent of the data; NULL where there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_lacking_history(
    traits jsonb, params jsonb, grid_s integer, first_s double precision, OUT begins timestamptz, OUT history_s double precision, OUT start text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Where neither is given, a run begins late enough by itself.
    asked CONSTANT double precision := coalesce(params ->> 'start', params ->> 'since')::double precision;
    known CONSTANT double precision := floor(first_s / grid_s) * grid_s;
    every CONSTANT double precision := (params ->> (traits ->> 'every'))::double precision;
    late CONSTANT double precision := asked + ceil((known + (params ->> 'max_gap_s')::double precision - asked) / every) * every;
BEGIN
    IF late > asked AND params ->> 'align' = 'last' THEN
        begins := to_timestamp(asked);
        history_s := greatest(asked - known, 0);
        start := to_char(to_timestamp(late) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_lacking_history IS
'Where data begin less than max_gap_s before the first instant of a run: that instant, how much came before it, and the start from which nobody is
absent for want of earlier positions; NULL where enough came before, or positions are not carried on.';

CREATE OR REPLACE FUNCTION dbanon_internal.measure_needs(run_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('fixes', (SELECT dat.fixes FROM dbanon_internal.measure_data(run.dataset_id) dat), 'rows', run.rows,
        'seconds', (run.timings -> 'total_s')::numeric - coalesce((run.timings -> 'compile_s')::numeric, 0), 'memory_mb', run.peak_rss_mb,
        -- A release has a row, of which all but the region takes as much everywhere, in a table with indexes of its own.
        'disk_mb', round((coalesce(rec.bytes, 0) + coalesce(reg.bytes, 0) + coalesce(mem.bytes, 0) + coalesce(hid.bytes, 0) + run.rows * (240 + coalesce(reg.mean, 0))) / 1048576, 3))
    FROM ONLY dbanon.run run
    CROSS JOIN LATERAL (SELECT sum(pg_column_size(rec)) AS bytes FROM ONLY dbanon.record rec WHERE rec.run_id = run.run_id) rec
    CROSS JOIN LATERAL (SELECT sum(pg_column_size(reg)) AS bytes, avg(pg_column_size(reg.region)) AS mean
                        FROM ONLY dbanon.region reg WHERE reg.run_id = run.run_id) reg
    CROSS JOIN LATERAL (SELECT sum(pg_column_size(mem) + 40) AS bytes FROM ONLY dbanon.membership mem WHERE mem.run_id = run.run_id) mem
    CROSS JOIN LATERAL (SELECT sum(pg_column_size(hid) + 40) AS bytes FROM ONLY dbanon.hiding hid WHERE hid.run_id = run.run_id) hid
    WHERE run.run_id = measure_needs.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.measure_needs IS
'What a verified run took: the fixes of its dataset, rows, seconds without compilation, memory of the program, and about how large its rows and those of a
release of it are on disk.';

CREATE OR REPLACE FUNCTION dbanon_internal.estimate_needs(
    dataset_id bigint, method text, algorithm text, params jsonb, fixes bigint) RETURNS TABLE (
    item text, value numeric, exact boolean, note text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Those with these parameters first, and of these the latest: a verified run, or small runs of dbanon plan.
    WITH measured AS (
        SELECT run.params, format('by run %s', run.run_id) AS source, run.finished_at AS at, run.metrics || jsonb_build_object('rows', run.rows,
            'seconds', (run.timings -> 'total_s')::numeric - coalesce((run.timings -> 'compile_s')::numeric, 0), 'memory_mb', run.peak_rss_mb) AS needs
        FROM ONLY dbanon.run run
        WHERE run.dataset_id = estimate_needs.dataset_id AND run.method = estimate_needs.method AND run.algorithm = estimate_needs.algorithm
            AND run.status = 'verified' AND run.timings ? 'total_s'
        UNION ALL
        SELECT eva.params, format('by %s on %s', CASE WHEN eva.sample > 0 THEN dbanon_internal.format_quantity(eva.sample, 'person', 'people') ELSE 'all people' END,
            to_char(eva.evaluated_at, 'YYYY-MM-DD HH24:MI')), eva.evaluated_at,
            eva.run_figures -> 'needs'
        FROM ONLY dbanon.evaluation eva
        WHERE eva.dataset_id = estimate_needs.dataset_id AND eva.method = estimate_needs.method AND eva.algorithm = estimate_needs.algorithm
            AND eva.run_figures ? 'needs'
    ), nearest AS (
        SELECT mea.source, mea.needs, mea.params -> 'k' AS k, coalesce((mea.needs -> 'fixes')::numeric, estimate_needs.fixes) AS fixes
        FROM measured mea
        ORDER BY mea.params = estimate_needs.params DESC, coalesce(mea.params -> 'k' = estimate_needs.params -> 'k', false) DESC, mea.at DESC LIMIT 1
    )
    SELECT fig.item, round(greatest(fig.value, 0), fig.digits), false, format('%s with k = %s', nea.source, coalesce(nea.k::text, '?'))
    FROM nearest nea CROSS JOIN LATERAL (VALUES
        ('rows', (nea.needs -> 'rows')::numeric * estimate_needs.fixes / greatest(nea.fixes, 1), 0),
        ('seconds', (nea.needs -> 'seconds')::numeric + coalesce((nea.needs -> 'seconds_each')::numeric * (estimate_needs.fixes - nea.fixes), 0), 2),
        ('memory_mb', (nea.needs -> 'memory_mb')::numeric + coalesce((nea.needs -> 'mb_each')::numeric * (estimate_needs.fixes - nea.fixes), 0), 0),
        ('disk_mb', (nea.needs -> 'disk_mb')::numeric * estimate_needs.fixes / greatest(nea.fixes, 1), 1),
        ('longer_side_50_m', (nea.needs -> 'longer_side_50_m')::numeric, 1),
        ('longer_side_90_m', (nea.needs -> 'longer_side_90_m')::numeric, 1)) fig (item, value, digits)
    WHERE fig.value IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.estimate_needs IS
'What a run would take on the machine of an earlier one, or of small runs that dbanon plan made: seconds without compilation, memory of the program, rows,
and disk of the run and a release of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.estimate_room(run_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Two coordinates and what belongs to them, which no method can do without.
    SELECT jsonb_build_object('memory', size.fixes * 18 / 1048576.0, 'disk', (
        SELECT nee.value FROM dbanon_internal.estimate_needs(run.dataset_id, run.method, run.algorithm, run.params, size.fixes) nee WHERE nee.item = 'disk_mb'))
    FROM ONLY dbanon.run run CROSS JOIN LATERAL dbanon_internal.measure_data(run.dataset_id) size WHERE run.run_id = estimate_room.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.estimate_room IS 'How much memory a run takes at least, and about how much disk, if that was measured, in MB.';

CREATE OR REPLACE FUNCTION dbanon.plan_run(
    dataset text, method text, params jsonb DEFAULT '{}', algorithm text DEFAULT NULL, allow_no_requests boolean DEFAULT false)
RETURNS TABLE (item text, value numeric, exact boolean, note text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    chosen CONSTANT text := dbanon_internal.demand_algorithm(method, algorithm);
    checked CONSTANT jsonb := dbanon_internal.complete_params(method, chosen, params);
    about dbanon.dataset := dbanon_internal.demand_dataset(dataset);
    family dbanon.method;
    data record;
    span tstzrange;
    reach interval;
    near text[];
    conflict record;
    lacking record;
    others text;
    lack CONSTANT record := dbanon_internal.find_lack(
        about, method, checked, CASE WHEN allow_no_requests THEN ARRAY['requests'] ELSE '{}' END);
    stored bigint;
BEGIN
    SELECT met.* INTO STRICT family FROM ONLY dbanon.method met WHERE met.name = plan_run.method;
    SELECT size.* INTO STRICT data FROM dbanon_internal.measure_data(about.dataset_id) size;
    span := dbanon_internal.find_planned_span(family.traits, checked, about.grid_s, data.first_s, data.last_s);
    reach := dbanon_internal.compute_method_reach(family.traits, checked, dbanon_internal.find_settle_s(about.population_id));
    near := ARRAY(SELECT rel.name FROM dbanon_internal.list_releases_within(about.dataset_id, span, reach) rel WHERE span IS NOT NULL);
    SELECT con.* INTO conflict FROM dbanon_internal.find_conflicts(about.dataset_id, family.name, chosen, checked, span, reach) con
    WHERE near <> '{}';
    others := dbanon_internal.name_some(conflict.releases);
    RETURN QUERY VALUES ('subjects'::text, data.subjects::numeric, true, ''::text),
        ('trajectories', data.trajectories, true, ''), ('fixes', data.fixes, true, ''),
        ('span_s', coalesce(extract(epoch FROM upper(span) - lower(span)), 0), true,
         coalesce(format('at most from %s to %s', lower(span), upper(span)), 'no time of the data'));
    RETURN QUERY SELECT inp.input, inp.rows::numeric, true, CASE WHEN inp.needed THEN 'needed' ELSE 'joined to the computed rows' END
        FROM dbanon_internal.count_inputs(about.dataset_id, family.traits, checked) inp;
    RETURN QUERY VALUES ('releases_compared'::text, cardinality(near)::numeric, false, array_to_string(near[:10], ', '));
    lacking := dbanon_internal.find_lacking_history(family.traits, checked, about.grid_s, data.first_s);
    IF lacking.start IS NOT NULL THEN
        RETURN QUERY VALUES ('history_s'::text, lacking.history_s::numeric, true, format(
            'before %s: people without a position up to %s s before it are left out of the first window. Load earlier data, or take start = %s',
            lacking.begins, checked ->> 'max_gap_s', lacking.start));
    END IF;
    IF conflict.people > 0 THEN
        RETURN QUERY VALUES ('people_published'::text, conflict.people::numeric, false,
            array_to_string(conflict.releases[:10], ', '));
    END IF;
    RETURN QUERY SELECT nee.* FROM dbanon_internal.estimate_needs(about.dataset_id, family.name, chosen, checked, data.fixes) nee;
    IF NOT FOUND THEN
        RETURN QUERY VALUES ('earlier_runs'::text, 0::numeric, true, 'seconds, memory and disk are not measured'::text);
    END IF;
    IF checked ? 'new_atoms' THEN
        stored := (SELECT count(DISTINCT atom.atom) FROM dbanon_internal.find_stored_atoms(about.dataset_id,
            coalesce(checked ->> 'atom_l', checked ->> 'l', '0')::double precision,
            coalesce(checked ->> 'atom_t', checked ->> 't', 'Infinity')::double precision) atom);
        RETURN QUERY VALUES ('stored_atoms'::text, stored::numeric, true, 'those that earlier releases gave these cells'::text);
    END IF;
    RETURN QUERY SELECT 'exit_code'::text, can.code::numeric, can.exact, can.sentence FROM (
        SELECT 3 AS code, true AS exact, concat_ws(' ', lack.sentence, lack.remedy) AS sentence WHERE lack.sentence IS NOT NULL
        UNION ALL
        SELECT 4, true, format('A run must have at least k = %s people. The dataset has %s. Lower k, or load more.', checked ->> 'k', data.subjects)
            WHERE (checked ->> 'k')::numeric > data.subjects
        UNION ALL
        SELECT 5, false, CASE WHEN dbanon_internal.stands_alone(family.name, chosen)
                THEN format('%s stands alone: publishing the run is refused if it shows any of the %s that %s published at that time.',
                            chosen, dbanon_internal.format_quantity(conflict.people, 'person', 'people'), others)
                ELSE format('%s stands alone: publishing the run is refused if it shows any of its %s at that time.',
                            others, dbanon_internal.format_quantity(conflict.people, 'person', 'people')) END
            || ' Choose one method for these people and this time, or another time.'
            WHERE conflict.people > 0
        UNION ALL
        SELECT 5, false, 'A release has atoms of these cells already: publishing a run with new ones needs a reason. Leave new_atoms out.'
            WHERE stored > 0 AND (checked -> 'new_atoms')::boolean
        UNION ALL
        SELECT 0, false, 'The inputs are complete. Only a run can show whether they suffice.') can
        ORDER BY can.code = 0, can.code, can.exact DESC LIMIT 1;
END
$$;
COMMENT ON FUNCTION dbanon.plan_run IS
'Predicts how a run would end. It computes no run and writes nothing.
Arguments:
- dataset: @Planning.dataset@
- method: the method, as listed in dbanon.methods.
- params: parameters of the method, as a JSON object (see dbanon.method_parameters).
- algorithm: @Planning.algorithm@
- allow_no_requests: @Planning.allow_no_requests@
Returns: one row an item: the data, how long it may take, the releases it would be compared with, and the results of an earlier run of the
method. The last item is exit_code. It is 3 where the dataset lacks what the method hides and 4 where there are fewer than k people. It is 5 where the run and
earlier releases show the same people at the same time and one of them stands alone. It is also 5 where the run asks for new atoms although a
release has some. Otherwise it is 0.
- item: the topic of the row.
- value: the figure.
- exact: false for an estimate.
- note: the meaning of the figure here.
Raises: DA001 where there is no such dataset. DA011 for method, algorithm and parameters.
Example: SELECT * FROM dbanon.plan_run(''taxi'', ''METHOD'', ''{"k": 20}'').';

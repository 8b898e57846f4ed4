-- Who may do what. Nothing for PUBLIC; then role by role.

REVOKE ALL ON SCHEMA dbanon, dbanon_internal, published FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL ROUTINES IN SCHEMA dbanon, dbanon_internal FROM PUBLIC, @operator@, @worker@, @analyst@;

GRANT USAGE ON SCHEMA dbanon, dbanon_internal TO @operator@, @worker@;
GRANT USAGE ON SCHEMA published TO @operator@, @worker@, @analyst@;

-- Operators load, submit and publish. They set no revision, status or verdict: the columns are named.
GRANT SELECT ON dbanon.dataset, dbanon.trajectory, dbanon.fix, dbanon.load, dbanon.quarantine, dbanon.request, dbanon.site,
    dbanon.poi, dbanon.cell, dbanon.quasi_identifier, dbanon.method, dbanon.run, dbanon.verification, dbanon.release, dbanon.alembic_version TO @operator@;
GRANT INSERT (name, srid, grid_m, grid_s), UPDATE (srid, grid_m, grid_s) ON dbanon.dataset TO @operator@;
GRANT INSERT, UPDATE, DELETE ON dbanon.trajectory, dbanon.request, dbanon.site, dbanon.poi, dbanon.cell, dbanon.quasi_identifier
    TO @operator@;
GRANT INSERT (dataset_id, kind, source, rows_read, rows_kept, quarantined) ON dbanon.load TO @operator@;
GRANT INSERT ON dbanon.quarantine TO @operator@;
GRANT EXECUTE ON FUNCTION dbanon.publish(bigint, text, boolean, boolean, text, boolean), dbanon.measure_overlap(bigint),
    dbanon_internal.check_override(boolean, text), dbanon.unpublish(text, boolean), dbanon_internal.note_refusal(bigint, text, text, text),
    dbanon_internal.check_name(text) TO @operator@;

-- Both submit, watch and cancel.
GRANT SELECT ON dbanon.runs, dbanon.workers TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.submit_run(text, text, jsonb, text, bigint), dbanon.cancel_run(bigint), dbanon.verify_run(bigint),
    dbanon_internal.refuse_no_run(bigint), dbanon_internal.went_away(), dbanon_internal.reap_runs(), dbanon_internal.is_held(dbanon.session) TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon_internal.check_release(text, boolean, boolean, text, text), dbanon_internal.refused_commit(),
    dbanon_internal.demand_waiting(text, boolean, boolean, text, text, boolean, text, boolean), dbanon_internal.run_news(bigint, text),
    dbanon_internal.demand_verified(bigint), dbanon_internal.check_name_free(text, boolean), dbanon_internal.check_ending(boolean, boolean),
    dbanon_internal.refuse_name_taken(text), dbanon.clear_withdrawn() TO @operator@;
GRANT EXECUTE ON PROCEDURE dbanon.anonymize(text, text, jsonb, text, text, bigint, boolean, boolean, text, boolean, bigint, text, bigint)
    TO @operator@;

GRANT SELECT ON dbanon.audit TO @operator@;
-- A plan is made with the rights of whoever asks, so each of its steps is granted.
GRANT EXECUTE ON FUNCTION dbanon.plan_run(text, text, jsonb, text), dbanon_internal.plan_data(bigint), dbanon_internal.plan_inputs(bigint, jsonb, jsonb),
    dbanon_internal.plan_span(jsonb, jsonb, integer, double precision, double precision), dbanon_internal.plan_earlier(text, text, jsonb, bigint, bigint),
    dbanon_internal.look_back(text, jsonb), dbanon_internal.releases_within(bigint, tstzrange) TO @operator@;

-- Workers compute and verify; they load nothing and publish nothing.
GRANT SELECT ON dbanon.dataset, dbanon.trajectory, dbanon.fix, dbanon.load, dbanon.request, dbanon.site,
    dbanon.poi, dbanon.cell, dbanon.quasi_identifier, dbanon.method, dbanon.run,
    dbanon.verification, dbanon.release, dbanon.alembic_version TO @worker@;
GRANT UPDATE ON dbanon.run TO @worker@;
-- Nobody reads the channels of the workers.
GRANT INSERT (name, channel, held_by) ON dbanon.worker TO @worker@;
DO $$
DECLARE
    source text;
BEGIN
    FOREACH source IN ARRAY dbanon_internal.run_tables() || 'cloak'::text LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON dbanon.%I TO @worker@', source);
    END LOOP;
END
$$;
GRANT INSERT ON dbanon.verification TO @worker@;
GRANT EXECUTE ON FUNCTION dbanon_internal.run_digest(bigint), dbanon_internal.run_tables(),
    dbanon_internal.add_cell_regions(bigint, integer[], integer[], bigint[], integer[], integer[], jsonb[]),
    dbanon_internal.region_evidence(bigint), dbanon_internal.cloaked_evidence(bigint), dbanon_internal.period_evidence(bigint),
    dbanon_internal.record_evidence(bigint), dbanon_internal.membership_evidence(bigint), dbanon_internal.hiding_evidence(bigint),
    dbanon_internal.shown_regions(bigint), dbanon_internal.request_evidence(bigint), dbanon_internal.site_evidence(bigint),
    dbanon_internal.cell_pois(bigint), dbanon_internal.cell_neighbours(bigint), dbanon_internal.fix_cells(bigint),
    dbanon_internal.delete_rows(bigint), dbanon_internal.hold_lock(), dbanon_internal.register_worker(text), dbanon_internal.claim_run(text, bigint), dbanon_internal.watch_run(bigint, integer, text, bigint, bigint), dbanon_internal.requeue_run(bigint, integer)
    TO @worker@;

-- The registry may be read, and parameters be checked, by both.
GRANT SELECT ON dbanon.methods, dbanon.method_parameters TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon_internal.likeness(text, text), dbanon_internal.quoted(text), dbanon_internal.stripped(jsonb), dbanon_internal.is_number(text),
    dbanon_internal.shown(jsonb), dbanon_internal.as_number(jsonb), dbanon_internal.as_instant(jsonb), dbanon_internal.as_parameter(jsonb, jsonb),
    dbanon_internal.refuse_name(text, text, text[]), dbanon_internal.checked_algorithm(text, text), dbanon_internal.checked_value(text, jsonb, jsonb),
    dbanon_internal.check_params(text, text, jsonb), dbanon.version(), dbanon_internal.role_name(text) TO @operator@, @worker@;

-- What administrators look up and take back.
GRANT SELECT ON dbanon.releases TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.release_card(text, bigint) TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.drop_run(bigint), dbanon.forget_subject(text, text) TO @operator@;
-- Imports run with the rights of whoever calls them, and so does what they share.
GRANT EXECUTE ON FUNCTION dbanon_internal.nearest(text, text[], double precision), dbanon_internal.lock_dataset(text),
    dbanon_internal.known_dataset(text), dbanon_internal.check_differ(text[], text), dbanon_internal.check_zone(text), dbanon_internal.reference_system(text),
    dbanon_internal.describe_source(regclass, text[], text), dbanon_internal.check_geometry(jsonb, text), dbanon_internal.refuse_reading(text, text),
    dbanon_internal.ask_source(text, text), dbanon_internal.stage_source(text, text), dbanon_internal.source_crs(text, text), dbanon_internal.text_expression(text), dbanon_internal.name_reasons(text),
    dbanon_internal.localised_expression(text, text), dbanon_internal.counted_expression(text, text, text, text),
    dbanon_internal.time_expression(text, text, jsonb, text, text), dbanon_internal.middle_expression(text, text, boolean), dbanon_internal.event_reasons(),
    dbanon_internal.position_reasons(integer, boolean), dbanon_internal.make_staging(text), dbanon_internal.leave_out(text, text, text),
    dbanon_internal.demand_some(bigint, text), dbanon_internal.refuse_swapped(bigint[], text), dbanon_internal.write_load(bigint, text, text[], bigint[]),
    dbanon_internal.moved(@postgis@.geometry, integer), dbanon_internal.middle_span(double precision[], double precision), dbanon_internal.reach(bigint),
    dbanon_internal.stage_places(text, text, text, text, integer, boolean), dbanon_internal.settle_places(text, bigint, integer),
    dbanon_internal.store_places(text, bigint, boolean), dbanon_internal.import_places(text, regclass, text, text, text, text, boolean),
    dbanon.import_pois(regclass, text, text, text, text, boolean), dbanon.import_cells(regclass, text, text, text, text, boolean),
    dbanon_internal.stage_events(regclass, text, text, text, text[]), dbanon.import_requests(regclass, text, text[], text, text, text),
    dbanon.import_quasi_identifiers(regclass, text, text, text, text, boolean)
    TO @operator@;

-- What loads of files and imports of tables share, and the imports.
GRANT EXECUTE ON FUNCTION dbanon_internal.check_dataset(text, text, double precision, double precision),
    dbanon_internal.claim_dataset(text, text, double precision, double precision, integer),
    dbanon_internal.write_dataset(text, text, integer, double precision, integer), dbanon_internal.check_metric(integer),
    dbanon_internal.check_bbox(double precision[], boolean), dbanon_internal.inside_box(text, text, double precision[]),
    dbanon_internal.box_reasons(double precision[]), dbanon_internal.is_endless(@postgis@.geometry), dbanon_internal.staged_content(jsonb), dbanon_internal.say(text), dbanon_internal.grouped(bigint),
    dbanon_internal.tell(text),
    dbanon_internal.begin_load(text, text, text, integer, double precision, double precision, double precision, double precision[]),
    dbanon_internal.draw_sample(bigint, integer), dbanon_internal.distinct_places(double precision[], double precision[], double precision),
    dbanon_internal.home(double precision[], double precision[], double precision),
    dbanon_internal.survey_shape(double precision[], double precision[], double precision[], boolean),
    dbanon_internal.within(text, jsonb, boolean), dbanon_internal.survey_conditions(jsonb),
    dbanon_internal.degrees_apart(double precision, double precision),
    dbanon_internal.try_degrees(double precision, double precision, integer, boolean), dbanon_internal.refuse_axes(text),
    dbanon_internal.survey_place(jsonb, text, text), dbanon_internal.utm_zone(double precision, double precision),
    dbanon_internal.check_axes(text, integer, double precision, double precision, text), dbanon_internal.sort_out(jsonb, boolean, text),
    dbanon_internal.kept_far(jsonb), dbanon_internal.far_notice(bigint, text),
    dbanon_internal.stretched_notice(double precision[], double precision[], jsonb, text, integer), dbanon_internal.order_staged(boolean),
    dbanon_internal.ordered_middle(integer), dbanon_internal.mark_stored(bigint, integer, integer, boolean),
    dbanon_internal.ordered_fixes(double precision, integer), dbanon_internal.insert_lines(bigint, integer, integer, double precision),
    dbanon_internal.insert_shapes(bigint, integer),
    dbanon_internal.make_ordered(bigint, integer, integer, double precision, boolean, boolean, text),
    dbanon_internal.leave_out_unplaced(integer, integer, text), dbanon_internal.place_staged(integer, integer, text),
    dbanon_internal.make_trajectories(bigint, integer, integer, double precision, boolean, boolean, text),
    dbanon_internal.copies_notice(bigint, bigint),
    dbanon_internal.finish_load(text, text, text, integer, double precision, integer, double precision, boolean, text[], bigint[], jsonb, boolean, text, text),
    dbanon_internal.shapes_notice(bigint),
    dbanon_internal.stage_fixes(regclass, text, text, text, text, text, integer, boolean, bigint, double precision[]),
    dbanon_internal.check_columns(text, text, text, text), dbanon_internal.check_uncut(text, double precision),
    dbanon_internal.import_fixes(regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[], boolean),
    dbanon.import_trajectories(regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[], boolean),
    dbanon_internal.begin_sites(text, text, double precision[]), dbanon_internal.place_sites(integer, integer, bigint),
    dbanon_internal.lies_within(@postgis@.geometry, double precision, double precision, double precision, double precision),
    dbanon_internal.finish_sites(text, text, boolean, boolean, text, bigint, jsonb, text, text),
    dbanon_internal.stage_sites(text, text, text, integer, boolean, double precision[]),
    dbanon.import_sites(regclass, text, text, text, text, double precision[], boolean, boolean)
    TO @operator@;

-- A withdrawn release that could not be dropped yet stays closed, also where a restore has given its owner all rights again.
DO $$
DECLARE
    gone bigint;
BEGIN
    FOR gone IN
        SELECT l.release_id FROM ONLY dbanon.release l
        WHERE l.withdrawn_at IS NOT NULL AND to_regclass(format('dbanon.release_%s', l.release_id)) IS NOT NULL
    LOOP
        PERFORM dbanon_internal.revoke_rights(format('dbanon.release_%s', gone));
    END LOOP;
END
$$;

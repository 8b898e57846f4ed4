-- Who may do what. Nothing for PUBLIC; then role by role.

REVOKE ALL ON SCHEMA dbanon, published FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL ROUTINES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;

GRANT USAGE ON SCHEMA dbanon TO @operator@, @worker@;
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
    dbanon.check_override(boolean, text), dbanon.unpublish(text, boolean), dbanon.note_refusal(bigint, text, text, text),
    dbanon.check_name(text) TO @operator@;

-- Both submit, watch and cancel.
GRANT SELECT ON dbanon.runs, dbanon.workers TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.submit_run(text, text, jsonb, text, bigint), dbanon.cancel_run(bigint), dbanon.verify_run(bigint),
    dbanon.refuse_no_run(bigint), dbanon.went_away(), dbanon.reap_runs(), dbanon.is_held(dbanon.session) TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.check_release(text, boolean, boolean, text, text), dbanon.refused_commit(),
    dbanon.demand_waiting(text, boolean, boolean, text, text, boolean, text, boolean), dbanon.run_news(bigint, text),
    dbanon.demand_verified(bigint), dbanon.check_name_free(text, boolean), dbanon.check_ending(boolean, boolean),
    dbanon.refuse_name_taken(text), dbanon.clear_withdrawn() TO @operator@;
GRANT EXECUTE ON PROCEDURE dbanon.anonymize(text, text, jsonb, text, text, bigint, boolean, boolean, text, boolean, bigint, text, bigint)
    TO @operator@;

GRANT SELECT ON dbanon.audit TO @operator@;
-- A plan is made with the rights of whoever asks, so each of its steps is granted.
GRANT EXECUTE ON FUNCTION dbanon.plan_run(text, text, jsonb, text), dbanon.plan_rates(), dbanon.plan_figure(double precision),
    dbanon.plan_looks_at(text, double precision), dbanon.plan_read(bigint),
    dbanon.plan_windows(bigint, double precision, integer, bigint, integer, integer, bigint, text, integer),
    dbanon.plan_tp_aware(jsonb), dbanon.plan_sensitive_sites(jsonb),
    dbanon.plan_site_users(text, bigint, bigint, bigint, bigint), dbanon.plan_cost(text, jsonb),
    dbanon.plan_earlier(text, text, bigint) TO @operator@;

-- Workers compute and verify; they load nothing and publish nothing.
GRANT SELECT ON dbanon.dataset, dbanon.trajectory, dbanon.fix, dbanon.load, dbanon.request, dbanon.site,
    dbanon.poi, dbanon.cell, dbanon.quasi_identifier, dbanon.method, dbanon.run,
    dbanon.cloak, dbanon.membership, dbanon.verification, dbanon.release, dbanon.alembic_version TO @worker@;
GRANT UPDATE ON dbanon.run TO @worker@;
-- Nobody reads the channels of the workers.
GRANT INSERT (name, channel, held_by) ON dbanon.worker TO @worker@;
GRANT INSERT, UPDATE, DELETE ON dbanon.cloak, dbanon.membership TO @worker@;
GRANT INSERT ON dbanon.verification TO @worker@;
GRANT EXECUTE ON FUNCTION dbanon.run_digest(bigint), dbanon.cloak_evidence(bigint), dbanon.membership_evidence(bigint),
    dbanon.request_evidence(bigint), dbanon.site_evidence(bigint),
    dbanon.delete_rows(bigint), dbanon.hold_lock(), dbanon.register_worker(text), dbanon.claim_run(text, bigint), dbanon.watch_run(bigint, integer, text, bigint, bigint), dbanon.requeue_run(bigint, integer)
    TO @worker@;

-- The registry may be read, and parameters be checked, by both.
GRANT SELECT ON dbanon.methods, dbanon.method_parameters TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.likeness(text, text), dbanon.quoted(text), dbanon.stripped(jsonb), dbanon.is_number(text),
    dbanon.shown(jsonb), dbanon.as_number(jsonb), dbanon.as_instant(jsonb), dbanon.as_parameter(jsonb, jsonb),
    dbanon.refuse_name(text, text, text[]), dbanon.checked_algorithm(text, text), dbanon.checked_value(text, jsonb, jsonb),
    dbanon.check_params(text, text, jsonb), dbanon.version(), dbanon.role_name(text) TO @operator@, @worker@;

-- What administrators look up and take back.
GRANT SELECT ON dbanon.releases TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.release_card(text, bigint) TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.drop_run(bigint), dbanon.forget_subject(text, text) TO @operator@;
-- Imports run with the rights of whoever calls them, and so does what they share.
GRANT EXECUTE ON FUNCTION dbanon.nearest(text, text[], double precision), dbanon.lock_dataset(text),
    dbanon.known_dataset(text), dbanon.check_differ(text[], text), dbanon.check_zone(text), dbanon.reference_system(text),
    dbanon.describe_source(regclass, text[], text), dbanon.check_geometry(jsonb, text), dbanon.refuse_reading(text, text),
    dbanon.ask_source(text, text), dbanon.stage_source(text, text), dbanon.source_crs(text, text), dbanon.text_expression(text), dbanon.name_reasons(text),
    dbanon.localised_expression(text, text), dbanon.counted_expression(text, text, text, text),
    dbanon.time_expression(text, text, jsonb, text, text), dbanon.middle_expression(text, text, boolean), dbanon.event_reasons(),
    dbanon.position_reasons(integer, boolean), dbanon.make_staging(text), dbanon.leave_out(text, text, text),
    dbanon.demand_some(bigint, text), dbanon.refuse_swapped(bigint[], text), dbanon.write_load(bigint, text, text[], bigint[]),
    dbanon.moved(@postgis@.geometry, integer), dbanon.middle_span(double precision[], double precision), dbanon.reach(bigint),
    dbanon.stage_places(text, text, text, text, integer, boolean), dbanon.settle_places(text, bigint, integer),
    dbanon.store_places(text, bigint, boolean), dbanon.import_places(text, regclass, text, text, text, text, boolean),
    dbanon.import_pois(regclass, text, text, text, text, boolean), dbanon.import_cells(regclass, text, text, text, text, boolean),
    dbanon.stage_events(regclass, text, text, text, text[]), dbanon.import_requests(regclass, text, text[], text, text, text),
    dbanon.import_quasi_identifiers(regclass, text, text, text, text, boolean)
    TO @operator@;

-- What loads of files and imports of tables share, and the imports.
GRANT EXECUTE ON FUNCTION dbanon.check_dataset(text, text, double precision, double precision),
    dbanon.claim_dataset(text, text, double precision, double precision, integer),
    dbanon.write_dataset(text, text, integer, double precision, integer), dbanon.check_metric(integer),
    dbanon.check_bbox(double precision[], boolean), dbanon.inside_box(text, text, double precision[]),
    dbanon.box_reasons(double precision[]), dbanon.is_endless(@postgis@.geometry), dbanon.staged_content(jsonb), dbanon.say(text), dbanon.grouped(bigint),
    dbanon.tell(text),
    dbanon.begin_load(text, text, text, integer, double precision, double precision, double precision, double precision[]),
    dbanon.draw_sample(bigint, integer), dbanon.distinct_places(double precision[], double precision[], double precision),
    dbanon.home(double precision[], double precision[], double precision),
    dbanon.survey_shape(double precision[], double precision[], double precision[], boolean),
    dbanon.within(text, jsonb, boolean), dbanon.survey_conditions(jsonb),
    dbanon.degrees_apart(double precision, double precision),
    dbanon.try_degrees(double precision, double precision, integer, boolean), dbanon.refuse_axes(text),
    dbanon.survey_place(jsonb, text, text), dbanon.utm_zone(double precision, double precision),
    dbanon.check_axes(text, integer, double precision, double precision, text), dbanon.sort_out(jsonb, boolean, text),
    dbanon.kept_far(jsonb), dbanon.far_notice(bigint, text),
    dbanon.stretched_notice(double precision[], double precision[], jsonb, text, integer), dbanon.order_staged(boolean),
    dbanon.ordered_middle(integer), dbanon.mark_stored(bigint, integer, integer, boolean),
    dbanon.ordered_fixes(double precision, integer), dbanon.insert_lines(bigint, integer, integer, double precision),
    dbanon.insert_shapes(bigint, integer),
    dbanon.make_ordered(bigint, integer, integer, double precision, boolean, boolean, text),
    dbanon.leave_out_unplaced(integer, integer, text), dbanon.place_staged(integer, integer, text),
    dbanon.make_trajectories(bigint, integer, integer, double precision, boolean, boolean, text),
    dbanon.copies_notice(bigint, bigint),
    dbanon.finish_load(text, text, text, integer, double precision, integer, double precision, boolean, text[], bigint[], jsonb, boolean, text, text),
    dbanon.shapes_notice(bigint),
    dbanon.stage_fixes(regclass, text, text, text, text, text, integer, boolean, bigint, double precision[]),
    dbanon.check_columns(text, text, text, text), dbanon.check_uncut(text, double precision),
    dbanon.import_fixes(regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[], boolean),
    dbanon.import_trajectories(regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[], boolean),
    dbanon.begin_sites(text, text, double precision[]), dbanon.place_sites(integer, integer, bigint),
    dbanon.lies_within(@postgis@.geometry, double precision, double precision, double precision, double precision),
    dbanon.finish_sites(text, text, boolean, boolean, text, bigint, jsonb, text, text),
    dbanon.stage_sites(text, text, text, integer, boolean, double precision[]),
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
        PERFORM dbanon.revoke_rights(format('dbanon.release_%s', gone));
    END LOOP;
END
$$;

-- What is shown of runs and workers. A run whose worker's session has ended is shown as what dbanon_internal.reap_runs will make of it.

CREATE OR REPLACE VIEW dbanon.runs AS
SELECT
    run.run_id, dat.name AS dataset, run.method, run.algorithm, run.params,
    CASE WHEN NOT state.dead OR run.todo <> 'compute' THEN run.status
         WHEN run.cancel_requested_at IS NOT NULL THEN 'cancelled'
         WHEN state.over THEN 'failed'
         ELSE 'queued' END AS status,
    CASE WHEN run.todo IS NULL OR state.over THEN NULL
         WHEN run.worker IS NULL OR state.dead THEN 'waiting for a worker'
         WHEN run.cancel_requested_at IS NOT NULL THEN 'being cancelled'
         ELSE coalesce(run.stage, 'starting')
             || coalesce(' ' || 100 * run.stage_done / nullif(run.stage_total, 0) || ' %', '') END AS progress,
    run.rows, run.created_by AS submitted_by, run.created_at AS submitted_at, run.started_at, run.finished_at,
    CASE WHEN state.dead THEN NULL ELSE coalesce(run.finished_at, clock_timestamp()) - run.started_at END AS duration,
    CASE WHEN NOT state.dead THEN run.worker END AS worker,
    run.attempts,
    (SELECT string_agg(rel.name, ', ' ORDER BY rel.name) FROM dbanon.release rel
        WHERE rel.run_id = run.run_id AND rel.withdrawn_at IS NULL) AS releases,
    CASE WHEN state.over AND run.todo = 'compute'
         THEN coalesce(run.error, dbanon_internal.describe_lost_worker()) ELSE run.error END AS error,
    run.publish_error
FROM dbanon.run run
JOIN dbanon.dataset dat USING (dataset_id)
CROSS JOIN LATERAL (SELECT run.worker IS NOT NULL AND NOT dbanon_internal.is_held(run.held_by) AS dead) holder
CROSS JOIN LATERAL (SELECT holder.dead, holder.dead AND (run.cancel_requested_at IS NOT NULL OR run.attempts >= run.most_attempts) AS over) state;

CREATE OR REPLACE VIEW dbanon.evaluations AS
SELECT e.evaluation_id, e.run_id, d.name AS dataset, e.dataset_revision = d.revision AS current, e.method, e.algorithm, e.params, e.sample, e.against,
    e.queries, e.seed, f.name, f.value, f.low, f.high, f.side_m, f.asked, e.evaluated_at, e.evaluated_by
FROM dbanon.evaluation e
JOIN dbanon.dataset d USING (dataset_id)
CROSS JOIN LATERAL jsonb_to_recordset(e.figures) f (
    name text, value double precision, low double precision, high double precision, side_m double precision, asked text);

CREATE OR REPLACE VIEW dbanon.workers AS
SELECT w.worker_id, w.name, w.started_at, w.started_by, r.run_id
FROM dbanon.worker w
LEFT JOIN dbanon.run r ON r.worker = w.name AND r.todo IS NOT NULL
WHERE dbanon_internal.is_held(w.held_by);

-- What is shown of runs and workers. A run whose worker's session has ended is shown as what dbanon_internal.reap_runs will make of it.

CREATE OR REPLACE VIEW dbanon.runs AS
SELECT
    r.run_id, d.name AS dataset, r.method, r.algorithm, r.params,
    CASE WHEN NOT s.dead OR r.todo = 'verify' THEN r.status
         WHEN r.cancel_requested_at IS NOT NULL THEN 'cancelled'
         WHEN s.over THEN 'failed'
         ELSE 'queued' END AS status,
    CASE WHEN r.todo IS NULL OR s.over THEN NULL
         WHEN r.worker IS NULL OR s.dead THEN 'waiting for a worker'
         WHEN r.cancel_requested_at IS NOT NULL THEN 'being cancelled'
         ELSE coalesce(r.stage, 'starting')
             || coalesce(' ' || 100 * r.stage_done / nullif(r.stage_total, 0) || ' %', '') END AS progress,
    r.rows, r.created_by AS submitted_by, r.created_at AS submitted_at, r.started_at, r.finished_at,
    CASE WHEN s.dead THEN NULL ELSE coalesce(r.finished_at, clock_timestamp()) - r.started_at END AS duration,
    CASE WHEN NOT s.dead THEN r.worker END AS worker,
    r.attempts,
    (SELECT string_agg(l.name, ', ' ORDER BY l.name) FROM dbanon.release l
        WHERE l.run_id = r.run_id AND l.withdrawn_at IS NULL) AS releases,
    CASE WHEN s.over AND r.todo = 'compute'
         THEN coalesce(r.error, dbanon_internal.worker_lost_message()) ELSE r.error END AS error,
    r.publish_error
FROM dbanon.run r
JOIN dbanon.dataset d USING (dataset_id)
CROSS JOIN LATERAL (SELECT r.worker IS NOT NULL AND NOT dbanon_internal.is_held(r.held_by) AS dead) a
CROSS JOIN LATERAL (SELECT a.dead, a.dead AND (r.cancel_requested_at IS NOT NULL OR r.attempts >= r.most_attempts) AS over) s;

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

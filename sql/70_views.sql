-- Views for administrators.

-- Releases.
CREATE OR REPLACE VIEW dbanon.releases AS
SELECT l.name, l.withdrawn_at IS NULL AS live, l.run_id, d.name AS dataset, r.method, r.algorithm,
    CASE jsonb_typeof(r.params -> 'k') WHEN 'number' THEN (r.params -> 'k')::integer END AS k,
    l.rows, l.published_at, l.published_by, l.withdrawn_at, l.withdrawn_by, l.overlap, l.overlap_reason
FROM dbanon.release l
JOIN dbanon.run r ON r.run_id = l.run_id
JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id;

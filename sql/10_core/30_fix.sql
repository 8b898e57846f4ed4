-- Trajectories taken apart into fixes.

CREATE OR REPLACE VIEW dbanon.fix AS
SELECT
    t.trajectory_id,
    t.dataset_id,
    t.subject,
    coalesce(p.path[1], 1) AS seq,
    to_timestamp(@postgis@.ST_M(p.geom)) AS t,
    @postgis@.ST_Force2D(p.geom) AS position
FROM ONLY dbanon.trajectory t
CROSS JOIN LATERAL @postgis@.ST_DumpPoints(t.path) p;

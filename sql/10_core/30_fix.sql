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

-- Where a dataset is cut into days, which day of which subject a trajectory is: a separate record, of the same person.
CREATE OR REPLACE VIEW dbanon.subject_day AS
SELECT
    t.dataset_id,
    t.trajectory_id,
    t.subject,
    (to_timestamp(t.first_s) AT TIME ZONE d.day_zone)::date AS day
FROM ONLY dbanon.trajectory t
JOIN ONLY dbanon.dataset d ON d.dataset_id = t.dataset_id
WHERE d.day_zone IS NOT NULL;

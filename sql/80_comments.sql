-- What every schema, table, view and column is for (functions carry their own comments).

COMMENT ON SCHEMA dbanon IS 'Private: datasets, runs, verdicts, releases. Analysts see nothing of it.';
COMMENT ON SCHEMA dbanon_internal IS 'Private: the functions that those in schema dbanon and the programs are made of.';
COMMENT ON SCHEMA published IS 'Releases, as views: the only thing analysts read; and functions that answer from them.';

COMMENT ON TABLE dbanon.installation IS 'How this database was made ready: one row.';
COMMENT ON COLUMN dbanon.installation.one IS 'Key: always true.';
COMMENT ON COLUMN dbanon.installation.role_prefix IS 'Its roles are called <role_prefix>_admin, _operator, _worker and _analyst.';
COMMENT ON COLUMN dbanon.installation.database_oid IS 'The database for which that was chosen: a restored or cloned one has another OID.';
COMMENT ON COLUMN dbanon.installation.server_identifier IS 'The server it is on, as pg_control_system has it.';
COMMENT ON COLUMN dbanon.installation.public_restricted IS 'Whether rights on the server''s own views were to be taken from PUBLIC.';
COMMENT ON COLUMN dbanon.installation.published_from IS 'Server, database and timeline of the last publication; null: there was none.';
COMMENT ON COLUMN dbanon.installation.key IS 'Drawn at random: fixes are hashed with it, to recognise copies of a dataset.';

COMMENT ON TABLE dbanon.changed_right IS 'Rights that an upgrade took from PUBLIC and gave to others instead; dbanon db uninstall undoes it.';
COMMENT ON COLUMN dbanon.changed_right.object IS 'A view or function, as in GRANT.';
COMMENT ON COLUMN dbanon.changed_right.grantee IS 'PUBLIC, who lost the right; pg_monitor or a role of dbanon''s, which was given it.';

COMMENT ON TABLE dbanon.population IS 'The people of one or several datasets, within which a subject''s name means one person.';
COMMENT ON COLUMN dbanon.population.population_id IS 'Key.';
COMMENT ON COLUMN dbanon.population.name IS 'The name users give it.';
COMMENT ON COLUMN dbanon.population.key IS 'Drawn at random: what is kept of names is hashed with it, and seeds are made from it. It never leaves the database.';

COMMENT ON TABLE dbanon.forgotten IS 'Who was forgotten and is left out of every load (dbanon.forget_subject, dbanon.remember_subject). No role reads it.';
COMMENT ON COLUMN dbanon.forgotten.population_id IS 'The population.';
COMMENT ON COLUMN dbanon.forgotten.code IS 'The person''s code, a hash of the name with the key of the population.';
COMMENT ON COLUMN dbanon.forgotten.forgotten_on IS 'The day.';

COMMENT ON TABLE dbanon.dataset IS 'A named collection of trajectories in one metric SRID, with one space grid and one time grid.';
COMMENT ON COLUMN dbanon.dataset.dataset_id IS 'Key.';
COMMENT ON COLUMN dbanon.dataset.name IS 'The name users give it.';
COMMENT ON COLUMN dbanon.dataset.srid IS 'Metric SRID of all its geometries.';
COMMENT ON COLUMN dbanon.dataset.grid_m IS 'Side of a space cell in metres; cells start at the origin.';
COMMENT ON COLUMN dbanon.dataset.grid_s IS 'Length of a time slot in seconds; slots start at 1970 UTC.';
COMMENT ON COLUMN dbanon.dataset.day_zone IS 'The time zone at whose midnights trajectories are cut; null where subjects are not cut into days.';
COMMENT ON COLUMN dbanon.dataset.population_id IS 'Whose people it is about: within a population a subject''s name means one person.';
COMMENT ON COLUMN dbanon.dataset.settle_s IS 'How long in seconds a person may stay where a snapshot or an exact row shows them: what other releases say less than this apart is intersected with it. The greatest of a population counts for all its datasets.';
COMMENT ON COLUMN dbanon.dataset.own_subjects IS 'Whether each row that was loaded is a subject of its own, whose name means no person outside the dataset.';
COMMENT ON COLUMN dbanon.dataset.revision IS 'Raised by every change of what was loaded into it; part of every digest.';
COMMENT ON COLUMN dbanon.dataset.created_at IS 'When it was created.';
COMMENT ON COLUMN dbanon.dataset.created_by IS 'Login that created it.';
COMMENT ON COLUMN dbanon.dataset.kept_since IS 'What was before it was forgotten (dbanon.forget_before), and is left out of every load; null: nothing.';
COMMENT ON COLUMN dbanon.dataset.dropped_at IS 'When it was dropped; its row stays where releases refer to it. Null: it is there.';

COMMENT ON VIEW dbanon.datasets IS 'The datasets there are, and how much is in each; it reads all trajectories.';
COMMENT ON COLUMN dbanon.datasets.name IS 'The name users give it.';
COMMENT ON COLUMN dbanon.datasets.population IS 'Whose people it is about.';
COMMENT ON COLUMN dbanon.datasets.subjects IS 'Subjects that have a trajectory.';
COMMENT ON COLUMN dbanon.datasets.trajectories IS 'Trajectories.';
COMMENT ON COLUMN dbanon.datasets.fixes IS 'Fixes of all trajectories.';
COMMENT ON COLUMN dbanon.datasets.since IS 'The first fix.';
COMMENT ON COLUMN dbanon.datasets.until IS 'The last fix.';
COMMENT ON COLUMN dbanon.datasets.srid IS 'Metric SRID of all its geometries.';
COMMENT ON COLUMN dbanon.datasets.grid_m IS 'Side of a space cell in metres.';
COMMENT ON COLUMN dbanon.datasets.grid_s IS 'Length of a time slot in seconds.';
COMMENT ON COLUMN dbanon.datasets.settle_s IS 'How long in seconds a person may stay where a snapshot or an exact row shows them.';
COMMENT ON COLUMN dbanon.datasets.bytes IS 'About how many bytes its trajectories take, from the stored sizes of their paths.';
COMMENT ON COLUMN dbanon.datasets.last_load IS 'The load_id of the last load that was not taken back.';
COMMENT ON COLUMN dbanon.datasets.last_loaded_at IS 'When that was.';
COMMENT ON COLUMN dbanon.datasets.last_loaded_by IS 'Login that loaded.';
COMMENT ON COLUMN dbanon.datasets.live_releases IS 'How many of its releases are live.';
COMMENT ON COLUMN dbanon.datasets.releases IS 'How many releases of it there ever were.';

COMMENT ON TABLE dbanon.trajectory IS 'One path of one subject; a subject may have several.';
COMMENT ON COLUMN dbanon.trajectory.trajectory_id IS 'Key.';
COMMENT ON COLUMN dbanon.trajectory.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.trajectory.subject IS 'The person or vehicle whose privacy is protected.';
COMMENT ON COLUMN dbanon.trajectory.path IS 'True positions: LINESTRING M, or POINT M for one fix; M is unix seconds, strictly increasing.';

COMMENT ON COLUMN dbanon.trajectory.shape IS 'The area the subject takes up, where it is more than a point; only with one fix, its middle.';
COMMENT ON COLUMN dbanon.trajectory.load_id IS 'The load it came with; null where it was inserted by hand.';
COMMENT ON COLUMN dbanon.trajectory.first_s IS 'Unix seconds of the first fix of the path.';
COMMENT ON COLUMN dbanon.trajectory.last_s IS 'Unix seconds of its last fix.';

COMMENT ON VIEW dbanon.fix IS 'Trajectories taken apart: one observed position at one time a row.';
COMMENT ON COLUMN dbanon.fix.trajectory_id IS 'The trajectory.';
COMMENT ON COLUMN dbanon.fix.dataset_id IS 'Its dataset.';
COMMENT ON COLUMN dbanon.fix.subject IS 'Its subject.';
COMMENT ON COLUMN dbanon.fix.seq IS 'Place within the trajectory, from 1.';
COMMENT ON COLUMN dbanon.fix.t IS 'When.';
COMMENT ON COLUMN dbanon.fix.position IS 'Where: a POINT in the dataset''s SRID.';
COMMENT ON VIEW dbanon.subject_day IS 'Where a dataset is cut into days: which day of which subject a trajectory is. A day is a separate record, its person is the subject.';
COMMENT ON COLUMN dbanon.subject_day.dataset_id IS 'The dataset.';
COMMENT ON COLUMN dbanon.subject_day.trajectory_id IS 'The trajectory; it crosses no midnight of the dataset''s day_zone.';
COMMENT ON COLUMN dbanon.subject_day.subject IS 'The person.';
COMMENT ON COLUMN dbanon.subject_day.day IS 'The day, in the dataset''s day_zone.';

COMMENT ON TABLE dbanon.load IS 'One load of files into a dataset, and what became of their rows.';
COMMENT ON COLUMN dbanon.load.load_id IS 'Key.';
COMMENT ON COLUMN dbanon.load.part_of IS 'The load under whose number its rows are: that of the first of several sources of one call; null for that itself.';
COMMENT ON COLUMN dbanon.load.dataset_id IS 'The dataset loaded into.';
COMMENT ON COLUMN dbanon.load.kind IS 'What was loaded: trajectories, requests, ...';
COMMENT ON COLUMN dbanon.load.source IS 'The files it came from; forgotten once they are too old (dbanon.forget_before).';
COMMENT ON COLUMN dbanon.load.rows_read IS 'Rows in the files.';
COMMENT ON COLUMN dbanon.load.rows_kept IS 'Rows that were used.';
COMMENT ON COLUMN dbanon.load.quarantined IS 'Rows that could not be used, by reason: {reason: count}.';
COMMENT ON COLUMN dbanon.load.left_out IS 'Rows that were neither used nor put into quarantine, by reason: {reason: count}. The source has them still.';
COMMENT ON COLUMN dbanon.load.units_per_s IS 'How many of the source''s numbers are a second, where its times are numbers.';
COMMENT ON COLUMN dbanon.load.loaded_at IS 'When.';
COMMENT ON COLUMN dbanon.load.loaded_by IS 'Login that loaded.';
COMMENT ON COLUMN dbanon.load.dropped_at IS 'When it was taken back; null: what it brought is there, unless it was replaced or forgotten.';

COMMENT ON TABLE dbanon.quarantine IS 'Rows a load could not use, kept with their reason.';
COMMENT ON COLUMN dbanon.quarantine.quarantine_id IS 'Key.';
COMMENT ON COLUMN dbanon.quarantine.load_id IS 'The load.';
COMMENT ON COLUMN dbanon.quarantine.line IS 'Line of the file, or row of the table, from 1; null where there is none.';
COMMENT ON COLUMN dbanon.quarantine.reason IS 'Why it could not be used.';
COMMENT ON COLUMN dbanon.quarantine.content IS 'The row as it was read.';
COMMENT ON COLUMN dbanon.quarantine.at IS 'Its time; null where none can be read.';

COMMENT ON TABLE dbanon.request IS 'A request a subject sent to a location based service.';
COMMENT ON COLUMN dbanon.request.request_id IS 'Key.';
COMMENT ON COLUMN dbanon.request.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.request.subject IS 'The sender.';
COMMENT ON COLUMN dbanon.request.sent_at IS 'When it was sent.';
COMMENT ON COLUMN dbanon.request.content IS 'Its name-value pairs, an object.';
COMMENT ON COLUMN dbanon.request.load_id IS 'The load it came with; null where it was inserted by hand.';

COMMENT ON TABLE dbanon.site IS 'A sensitive site: a place to which no subject may be tied.';
COMMENT ON COLUMN dbanon.site.site_id IS 'Key.';
COMMENT ON COLUMN dbanon.site.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.site.name IS 'What it is called; null where the source has no name.';
COMMENT ON COLUMN dbanon.site.geom IS 'Where it is, in the dataset''s SRID: a point, or a shape, whose bounding rectangle counts.';
COMMENT ON COLUMN dbanon.site.load_id IS 'The load it came with; null where it was inserted by hand.';

COMMENT ON TABLE dbanon.poi IS 'A point of interest, such as a cafe.';
COMMENT ON COLUMN dbanon.poi.poi_id IS 'Key.';
COMMENT ON COLUMN dbanon.poi.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.poi.category IS 'What kind of place it is.';
COMMENT ON COLUMN dbanon.poi.geom IS 'Where it is, in the dataset''s SRID.';
COMMENT ON COLUMN dbanon.poi.load_id IS 'The load it came with; null where it was inserted by hand.';

COMMENT ON TABLE dbanon.cell IS 'The area a base station covers.';
COMMENT ON COLUMN dbanon.cell.cell_id IS 'Key.';
COMMENT ON COLUMN dbanon.cell.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.cell.name IS 'What the station is called; null where the source has no name.';
COMMENT ON COLUMN dbanon.cell.geom IS 'The area, a polygon or several, in the dataset''s SRID.';
COMMENT ON COLUMN dbanon.cell.load_id IS 'The load it came with; null where it was inserted by hand.';

COMMENT ON TABLE dbanon.quasi_identifier IS 'A time at which an adversary may know where a subject was.';
COMMENT ON COLUMN dbanon.quasi_identifier.quasi_identifier_id IS 'Key.';
COMMENT ON COLUMN dbanon.quasi_identifier.dataset_id IS 'The dataset it belongs to (held by a trigger).';
COMMENT ON COLUMN dbanon.quasi_identifier.subject IS 'The subject.';
COMMENT ON COLUMN dbanon.quasi_identifier.at IS 'The time.';
COMMENT ON COLUMN dbanon.quasi_identifier.set_name IS 'The set it belongs to: a method reads one, which its parameter qid_set names.';
COMMENT ON COLUMN dbanon.quasi_identifier.load_id IS 'The load it came with; null where it was inserted by hand.';

COMMENT ON TABLE dbanon.method IS 'The method families this database can publish, written by every upgrade from the program''s registry.';
COMMENT ON COLUMN dbanon.method.name IS 'Key.';
COMMENT ON COLUMN dbanon.method.summary IS 'What it does.';
COMMENT ON COLUMN dbanon.method.guarantee IS 'What it promises; the comment of every release.';
COMMENT ON COLUMN dbanon.method.region_type IS 'Geometry type of the region of its releases.';
COMMENT ON COLUMN dbanon.method.attack IS 'The attack a run must withstand to be published.';
COMMENT ON COLUMN dbanon.method.algorithms IS 'Its algorithms: [{name, summary, stands_alone}].';
COMMENT ON COLUMN dbanon.method.columns IS 'Its own columns of a release, from extra: [{name, sql_type, default, comment}].';

COMMENT ON COLUMN dbanon.method.paper IS 'Where it is from.';
COMMENT ON COLUMN dbanon.method.adversary IS 'Against whom the promise holds, in a sentence.';
COMMENT ON COLUMN dbanon.method.row_meaning IS 'What a row of its releases is.';
COMMENT ON COLUMN dbanon.method.left_out IS 'Who is not in its releases.';
COMMENT ON COLUMN dbanon.method.traits IS 'What core functions ask of it: {hides, hidden_by, reads, joins, begins, instant, oldest, notices, totals, reasons}; see dbanon.methods.Method.';
COMMENT ON COLUMN dbanon.method.parameters IS 'Its parameters: [{name, type, unit, default, minimum, maximum, choices, help, ...}], in order.';

COMMENT ON VIEW dbanon.methods IS 'The methods and their algorithms.';
COMMENT ON COLUMN dbanon.methods.method IS 'The method family.';
COMMENT ON COLUMN dbanon.methods.algorithm IS 'One way to compute it.';
COMMENT ON COLUMN dbanon.methods.is_default IS 'Whether it is taken where no algorithm is named.';
COMMENT ON COLUMN dbanon.methods.summary IS 'What the method does.';
COMMENT ON COLUMN dbanon.methods.algorithm_summary IS 'What the algorithm does.';
COMMENT ON COLUMN dbanon.methods.guarantee IS 'What is promised.';
COMMENT ON COLUMN dbanon.methods.attack IS 'The attack a run must withstand to be published.';
COMMENT ON COLUMN dbanon.methods.paper IS 'Where the method is from.';

COMMENT ON VIEW dbanon.method_parameters IS 'The parameters of the methods: what those of a run are checked by.';
COMMENT ON COLUMN dbanon.method_parameters.method IS 'The method family.';
COMMENT ON COLUMN dbanon.method_parameters.parameter IS 'The parameter.';
COMMENT ON COLUMN dbanon.method_parameters.place IS 'Its place among those of the method, from 1.';
COMMENT ON COLUMN dbanon.method_parameters.type IS 'integer, number, choice, switch (on or off) or instant.';
COMMENT ON COLUMN dbanon.method_parameters.unit IS 'Its unit; null where it has none.';
COMMENT ON COLUMN dbanon.method_parameters.default_value IS 'What it is where it is not given.';
COMMENT ON COLUMN dbanon.method_parameters.minimum IS 'The least it may be; null: no limit.';
COMMENT ON COLUMN dbanon.method_parameters.maximum IS 'The most it may be; null: no limit.';
COMMENT ON COLUMN dbanon.method_parameters.choices IS 'What it may be; null where it is no choice.';
COMMENT ON COLUMN dbanon.method_parameters.requirement IS 'What it must be, in words.';
COMMENT ON COLUMN dbanon.method_parameters.algorithms IS 'With which algorithms it may be given; null: with all.';
COMMENT ON COLUMN dbanon.method_parameters.help IS 'What it does.';

COMMENT ON TYPE dbanon.session IS 'A session of the server and the advisory lock it holds.';
COMMENT ON COLUMN dbanon.session.lock_key IS 'Key of the lock, drawn at random.';
COMMENT ON COLUMN dbanon.session.pid IS 'Number of the server''s process.';
COMMENT ON COLUMN dbanon.session.login IS 'Its login.';
COMMENT ON COLUMN dbanon.session.started_at IS 'When it began.';

COMMENT ON TABLE dbanon.run IS 'Method, algorithm, parameters, seed and dataset, and what came out.';
COMMENT ON COLUMN dbanon.run.run_id IS 'Key.';
COMMENT ON COLUMN dbanon.run.dataset_id IS 'The dataset.';
COMMENT ON COLUMN dbanon.run.dataset_revision IS 'Revision of the dataset that was read; null before it is read.';
COMMENT ON COLUMN dbanon.run.method IS 'The method family.';
COMMENT ON COLUMN dbanon.run.algorithm IS 'The algorithm of the family.';
COMMENT ON COLUMN dbanon.run.params IS 'All its parameters, an object.';
COMMENT ON COLUMN dbanon.run.seed IS 'Seed of all random choices but the numbering of releases. Never published.';
COMMENT ON COLUMN dbanon.run.status IS 'queued, running, computed, verified, refused, failed or cancelled.';
COMMENT ON COLUMN dbanon.run.metrics IS 'Figures of the run, an object of numbers.';
COMMENT ON COLUMN dbanon.run.suppressed IS 'What was left out, by reason.';
COMMENT ON COLUMN dbanon.run.timings IS 'Seconds by phase.';
COMMENT ON COLUMN dbanon.run.peak_rss_mb IS 'Greatest memory of the process, MB.';
COMMENT ON COLUMN dbanon.run.publish_error IS 'Why it was not published, the last time that was tried; null once it is.';
COMMENT ON COLUMN dbanon.run.error IS 'Why it failed, in one sentence.';
COMMENT ON COLUMN dbanon.run.program_version IS 'Version of dbanon that computed it.';
COMMENT ON COLUMN dbanon.run.created_at IS 'When it was submitted.';
COMMENT ON COLUMN dbanon.run.created_by IS 'Login that submitted it.';
COMMENT ON COLUMN dbanon.run.started_at IS 'When computing began.';
COMMENT ON COLUMN dbanon.run.finished_at IS 'When it ended.';

COMMENT ON COLUMN dbanon.run.todo IS 'What a worker still has to do: compute (and verify), or verify; null: nothing.';
COMMENT ON COLUMN dbanon.run.attempts IS 'How often a worker has begun what is to do. A later one finishes nothing an earlier one began.';
COMMENT ON COLUMN dbanon.run.most_attempts IS 'After this many attempts whose worker ended early it is given up.';
COMMENT ON COLUMN dbanon.run.worker IS 'The worker that works on it now: host and process; null: none.';
COMMENT ON COLUMN dbanon.run.held_by IS 'Session of the one who works on it, or last did: it lives as long as it holds its lock.';
COMMENT ON COLUMN dbanon.run.stage IS 'What is being done now.';
COMMENT ON COLUMN dbanon.run.stage_done IS 'How much of the stage is done.';
COMMENT ON COLUMN dbanon.run.stage_total IS 'How much the stage is in all; null where that is not known.';
COMMENT ON COLUMN dbanon.run.rows IS 'Cloaks written.';
COMMENT ON COLUMN dbanon.run.error_kind IS 'What was wrong: parameter, data, infeasible, store (the server) or other.';
COMMENT ON COLUMN dbanon.run.cancel_requested_at IS 'When its cancellation was requested.';
COMMENT ON COLUMN dbanon.run.cancel_requested_by IS 'Login that asked.';

COMMENT ON VIEW dbanon.runs IS 'Every run: what it is, how far it is, how it ended.';
COMMENT ON COLUMN dbanon.runs.run_id IS 'Its number.';
COMMENT ON COLUMN dbanon.runs.dataset IS 'The dataset.';
COMMENT ON COLUMN dbanon.runs.method IS 'The method family.';
COMMENT ON COLUMN dbanon.runs.algorithm IS 'The algorithm of the family.';
COMMENT ON COLUMN dbanon.runs.params IS 'All its parameters.';
COMMENT ON COLUMN dbanon.runs.status IS 'queued, running, computed, verified, refused, failed or cancelled.';
COMMENT ON COLUMN dbanon.runs.progress IS 'What is being done, and how much of it is done; null if nothing is to be done.';
COMMENT ON COLUMN dbanon.runs.rows IS 'Rows it would publish.';
COMMENT ON COLUMN dbanon.runs.submitted_by IS 'Login that submitted it.';
COMMENT ON COLUMN dbanon.runs.submitted_at IS 'When it was submitted.';
COMMENT ON COLUMN dbanon.runs.started_at IS 'When computing began.';
COMMENT ON COLUMN dbanon.runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN dbanon.runs.duration IS 'From start to end, or to now.';
COMMENT ON COLUMN dbanon.runs.worker IS 'Who works on it: host and process.';
COMMENT ON COLUMN dbanon.runs.attempts IS 'How often it was begun.';
COMMENT ON COLUMN dbanon.runs.releases IS 'Names of its live releases.';
COMMENT ON COLUMN dbanon.runs.publish_error IS 'Why it was not published, the last time that was tried; null once it is.';
COMMENT ON COLUMN dbanon.runs.error IS 'Why it failed or was refused, in one sentence.';

COMMENT ON VIEW dbanon.workers IS 'Processes that are up and take runs.';
COMMENT ON COLUMN dbanon.workers.worker_id IS 'Key.';
COMMENT ON COLUMN dbanon.workers.name IS 'Host and process.';
COMMENT ON COLUMN dbanon.workers.started_at IS 'Since when.';
COMMENT ON COLUMN dbanon.workers.started_by IS 'Its login.';
COMMENT ON COLUMN dbanon.workers.run_id IS 'What it works on; null: it waits.';

COMMENT ON TABLE dbanon.worker IS 'Processes that take runs from the queue. One whose session does not hold its lock is dead.';
COMMENT ON COLUMN dbanon.worker.worker_id IS 'Key.';
COMMENT ON COLUMN dbanon.worker.name IS 'Host and process.';
COMMENT ON COLUMN dbanon.worker.channel IS 'Name of the channel it is woken on; random, and shown to no operator, worker or analyst.';
COMMENT ON COLUMN dbanon.worker.held_by IS 'Its session: it is up as long as that holds its lock.';
COMMENT ON COLUMN dbanon.worker.started_at IS 'When it began.';
COMMENT ON COLUMN dbanon.worker.started_by IS 'Its login.';

COMMENT ON TABLE dbanon.region IS 'Where rows of a run are: each distinct region with its crowd, subjects and extra once.';
COMMENT ON COLUMN dbanon.region.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.region.region_no IS 'Number within the run, from 1.';
COMMENT ON COLUMN dbanon.region.region IS 'Polygon or MultiPolygon in the dataset''s SRID; its area is never zero.';
COMMENT ON COLUMN dbanon.region.cells IS 'The cells of dbanon.cell that it is the union of; null where it is a rectangle.';
COMMENT ON COLUMN dbanon.region.crowd IS 'Distinct subjects a row hides.';
COMMENT ON COLUMN dbanon.region.subjects IS 'How many people a row stands for: the only column to sum.';
COMMENT ON COLUMN dbanon.region.extra IS 'Values of the method''s own columns, an object; null where all have their defaults.';

COMMENT ON TABLE dbanon.period IS 'When rows of a run are: each distinct period once.';
COMMENT ON COLUMN dbanon.period.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.period.period_no IS 'Number within the run, from 1.';
COMMENT ON COLUMN dbanon.period.period IS 'Half-open, finite, never empty.';

COMMENT ON TABLE dbanon.record IS 'The published things of a run, each with its rows: their numbers of periods and regions.';
COMMENT ON COLUMN dbanon.record.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.record.record_id IS 'Number within the run, from 1; a release numbers anew.';
COMMENT ON COLUMN dbanon.record.periods IS 'The period_no of each row, in order; 0 where a row was deleted.';
COMMENT ON COLUMN dbanon.record.regions IS 'The region_no of each row, in order; 0 where a row was deleted.';

COMMENT ON VIEW dbanon.cloak IS 'A region for a period: the rows a run would publish, put together of its records, periods and regions. Rows can be inserted, changed and deleted through it, one by one.';
COMMENT ON COLUMN dbanon.cloak.run_id IS 'The run.';
COMMENT ON COLUMN dbanon.cloak.record_id IS 'The published thing the row belongs to, numbered by the run; a release numbers anew.';
COMMENT ON COLUMN dbanon.cloak.seq IS 'Place within the record, from 1.';
COMMENT ON COLUMN dbanon.cloak.period IS 'Half-open, finite, never empty.';
COMMENT ON COLUMN dbanon.cloak.region IS 'Polygon or MultiPolygon in the dataset''s SRID; its area is never zero.';
COMMENT ON COLUMN dbanon.cloak.crowd IS 'Distinct subjects the row hides.';
COMMENT ON COLUMN dbanon.cloak.subjects IS 'How many people the row stands for: the only column to sum.';
COMMENT ON COLUMN dbanon.cloak.extra IS 'Values of the method''s own columns, an object; null where all have their defaults.';

COMMENT ON TABLE dbanon.membership IS 'Whose data a record carries. Private; every verification needs it.';
COMMENT ON COLUMN dbanon.membership.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.membership.record_id IS 'The record of that run.';
COMMENT ON COLUMN dbanon.membership.trajectory_id IS 'The trajectory (checked by the attack).';
COMMENT ON COLUMN dbanon.membership.period IS 'The stretch it is carried for; null: the whole record.';

COMMENT ON TABLE dbanon.hiding IS 'The records that a record is hidden among, where such sets overlap. Private; every verification needs it.';
COMMENT ON COLUMN dbanon.hiding.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.hiding.record_id IS 'The record that is hidden.';
COMMENT ON COLUMN dbanon.hiding.period IS 'When it is; null: the whole record.';
COMMENT ON COLUMN dbanon.hiding.others IS 'The records it is hidden among, itself not among them.';

COMMENT ON TABLE dbanon.atom IS 'The atoms that the regions of a run are made of: sets of cells, which tell nothing of the place within them.';
COMMENT ON COLUMN dbanon.atom.run_id IS 'The run (held by a trigger).';
COMMENT ON COLUMN dbanon.atom.cell_id IS 'A cell of its dataset.';
COMMENT ON COLUMN dbanon.atom.atom IS 'The number of the atom that the cell is in, from 0.';

COMMENT ON TABLE dbanon.verification IS 'An attack on the stored rows of a run, with its verdict.';
COMMENT ON COLUMN dbanon.verification.verification_id IS 'Key; the greatest is the latest.';
COMMENT ON COLUMN dbanon.verification.run_id IS 'The run.';
COMMENT ON COLUMN dbanon.verification.attack IS 'The attack.';
COMMENT ON COLUMN dbanon.verification.passed IS 'True if the attack failed to break the guarantee.';
COMMENT ON COLUMN dbanon.verification.figures IS 'What was counted, by clause.';
COMMENT ON COLUMN dbanon.verification.digest IS 'Digest of the rows the verdict is about.';
COMMENT ON COLUMN dbanon.verification.checked_at IS 'When.';
COMMENT ON COLUMN dbanon.verification.checked_by IS 'Login that verified.';
COMMENT ON COLUMN dbanon.verification.clauses IS 'What must hold, one by one: [{name, passed, violations, sentence}].';

COMMENT ON TABLE dbanon.release IS 'What was ever published, append-only: readers of a withdrawn release still know it.';
COMMENT ON COLUMN dbanon.release.release_id IS 'Key; the rows are in dbanon.release_<release_id> until withdrawn.';
COMMENT ON COLUMN dbanon.release.name IS 'The view in schema published; free again once withdrawn.';
COMMENT ON COLUMN dbanon.release.run_id IS 'The run it is a copy of; null of a lost one.';
COMMENT ON COLUMN dbanon.release.population_id IS 'The population of a lost release, which dbanon.confirm_history entered; null of all others.';
COMMENT ON COLUMN dbanon.release.digest IS 'Digest of the rows when it was published.';
COMMENT ON COLUMN dbanon.release.rows IS 'Rows published.';
COMMENT ON COLUMN dbanon.release.published_at IS 'When.';
COMMENT ON COLUMN dbanon.release.published_by IS 'Login that published.';
COMMENT ON COLUMN dbanon.release.withdrawn_at IS 'When it was withdrawn; null while live.';
COMMENT ON COLUMN dbanon.release.withdrawn_by IS 'Login that withdrew it.';

COMMENT ON COLUMN dbanon.release.overlap IS 'What was measured against the releases before it, and copies: the datasets whose fixes its own has under other names, itself if people have several names in it; null where nothing was found.';
COMMENT ON COLUMN dbanon.release.overlap_reason IS 'Why it was published although it overlaps; null where no reason was needed.';
COMMENT ON COLUMN dbanon.release.span IS 'From the start of its first row to the end of its last.';
COMMENT ON COLUMN dbanon.release.reach IS 'How far from its rows others are compared with them: 0, or for a snapshot or exact rows the greater of max_gap_s and the settle time of the population.';
COMMENT ON COLUMN dbanon.release.content IS 'Digest of its people, sets, periods and regions: equal for the very same ones.';
COMMENT ON COLUMN dbanon.release.groups_sum IS 'Sum of keyed hashes of its rows in dbanon.grouping and dbanon.exposure: a publication that reads them compares it.';
COMMENT ON COLUMN dbanon.release.cells_sum IS 'Sum of keyed hashes of its rows in dbanon.published_cell: a publication that reads them compares it.';
COMMENT ON COLUMN dbanon.release.holds IS 'What its rows say of each of their people: instant or some time, as published.releases has it.';
COMMENT ON COLUMN dbanon.release.step_s IS 'Seconds between two instants; null where it speaks of one moment, or holds at some time.';
COMMENT ON COLUMN dbanon.release.window_s IS 'After how many seconds a record ends; null where records do not end with windows.';
COMMENT ON COLUMN dbanon.release.day_zone IS 'The time zone at whose midnights records end, as its dataset''s; null where they end at none.';
COMMENT ON COLUMN dbanon.release.extent IS 'The box around all its regions: least x and y, greatest x and y.';
COMMENT ON COLUMN dbanon.release.readers IS 'The roles that may read it; null: all analysts.';
COMMENT ON COLUMN dbanon.release.left_out IS 'What its readers see of the people left out by hour: [{since, until, percent}], hours joined until no count below k shows.';

COMMENT ON COLUMN dbanon.release.pois_at IS 'When the last points of interest were loaded before its run; null: not known, or there are none.';

COMMENT ON COLUMN dbanon.release.percent_left_out IS 'The share of the people seen who were left out, in whole percent, rounded up; null where these are fewer than k.';
COMMENT ON COLUMN dbanon.release.series_id IS 'The release that grows of which it is a part; null: it is a release of one run.';
COMMENT ON COLUMN dbanon.release.bounds IS 'The time that the part takes: all of its rows lie in it.';
COMMENT ON COLUMN dbanon.release.prefix IS 'The upper bits of the keys of its rows, drawn at random: no other part has or had it.';

COMMENT ON TABLE dbanon.series IS 'Releases that grow: one view over parts, each of which is a row of dbanon.release. What all parts have in common.';
COMMENT ON COLUMN dbanon.series.series_id IS 'Key; the table of its parts is dbanon.series_<series_id>.';
COMMENT ON COLUMN dbanon.series.name IS 'The view in schema published, while live.';
COMMENT ON COLUMN dbanon.series.method IS 'The method family.';
COMMENT ON COLUMN dbanon.series.algorithm IS 'The algorithm of the family.';
COMMENT ON COLUMN dbanon.series.srid IS 'The SRID of the datasets.';
COMMENT ON COLUMN dbanon.series.grid_m IS 'Their side of a space cell in metres.';
COMMENT ON COLUMN dbanon.series.grid_s IS 'Their length of a time slot in seconds.';
COMMENT ON COLUMN dbanon.series.columns IS 'The columns of the family, with their types.';
COMMENT ON COLUMN dbanon.series.step_s IS 'Seconds between two instants; null as in dbanon.release.';
COMMENT ON COLUMN dbanon.series.window_s IS 'After how many seconds a record ends; null where records do not end with windows.';
COMMENT ON COLUMN dbanon.series.day_zone IS 'The time zone at whose midnights records end; null where they end at none.';
COMMENT ON COLUMN dbanon.series.readers IS 'The roles that may read it; null: all analysts.';
COMMENT ON COLUMN dbanon.series.withdrawn_at IS 'When all of it was withdrawn; null while live.';
COMMENT ON COLUMN dbanon.series.withdrawn_by IS 'Login that withdrew it.';

COMMENT ON VIEW dbanon.releases IS 'What was ever published, and from what: the releases as administrators see them.';
COMMENT ON COLUMN dbanon.releases.release_id IS 'Key: one name may have had several releases.';
COMMENT ON COLUMN dbanon.releases.name IS 'The view in schema published, while live.';
COMMENT ON COLUMN dbanon.releases.live IS 'Whether its readers can read it now.';
COMMENT ON COLUMN dbanon.releases.run_id IS 'The run it is a copy of; null if the database was restored without it, and the release is lost.';
COMMENT ON COLUMN dbanon.releases.dataset IS 'The dataset of the run.';
COMMENT ON COLUMN dbanon.releases.method IS 'The method family.';
COMMENT ON COLUMN dbanon.releases.algorithm IS 'The algorithm of the family.';
COMMENT ON COLUMN dbanon.releases.k IS 'How many people each group must have.';
COMMENT ON COLUMN dbanon.releases.rows IS 'Rows published.';
COMMENT ON COLUMN dbanon.releases.published_at IS 'When.';
COMMENT ON COLUMN dbanon.releases.published_by IS 'Login that published.';
COMMENT ON COLUMN dbanon.releases.withdrawn_at IS 'When it was withdrawn; null while live.';
COMMENT ON COLUMN dbanon.releases.withdrawn_by IS 'Login that withdrew it.';
COMMENT ON COLUMN dbanon.releases.overlap IS 'What was measured against the releases before it, and copies: the datasets whose fixes its own has under other names, itself if people have several names in it; null where nothing was found.';
COMMENT ON COLUMN dbanon.releases.overlap_reason IS 'Why it was published although it overlaps; null where no reason was needed.';
COMMENT ON COLUMN dbanon.releases.readers IS 'The roles that may read it; null: all analysts.';
COMMENT ON COLUMN dbanon.releases.bounds IS 'Of a part of a release that grows: the time it takes.';

COMMENT ON VIEW dbanon.health IS 'What is wrong, a row each; none where all is well. dbanon check prints it.';
COMMENT ON COLUMN dbanon.health.level IS '1 late or odd, 2 something is held up until somebody acts, 3 it cannot be told.';
COMMENT ON COLUMN dbanon.health.about IS 'What it is about: runs or history.';
COMMENT ON COLUMN dbanon.health.what IS 'What is wrong.';
COMMENT ON COLUMN dbanon.health.since IS 'Since when, where that is known.';
COMMENT ON COLUMN dbanon.health.remedy IS 'What to do.';

COMMENT ON VIEW published.releases IS 'The releases that you may read. Each is a view in this schema, whose comment says more.';
COMMENT ON COLUMN published.releases.name IS 'The view in schema published.';
COMMENT ON COLUMN published.releases.method IS 'How it was made.';
COMMENT ON COLUMN published.releases.k IS 'The k of the promise; of one that grows, the least of its parts.';
COMMENT ON COLUMN published.releases.promise IS 'What holds for the people in it.';
COMMENT ON COLUMN published.releases.since IS 'Start of its first row.';
COMMENT ON COLUMN published.releases.until IS 'End of its last row, itself outside.';
COMMENT ON COLUMN published.releases.srid IS 'Coordinate system of its regions, in metres.';
COMMENT ON COLUMN published.releases.rows IS 'How many rows it has; never count rows for people.';
COMMENT ON COLUMN published.releases.holds IS 'What a row says of each of its people. instant: in the region at each instant of the period, by their last known position; some time: seen in the region at some time of the period, at least once.';
COMMENT ON COLUMN published.releases.step_s IS 'Seconds between two instants; null where it speaks of one moment, or holds at some time.';
COMMENT ON COLUMN published.releases.window_s IS 'After how many seconds a record ends and its people are in others; null where records do not end with windows.';
COMMENT ON COLUMN published.releases.day_zone IS 'The time zone at whose midnights a record ends and its person is in others; null where a record is all of a person, or of a window.';
COMMENT ON COLUMN published.releases.extent IS 'The box around all its regions: least x and y, greatest x and y.';

COMMENT ON COLUMN published.releases.parts IS 'How many parts it has (published.parts); more than 1 where it grows.';
COMMENT ON COLUMN published.releases.starts IS 'The start of the first row of each part, in ascending order. Records of two parts may be of the same people.';
COMMENT ON COLUMN published.releases.ends IS 'The end of the last row of each part, itself outside. Of the time between two parts the release says nothing.';

COMMENT ON VIEW published.parts IS 'The parts of the releases that you may read: each was computed for itself, and its promise holds in it. A release that does not grow has one.';
COMMENT ON COLUMN published.parts.name IS 'The release.';
COMMENT ON COLUMN published.parts.since IS 'Start of its first row.';
COMMENT ON COLUMN published.parts.until IS 'End of its last row, itself outside.';
COMMENT ON COLUMN published.parts.k IS 'The k of its promise.';
COMMENT ON COLUMN published.parts.rows IS 'How many rows it has; never count rows for people.';
COMMENT ON COLUMN published.parts.percent_left_out IS 'Of the people seen, how many percent are not in it, rounded up; null where these are fewer than k, or none.';

COMMENT ON VIEW published.columns IS 'What the columns of the releases that you may read mean.';
COMMENT ON COLUMN published.columns.name IS 'The release.';
COMMENT ON COLUMN published.columns.place IS 'Place of the column in the release, from 1.';
COMMENT ON COLUMN published.columns.column_name IS 'The column.';
COMMENT ON COLUMN published.columns.type IS 'Its type.';
COMMENT ON COLUMN published.columns.meaning IS 'What it holds.';

COMMENT ON VIEW published.left_out IS 'How many of the people seen are not in the releases that you may read, by hour. Hours with few people, left out or published, are joined with those after them; a release without a line left out fewer than its k, or none, or does not say when.';
COMMENT ON COLUMN published.left_out.name IS 'The release.';
COMMENT ON COLUMN published.left_out.since IS 'Start of the hour, or of the first of several.';
COMMENT ON COLUMN published.left_out.until IS 'End of the hour, or of the last of several.';
COMMENT ON COLUMN published.left_out.percent IS 'Of the people seen at moments or in windows that begin then, each counted once a window: how many percent are left out, rounded up.';

COMMENT ON VIEW published.atoms IS 'The atoms of the releases that you may read, of one that grows those of its last part: a region is made of whole ones, and tells nothing of the place within one. Figures are of when the release was published.';
COMMENT ON COLUMN published.atoms.name IS 'The release.';
COMMENT ON COLUMN published.atoms.atom IS 'The number of the atom.';
COMMENT ON COLUMN published.atoms.region IS 'The union of its cells.';
COMMENT ON COLUMN published.atoms.area_m2 IS 'Their area in square metres.';
COMMENT ON COLUMN published.atoms.categories IS 'How many categories of points of interest it has.';
COMMENT ON COLUMN published.atoms.pois IS 'How many points of interest it has.';

COMMENT ON TABLE dbanon.published_atom IS 'The atoms of releases as they were published: the rows of published.atoms.';
COMMENT ON COLUMN dbanon.published_atom.release_id IS 'The release.';
COMMENT ON COLUMN dbanon.published_atom.atom IS 'The number of the atom.';
COMMENT ON COLUMN dbanon.published_atom.region IS 'The union of its cells.';
COMMENT ON COLUMN dbanon.published_atom.area_m2 IS 'Their area in square metres.';
COMMENT ON COLUMN dbanon.published_atom.categories IS 'How many categories of points of interest it had then.';
COMMENT ON COLUMN dbanon.published_atom.pois IS 'How many points of interest it had then.';
COMMENT ON TABLE dbanon.published_cell IS 'Which cells each release ever published tells apart: it stays known to an adversary permanently.';
COMMENT ON COLUMN dbanon.published_cell.release_id IS 'The release.';
COMMENT ON COLUMN dbanon.published_cell.shape IS 'SHA-256 of the polygon of a cell with its SRID.';
COMMENT ON COLUMN dbanon.published_cell.atom IS 'The atom that the cell was in; null where the run had none.';
COMMENT ON COLUMN dbanon.published_cell.class IS 'A hash of the regions that hold it, equal for cells that no region of the release tells apart; null where none does.';
COMMENT ON TABLE dbanon.exposure IS 'When a release showed a person exactly; of a release that stands alone, when it spoke of the person.';
COMMENT ON COLUMN dbanon.exposure.release_id IS 'The release.';
COMMENT ON COLUMN dbanon.exposure.person IS 'The person''s code.';
COMMENT ON COLUMN dbanon.exposure.period IS 'The times.';
COMMENT ON TABLE dbanon.fix_code IS 'Hashes of some of the fixes of datasets, by which a copy under other names is recognised.';
COMMENT ON COLUMN dbanon.fix_code.dataset_id IS 'The dataset, which may have been dropped.';
COMMENT ON COLUMN dbanon.fix_code.person IS 'The person''s code.';
COMMENT ON COLUMN dbanon.fix_code.code IS 'A hash of three successive fixes with the installation''s key, kept where that of the middle one is 0 modulo 64; or of a fix of a trajectory that has fewer, kept where it is 0 modulo 8.';
COMMENT ON COLUMN dbanon.fix_code.trajectory_id IS 'The trajectory in which it was found first, which may have been deleted.';
COMMENT ON TABLE dbanon.grouping IS 'Who was hidden with whom in each release ever published: it stays known to an adversary permanently.';
COMMENT ON COLUMN dbanon.grouping.release_id IS 'The release.';
COMMENT ON COLUMN dbanon.grouping.period IS 'From when to when.';
COMMENT ON COLUMN dbanon.grouping.people IS 'The codes of the people of a group, in ascending order, each once; that of a forgotten one is random.';

COMMENT ON TABLE dbanon.audit IS 'Who did what and when, append-only; holds no subject and no coordinate.';
COMMENT ON COLUMN dbanon.audit.audit_id IS 'Key.';
COMMENT ON COLUMN dbanon.audit.at IS 'When.';
COMMENT ON COLUMN dbanon.audit.login IS 'Who.';
COMMENT ON COLUMN dbanon.audit.action IS 'What was done. To a dataset: create, regrid (or rename), settle (population or settle time), load, change (of rows of a table), drop_load, forget, forget_before, drop, delete; to a run: submit, cancel, reverify, verify, drop; to a release: publish, publish_refused, unpublish, end_readers, lose; to the database: confirm_history.';
COMMENT ON COLUMN dbanon.audit.dataset IS 'The dataset it was about; null for rows of a dataset that is being deleted.';
COMMENT ON COLUMN dbanon.audit.run_id IS 'The run it was about.';
COMMENT ON COLUMN dbanon.audit.release IS 'The release it was about.';
COMMENT ON COLUMN dbanon.audit.detail IS 'Figures and reasons, an object; of a change: table, statement, transaction and rows.';

COMMENT ON COLUMN dbanon.alembic_version.version_num IS 'The revision.';

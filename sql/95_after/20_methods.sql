-- The registry of methods: names, parameters and words, as the program knows them.

ALTER TABLE dbanon.method DISABLE TRIGGER guard_rows;

@methods@

ALTER TABLE dbanon.method ENABLE ALWAYS TRIGGER guard_rows;
UPDATE dbanon.installation SET methods_digest = dbanon_internal.compute_methods_digest();

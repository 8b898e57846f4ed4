-- Whose people may be the same: the population of a dataset, and how long a person may stay where a snapshot shows them.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_population_options(population text, settle_s numeric) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As dbanon_internal.demand_dataset_options does: what cannot be seen makes two names look like one.
    IF btrim(population) = '' OR length(population) > 200 OR population ~ dbanon_internal.build_hidden_pattern() THEN
        RAISE EXCEPTION 'A population must have a name of 1 to 200 visible characters. Got another.'
            USING ERRCODE = 'DA011', DETAIL = 'In all datasets of a population a name means the same person.',
                  HINT = 'Choose one such as fleet-b, or leave it out.';
    ELSIF NOT (settle_s BETWEEN 0 AND 604800 AND settle_s = trunc(settle_s)) THEN
        RAISE EXCEPTION 'The settle time must be a whole number of seconds from 0 to 604,800. Got %.', settle_s
            USING ERRCODE = 'DA011', DETAIL = 'Snapshots less than this apart are compared.',
                  HINT = 'Leave it out for settle_s => 900, or choose another.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_population_options IS 'Refuses what no population can be called and what is no settle time; NULL is neither given.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_or_add_population(population text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A row that the table refuses would be shown to the caller, with the key that was drawn for it.
    PERFORM dbanon_internal.demand_population_options(population, NULL);
    INSERT INTO dbanon.population AS p (name) SELECT population
        WHERE NOT EXISTS (SELECT FROM ONLY dbanon.population q WHERE q.name = population) ON CONFLICT (name) DO NOTHING;
    RETURN (SELECT p.population_id FROM ONLY dbanon.population p WHERE p.name = population);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_or_add_population IS
'Gives the key of a population, and adds the population when it is first named. Raises an error if no population can have that name.';

CREATE OR REPLACE FUNCTION dbanon_internal.set_people(dataset dbanon.dataset, asked dbanon_internal.loading) RETURNS dbanon.dataset
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- dbanon_internal.guard_people refuses what a release forbids, before anything is read.
    dataset.population_id := coalesce(dbanon_internal.find_or_add_population(asked.population), dataset.population_id);
    dataset.settle_s := coalesce(asked.settle_s, dataset.settle_s);
    UPDATE dbanon.dataset d SET population_id = dataset.population_id, settle_s = dataset.settle_s
        WHERE d.dataset_id = dataset.dataset_id AND (d.population_id, d.settle_s) <> (dataset.population_id, dataset.settle_s);
    RETURN dataset;
END
$$;
COMMENT ON FUNCTION dbanon_internal.set_people IS 'Gives a dataset that exists another population or settle time where they are named, and returns its row.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_naming(own_subjects boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN own_subjects THEN 'each row is a separate person' ELSE 'a column names them' END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_naming IS 'Words how the subjects of a dataset are named.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_settle_s(population_id bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- A dataset that was dropped has a row only where it has releases.
    SELECT max(d.settle_s) FROM ONLY dbanon.dataset d WHERE d.population_id = find_settle_s.population_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_settle_s IS
'How long the people of a population may stay where a snapshot shows them: the greatest settle time of its datasets.';

-- Who a name names. A column of whole numbers in which one is missing becomes floats in many programs: 219000101 and 219000101.0 are one person, but
-- not where a column has both. That is decided over all staged rows of a load, since files come in batches.

CREATE OR REPLACE FUNCTION dbanon_internal.list_name_forms(name text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN ARRAY[name] || CASE WHEN name ~ '^-?(0|[1-9][0-9]*)([.]0+)?$' THEN array_remove(
    ARRAY[split_part(name, '.', 1), split_part(name, '.', 1) || '.0', split_part(name, '.', 1) || '.00'], name) END;
COMMENT ON FUNCTION dbanon_internal.list_name_forms IS 'A name, and if it is a whole number the other forms in which a source may have it: 7, 7.0 and 7.00.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_known_names(population_id bigint, subjects text[]) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH dataset AS MATERIALIZED (
        SELECT dat.dataset_id FROM ONLY dbanon.dataset dat WHERE dat.population_id = find_known_names.population_id AND NOT dat.own_subjects
    ), named AS MATERIALIZED (
        SELECT ele.name, dbanon_internal.hash_person(pop.key, ele.name) AS code
        FROM ONLY dbanon.population pop CROSS JOIN unnest(subjects) ele (name) WHERE pop.population_id = find_known_names.population_id
    )
    SELECT ARRAY(
        -- Each by the index of trajectories; there is none of the people of requests.
        SELECT nam.name FROM named nam
        WHERE EXISTS (SELECT FROM dataset dat JOIN ONLY dbanon.trajectory tra USING (dataset_id) WHERE tra.subject = nam.name OFFSET 0)
        UNION
        SELECT nam.name FROM dataset dat JOIN ONLY dbanon.request req USING (dataset_id) JOIN named nam ON nam.name = req.subject
        UNION
        SELECT nam.name FROM dataset dat JOIN ONLY dbanon.quasi_identifier qid USING (dataset_id) JOIN named nam ON nam.name = qid.subject
        UNION
        -- Of people who were forgotten, and of datasets that were published and dropped, the codes are left.
        SELECT nam.name FROM ONLY dbanon.forgotten forg JOIN named nam USING (code) WHERE forg.population_id = find_known_names.population_id
        UNION
        SELECT nam.name FROM dataset dat JOIN ONLY dbanon.run run USING (dataset_id) JOIN ONLY dbanon.release rel USING (run_id)
        CROSS JOIN LATERAL (SELECT unnest(gro.people) AS code FROM ONLY dbanon.grouping gro WHERE gro.release_id = rel.release_id
                            UNION ALL
                            SELECT exp.person FROM ONLY dbanon.exposure exp WHERE exp.release_id = rel.release_id) stated JOIN named nam USING (code))
$$;
COMMENT ON FUNCTION dbanon_internal.find_known_names IS
'Those of some names that a population has in loaded or published rows, or among the people who were forgotten.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_population_of_load(asked dbanon_internal.loading) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT pop.population_id
    FROM dbanon.population pop LEFT JOIN dbanon.dataset dat ON dat.name = (asked).dataset AND dat.dropped_at IS NULL
    WHERE CASE WHEN (asked).population IS NULL AND dat.population_id IS NOT NULL THEN pop.population_id = dat.population_id
               ELSE pop.name = coalesce((asked).population, 'default') END
$$;
COMMENT ON FUNCTION dbanon_internal.find_population_of_load IS 'The population whose people a load brings; NULL if the load makes it.';

CREATE OR REPLACE FUNCTION dbanon_internal.settle_names(asked dbanon_internal.loading, relations text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    whole CONSTANT text := '^-?(0|[1-9][0-9]*)[.]0+$';
    population CONSTANT bigint := dbanon_internal.find_population_of_load(asked);
    rows CONSTANT text := (SELECT string_agg(format('SELECT subject FROM pg_temp.%I', ele.name), ' UNION ALL ') FROM unnest(relations) ele (name));
    mixed boolean;
    names text[];
    relation text;
BEGIN
    -- In most columns one of the first rows has another name; then only a person can be meant whom the population knows by the whole number.
    EXECUTE format('SELECT EXISTS (SELECT FROM (%s) s WHERE s.subject !~ $1 AND s.subject <> ALL ($2))', rows)
        INTO mixed USING whole, dbanon_internal.list_null_names(asked);
    IF asked.subject = '-' OR (mixed AND population IS NULL) THEN RETURN; END IF;
    EXECUTE format('SELECT ARRAY(SELECT DISTINCT s.subject FROM (%s) s WHERE s.subject LIKE ''%%.0%%'' AND s.subject ~ $1)', rows) INTO names USING whole;
    IF names = '{}' THEN RETURN; END IF;
    EXECUTE format(
        'SELECT ARRAY(SELECT ele.name FROM unnest($1) ele (name) WHERE ele.name <> ALL ($2) AND (NOT $3 OR (split_part(ele.name, ''.'', 1) = ANY ($2) '
        'AND split_part(ele.name, ''.'', 1) NOT IN (SELECT s.subject FROM (%s) s WHERE s.subject IS NOT NULL))))', rows)
        INTO names USING names, coalesce(dbanon_internal.find_known_names(population, names || ARRAY(
            SELECT split_part(ele.name, '.', 1) FROM unnest(names) ele (name))), '{}'),
            -- Whoever writes floats writes all with as many zeros.
            mixed OR (SELECT count(DISTINCT length(split_part(ele.name, '.', 2))) > 1 FROM unnest(names) ele (name));
    FOREACH relation IN ARRAY CASE names WHEN '{}' THEN '{}' ELSE relations END LOOP
        EXECUTE format('UPDATE pg_temp.%I s SET subject = split_part(s.subject, ''.'', 1) '
                       'WHERE s.subject IN (SELECT ele.name FROM unnest($1) ele (name))', relation) USING names;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.settle_names IS
'Makes staged names that are floats whole where all are, or where the population knows only the whole number and the source has nobody of that name.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_nobody(asked dbanon_internal.loading) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    UPDATE pg_temp.dbanon_rejected rej SET reason = 'missing-subject' WHERE rej.reason = 'nobody';
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM dbanon_internal.raise_notice(format(
            '%s one of the words that name no person (%s) and became missing-subject. If one of them is a name, list the others, such as '
            'nulls => ARRAY[''NULL'', ''nan''].', dbanon_internal.format_quantity(n, 'row has', 'rows have'),
            array_to_string(dbanon_internal.list_null_names(asked), ', ')));
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_nobody IS 'Counts the rows that were left out since a word for nobody stands for their name, and says so.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_rounded(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- 1.5E+1 has all of its digits, 1.5E+2 has not; the mark is looked for first, since patterns take longer.
RETURN name LIKE '%+%' AND name ~ '^[0-9]([.,][0-9]+)?[eE][+][0-9]{1,3}$'
    AND length(substring(name from '^[0-9][.,]?([0-9]*)')) < substring(name from '[+]([0-9]+)$')::integer;
COMMENT ON FUNCTION dbanon_internal.is_rounded IS 'Says whether a name is a number with an exponent, which a spreadsheet has rounded.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_rounding(there boolean, kept bigint, first_time timestamptz, last_time timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.raise_notice(CASE WHEN there THEN 'Names such as 9.99E+99 have lost digits: several people may be one. Write the '
        'column as text where it comes from, and load it again.' END);
    PERFORM dbanon_internal.raise_notice(CASE WHEN kept > 1 AND first_time = last_time THEN format('All %s that were kept are of one instant. If they '
        'are not, the column of times is another, or its times have lost digits.', dbanon_internal.format_quantity(kept, 'row')) END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_rounding IS 'Says that names were rounded, and that all rows kept have one time.';

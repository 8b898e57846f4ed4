-- Who a name names: words for nobody, one person in two spellings of a number, and numbers of which digits are gone.
--
-- A column of whole numbers in which one is missing becomes floats in many programs: 219000101 and 219000101.0 are one person, but not where a
-- column has both. That is decided over all staged rows of a load, since files come in batches.

CREATE OR REPLACE FUNCTION dbanon_internal.list_null_names(asked dbanon_internal.loading) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT CASE WHEN (asked).subject = '-' THEN '{}' WHEN (asked).nulls IS NULL THEN ARRAY['NA', 'N/A', 'NULL', 'nan', 'None', '\N']
        ELSE ARRAY(SELECT normalize(btrim(ele.name), NFC) FROM unnest((asked).nulls) ele (name) WHERE btrim(ele.name) <> '') END
$$;
COMMENT ON FUNCTION dbanon_internal.list_null_names(dbanon_internal.loading) IS
'The texts that a load takes for nobody where a name should be, beside the empty text.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_name_forms(name text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY[name] || CASE WHEN name ~ '^-?(0|[1-9][0-9]*)([.]0+)?$'
        THEN array_remove(ARRAY[split_part(name, '.', 1), split_part(name, '.', 1) || '.0', split_part(name, '.', 1) || '.00'], name) ELSE '{}' END
$$;
COMMENT ON FUNCTION dbanon_internal.list_name_forms(text) IS
'A name, and if it is a whole number the other forms in which a source may have it: 7, 7.0 and 7.00.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_known_names(population_id bigint, subjects text[]) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    WITH dataset AS MATERIALIZED (
        SELECT dat.dataset_id, dat.own_subjects FROM ONLY dbanon.dataset dat WHERE dat.population_id = find_known_names.population_id
    ), named AS (
        SELECT ele.name FROM unnest(subjects) ele (name)
        -- Each by the index of trajectories; requests of a person have none.
        WHERE EXISTS (SELECT FROM dataset dat JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = dat.dataset_id
                      WHERE NOT dat.own_subjects AND tra.subject = ele.name OFFSET 0)
        UNION ALL
        SELECT req.subject FROM ONLY dbanon.request req
        WHERE req.subject IN (SELECT unnest(subjects)) AND req.dataset_id IN (SELECT dat.dataset_id FROM dataset dat)
        UNION ALL
        SELECT qid.subject FROM ONLY dbanon.quasi_identifier qid
        WHERE qid.subject IN (SELECT unnest(subjects)) AND qid.dataset_id IN (SELECT dat.dataset_id FROM dataset dat)
    ), code AS MATERIALIZED (
        -- Of people who were forgotten, and of datasets that were published and dropped, the codes are left.
        SELECT forg.code FROM ONLY dbanon.forgotten forg WHERE forg.population_id = find_known_names.population_id
        UNION ALL
        SELECT said.person
        FROM dataset dat JOIN ONLY dbanon.run run ON run.dataset_id = dat.dataset_id JOIN ONLY dbanon.release rel ON rel.run_id = run.run_id
        CROSS JOIN LATERAL (SELECT unnest(gro.people) AS person FROM ONLY dbanon.grouping gro WHERE gro.release_id = rel.release_id
                            UNION ALL
                            SELECT exp.person FROM ONLY dbanon.exposure exp WHERE exp.release_id = rel.release_id) said
        WHERE NOT dat.own_subjects
    )
    SELECT ARRAY(
        SELECT named.name FROM named
        UNION
        SELECT ele.name FROM ONLY dbanon.population pop CROSS JOIN unnest(subjects) ele (name)
        WHERE pop.population_id = find_known_names.population_id
            AND dbanon_internal.hash_person(pop.key, ele.name) IN (SELECT code.code FROM code))
$$;
COMMENT ON FUNCTION dbanon_internal.find_known_names(bigint, text[]) IS
'Those of some names that a population has in loaded or published rows, or among the people who were forgotten.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_population_of_load(asked dbanon_internal.loading) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pop.population_id
    FROM dbanon.population pop LEFT JOIN dbanon.dataset dat ON dat.name = (asked).dataset AND dat.dropped_at IS NULL
    WHERE CASE WHEN (asked).population IS NULL AND dat.population_id IS NOT NULL THEN pop.population_id = dat.population_id
               ELSE pop.name = coalesce((asked).population, 'default') END
$$;
COMMENT ON FUNCTION dbanon_internal.find_population_of_load(dbanon_internal.loading) IS
'The population whose people a load brings; NULL if the load makes it.';

CREATE OR REPLACE FUNCTION dbanon_internal.settle_names(asked dbanon_internal.loading, relations text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    whole CONSTANT text := '^-?(0|[1-9][0-9]*)[.]0+$';
    nobody CONSTANT text[] := dbanon_internal.list_null_names(asked);
    population CONSTANT bigint := dbanon_internal.find_population_of_load(asked);
    rows CONSTANT text := (SELECT string_agg(format('SELECT subject FROM pg_temp.%I', ele.name), ' UNION ALL ') FROM unnest(relations) ele (name));
    mixed boolean;
    there boolean;
    known text[];
    names text[];
    relation text;
BEGIN
    IF asked.subject = '-' THEN
        RETURN;
    END IF;
    -- In most columns one of the first rows has another name; then only what the population knows by its whole number can be meant.
    EXECUTE format('SELECT EXISTS (SELECT FROM (%s) s WHERE s.subject !~ $1 AND s.subject <> ALL ($2))', rows) INTO mixed USING whole, nobody;
    IF mixed THEN
        EXECUTE format('SELECT $1 IS NOT NULL AND EXISTS (SELECT FROM (%s) s WHERE s.subject LIKE ''%%.0'')', rows) INTO there USING population;
        IF NOT there THEN
            RETURN;
        END IF;
    END IF;
    EXECUTE format('SELECT ARRAY(SELECT DISTINCT s.subject FROM (%s) s WHERE s.subject ~ $1)', rows) INTO names USING whole;
    known := dbanon_internal.find_known_names(population, names || ARRAY(SELECT split_part(ele.name, '.', 1) FROM unnest(names) ele (name)));
    -- Where floats are written with one or more zeros, all have as many.
    IF NOT mixed THEN
        mixed := (SELECT count(DISTINCT length(split_part(ele.name, '.', 2))) > 1 FROM unnest(names) ele (name));
    END IF;
    EXECUTE format(
        'SELECT ARRAY(SELECT ele.name FROM unnest($1) ele (name) WHERE ele.name <> ALL ($2) AND (NOT $3 OR (split_part(ele.name, ''.'', 1) = ANY ($2) '
        'AND split_part(ele.name, ''.'', 1) NOT IN (SELECT s.subject FROM (%s) s WHERE s.subject IS NOT NULL))))', rows)
        INTO names USING names, coalesce(known, '{}'), mixed;
    IF names <> '{}' THEN
        FOREACH relation IN ARRAY relations LOOP
            EXECUTE format('UPDATE pg_temp.%I s SET subject = split_part(s.subject, ''.'', 1) '
                           'WHERE s.subject IN (SELECT ele.name FROM unnest($1) ele (name))', relation) USING names;
        END LOOP;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.settle_names(dbanon_internal.loading, text[]) IS
'Makes floats among the staged names whole where all names are such, and where the population knows the person by the whole number and the source has
nobody of that name. A name that the population knows stays as it is.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_nobody(asked dbanon_internal.loading) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    n bigint;
BEGIN
    UPDATE pg_temp.dbanon_rejected rej SET reason = 'missing-subject' WHERE rej.reason = 'nobody';
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM dbanon_internal.raise_notice(format(
            '%s a word for nobody (%s) where a name should be, and became missing-subject. If one of these words is a name, list the others, such as '
            'nulls => ARRAY[''NULL'', ''nan''].', dbanon_internal.format_quantity(n, 'row has', 'rows have'),
            array_to_string(dbanon_internal.list_null_names(asked), ', ')));
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_nobody(dbanon_internal.loading) IS
'Counts the rows that were left out since a word for nobody stands for their name, and says so.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_lost_digits(relation text, load_id bigint DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    there boolean;
BEGIN
    -- 1.5E+1 has all of its digits, 1.5E+2 has not; the mark is looked for first, since patterns take longer.
    EXECUTE format('SELECT EXISTS (SELECT FROM %s s WHERE %s s.subject LIKE ''%%+%%'' AND s.subject ~ ''^[0-9]([.,][0-9]+)?[eE][+][0-9]{1,3}$'' '
                   'AND length(substring(s.subject from ''^[0-9][.,]?([0-9]*)'')) < substring(s.subject from ''[+]([0-9]+)$'')::integer)',
                   relation, CASE WHEN load_id IS NOT NULL THEN format('s.load_id = %s AND', load_id) END) INTO there;
    RETURN CASE WHEN there THEN 'Names such as 9.99E+99 have lost digits: several people may be one. Write the column as text where it comes from, '
                                'and load it again.' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_lost_digits(text, bigint) IS
'Words that names are numbers with an exponent, which a spreadsheet has rounded.';

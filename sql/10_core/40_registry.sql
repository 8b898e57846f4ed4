-- Methods, algorithms and parameters, checked with the sentences of the registry, from which upgrades fill dbanon.method.
--
-- What a value means and how an error shows it is decided twice, here and in dbanon/methods/parsing.py; a test holds the two
-- against each other. Session settings play no part in it.

CREATE OR REPLACE FUNCTION dbanon_internal.choose_one(known text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('Choose one of: %s%s.', string_agg('''' || k.name || '''', ', ' ORDER BY k.place),
                  CASE WHEN cardinality(known) > 20 THEN format(' and %s more', cardinality(known) - 20) END)
    FROM (SELECT u.name, row_number() OVER (ORDER BY u.name COLLATE "C") AS place FROM unnest(known) u (name)) k
    WHERE k.place <= 20
    HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.choose_one IS 'The sentence that lists what could have been named, or NULL if there is nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.format_count(n bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT btrim(to_char(n, '999,999,999,999,999,990'))
$$;
COMMENT ON FUNCTION dbanon_internal.format_count IS 'Writes a count with a comma at each thousand.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_some(names text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_to_string(names[:3], ', ') || CASE WHEN cardinality(names) > 3 THEN format(' and %s more', cardinality(names) - 3) ELSE '' END
$$;
COMMENT ON FUNCTION dbanon_internal.name_some IS 'Lists the first three names, and says how many more there are.';

CREATE OR REPLACE FUNCTION dbanon_internal.format_quantity(n bigint, one text, many text DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s %s', dbanon_internal.format_count(n), CASE n WHEN 1 THEN one ELSE coalesce(many, one || 's') END)
$$;
COMMENT ON FUNCTION dbanon_internal.format_quantity IS
'Writes a count and what is counted, as 1 row or 1,200 rows; many is for what takes no s, and for verbs: 1 person is, 2 people are.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_hidden_pattern() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT E'[\u0001-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]'
$$;
COMMENT ON FUNCTION dbanon_internal.build_hidden_pattern IS
'The characters no name may have, as a regular expression: a reader cannot see them, so that two names would look like one.';

CREATE OR REPLACE FUNCTION dbanon_internal.quote_text(content text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT '''' || CASE WHEN length(t) <= 60 THEN t ELSE left(t, 57) || '...' END || ''''
    FROM regexp_replace(content COLLATE "C", dbanon_internal.build_hidden_pattern(), '?', 'g') t
$$;
COMMENT ON FUNCTION dbanon_internal.quote_text IS 'A text as an error shows it: in quotes, hidden characters as question marks, at most 60 characters of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.strip_text(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'string' THEN btrim(value #>> '{}', E' \t\r\n') ELSE '' END COLLATE "C"
$$;
COMMENT ON FUNCTION dbanon_internal.strip_text IS 'A JSON text without blanks around it.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_number(content text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT length(content) <= 60
        AND content COLLATE "C" ~ '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$'
$$;
COMMENT ON FUNCTION dbanon_internal.is_number IS 'Whether a text is a number as people write it: digits, perhaps with sign, point and exponent.';

CREATE OR REPLACE FUNCTION dbanon_internal.format_value(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE jsonb_typeof(value)
        WHEN 'array' THEN 'a list'
        WHEN 'object' THEN 'an object'
        WHEN 'string' THEN CASE WHEN dbanon_internal.is_number(dbanon_internal.strip_text(value)) THEN dbanon_internal.strip_text(value)
                                ELSE dbanon_internal.quote_text(value #>> '{}') END
        WHEN 'number' THEN (SELECT CASE WHEN length(t) <= 60 THEN t ELSE left(t, 57) || '...' END
                            FROM CAST(trim_scale((value #>> '{}')::numeric) AS text) t)
        ELSE value #>> '{}'
    END
$$;
COMMENT ON FUNCTION dbanon_internal.format_value IS
'A value as an error shows it: as it was given, texts that are no numbers in quotes, at most 60 characters of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.parse_number(value jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Between the limits every number has a float64, with which the methods work.
    SELECT CASE WHEN v.number = 0 OR abs(v.number) BETWEEN 1e-300 AND 1e300 THEN v.number END
    FROM (SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::numeric
                      WHEN dbanon_internal.is_number(dbanon_internal.strip_text(value)) THEN dbanon_internal.strip_text(value)::numeric
                 END) v (number)
$$;
COMMENT ON FUNCTION dbanon_internal.parse_number IS 'A JSON number, or a text that is one.';

CREATE OR REPLACE FUNCTION dbanon_internal.parse_instant(value jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    seconds numeric := dbanon_internal.parse_number(value);
    part text[];
    first_of_month date;
BEGIN
    IF seconds IS NULL THEN
        part := regexp_match(dbanon_internal.strip_text(value) COLLATE "C",
            '^([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.0{1,6})?)?'
            '(?:Z|([+-](?:[01][0-9]|2[0-3]))(?::?([0-5][0-9]))?)$');
        IF part IS NULL OR part[1]::integer = 0 OR part[2]::integer NOT BETWEEN 1 AND 12 THEN
            RETURN NULL;
        END IF;
        first_of_month := make_date(part[1]::integer, part[2]::integer, 1);
        IF part[3]::integer NOT BETWEEN 1 AND extract(day FROM first_of_month + interval '1 month -1 day') THEN
            RETURN NULL;
        END IF;
        seconds := 86400 * (first_of_month - date '1970-01-01' + part[3]::integer - 1)::bigint
            + 3600 * part[4]::integer + 60 * part[5]::integer + coalesce(part[6]::integer, 0)
            - coalesce(3600 * part[7]::integer + concat(left(part[7], 1), 60 * coalesce(part[8], '0')::integer)::integer, 0);
    END IF;
    RETURN CASE WHEN seconds = trunc(seconds) AND abs(seconds) <= 1e11 THEN seconds END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.parse_instant IS 'An instant in whole seconds: unix seconds, or ISO 8601 with a zone.';

CREATE OR REPLACE FUNCTION dbanon_internal.parse_parameter(about jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
SET standard_conforming_strings = on
AS $$
DECLARE
    kind text := about ->> 'type';
    word text := dbanon_internal.strip_text(value);
    number numeric;
BEGIN
    IF kind = 'switch' THEN
        RETURN CASE WHEN jsonb_typeof(value) = 'boolean' THEN value
                    WHEN lower(word COLLATE "C") IN ('on', 'true', 'yes') THEN 'true'
                    WHEN lower(word COLLATE "C") IN ('off', 'false', 'no') THEN 'false' END;
    ELSIF kind = 'choice' THEN
        RETURN CASE WHEN jsonb_typeof(value) = 'string' AND about -> 'choices' ? (value #>> '{}') THEN value END;
    ELSIF kind = 'instant' THEN
        RETURN to_jsonb(dbanon_internal.parse_instant(value));
    ELSIF kind = 'name' THEN
        RETURN CASE WHEN jsonb_typeof(value) = 'string' AND value #>> '{}' = word AND length(word) BETWEEN 1 AND 60
                         AND word COLLATE "C" !~ dbanon_internal.build_hidden_pattern() THEN value END;
    END IF;
    IF (about ->> 'infinite')::boolean AND lower(word COLLATE "C") IN ('inf', 'infinity') THEN
        RETURN '"inf"';
    END IF;
    number := dbanon_internal.parse_number(value);
    IF number IS NULL OR number < (about ->> 'minimum')::numeric OR number > (about ->> 'maximum')::numeric THEN
        RETURN NULL;
    ELSIF kind = 'number' THEN
        RETURN to_jsonb(number::double precision);
    END IF;
    RETURN CASE WHEN number = trunc(number) THEN to_jsonb(trunc(number)) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.parse_parameter IS 'A value as a parameter holds it.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_name(what text, name text, known text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'There is no % named %.', what, coalesce(dbanon_internal.quote_text(name), 'NULL')
        USING ERRCODE = 'DA011', DETAIL = format('There are %s.', cardinality(known)),
              HINT = dbanon_internal.choose_one(known);
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_name IS 'Refuses a name that is none of those known, naming those.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_algorithm(method text, algorithm text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known text[];
BEGIN
    SELECT ARRAY(SELECT ele.value ->> 'name' FROM jsonb_array_elements(met.algorithms) WITH ORDINALITY ele (value, ord) ORDER BY ele.ord)
        INTO known FROM ONLY dbanon.method met WHERE met.name = demand_algorithm.method;
    IF known IS NULL THEN
        PERFORM dbanon_internal.refuse_name('method', method, ARRAY(SELECT met.name FROM ONLY dbanon.method met));
    ELSIF algorithm <> ALL (known) THEN
        PERFORM dbanon_internal.refuse_name('algorithm of ' || method, algorithm, known);
    END IF;
    RETURN coalesce(algorithm, known[1]);
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_algorithm IS 'Finds an algorithm of a method.';

CREATE OR REPLACE FUNCTION dbanon_internal.parse_value(method text, about jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    converted jsonb;
BEGIN
    -- Left out, or "derived from the data", which the parameters of a run say in JSON.
    IF value IS NULL OR (value = 'null' AND about -> 'default' = 'null') THEN
        RETURN about -> 'default';
    END IF;
    converted := dbanon_internal.parse_parameter(about, value);
    IF converted IS NULL THEN
        RAISE EXCEPTION 'The ''%'' parameter of % must be %. Got % instead.', about ->> 'name', method,
                about ->> 'requirement', coalesce(dbanon_internal.format_value(value), 'null')
            USING ERRCODE = 'DA011', DETAIL = format('%s Default: %s.', about ->> 'help', about ->> 'default_text');
    END IF;
    RETURN converted;
END
$$;
COMMENT ON FUNCTION dbanon_internal.parse_value IS 'Gives the value of one parameter in its type; raises an error if it cannot be one.';

CREATE OR REPLACE FUNCTION dbanon_internal.complete_params(method text, algorithm text, params jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chosen text := dbanon_internal.demand_algorithm(method, algorithm);
    given jsonb := coalesce(params, '{}');
    items jsonb := (SELECT met.parameters FROM ONLY dbanon.method met WHERE met.name = complete_params.method);
    known text[] := ARRAY(SELECT ele.value ->> 'name' FROM jsonb_array_elements(items) ele);
    unknown text;
    item jsonb;
    unit text;
    checked jsonb := '{}';
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        RAISE EXCEPTION 'The parameters must be an object of names and values. Got % instead.',
                coalesce(dbanon_internal.format_value(given), 'null')
            USING ERRCODE = 'DA011', DETAIL = format('%s has %s.', method, dbanon_internal.format_quantity(cardinality(known), 'parameter')),
                  HINT = 'Write them as in ''{"k": 20}''.';
    END IF;
    -- Of several faults the same one is reported, in whatever order they are given: JSON keeps none.
    unknown := (SELECT min(word COLLATE "C") FROM jsonb_object_keys(given) word WHERE word <> ALL (known));
    IF unknown IS NOT NULL THEN
        PERFORM dbanon_internal.refuse_name('parameter of ' || method, unknown, known);
    END IF;
    FOR item IN SELECT ele.value FROM jsonb_array_elements(items) WITH ORDINALITY ele (value, ord) ORDER BY ele.ord LOOP
        checked := checked || jsonb_build_object(
            item ->> 'name', dbanon_internal.parse_value(method, item, given -> (item ->> 'name')));
    END LOOP;
    FOR item IN SELECT ele.value FROM jsonb_array_elements(items) WITH ORDINALITY ele (value, ord) ORDER BY ele.ord LOOP
        IF item -> 'algorithms' <> '[]' AND NOT item -> 'algorithms' ? chosen
            AND checked -> (item ->> 'name') <> item -> 'default' THEN
            RAISE EXCEPTION 'The ''%'' parameter of % must go with %. Got it for %. Leave it out.', item ->> 'name', method,
                    (SELECT string_agg(ele.value, ' or ' ORDER BY ele.ord)
                     FROM jsonb_array_elements_text(item -> 'algorithms') WITH ORDINALITY ele (value, ord)), chosen
                USING ERRCODE = 'DA011', DETAIL = format('%s Default: %s.', item ->> 'help', item ->> 'default_text');
        END IF;
        unit := CASE WHEN item -> 'algorithms' = '[]' OR item -> 'algorithms' ? chosen THEN item ->> 'multiple_of' END;
        CONTINUE WHEN unit IS NULL;
        IF mod((checked ->> (item ->> 'name'))::numeric, (checked ->> unit)::numeric) <> 0 THEN
            RAISE EXCEPTION 'The ''%'' parameter of % must be a multiple of %, %. Got % instead.', item ->> 'name', method, unit,
                    checked ->> unit, checked ->> (item ->> 'name')
                USING ERRCODE = 'DA011', DETAIL = format('%s Default: %s.', item ->> 'help', item ->> 'default_text');
        END IF;
    END LOOP;
    RETURN checked;
END
$$;
COMMENT ON FUNCTION dbanon_internal.complete_params IS
'Gives the parameters of a run, with the defaults of dbanon.method filled in; raises an error if one cannot be so, as far as that needs no data.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_role(role text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT '@prefix@_' || role
$$;
COMMENT ON FUNCTION dbanon_internal.name_role IS 'What a role is called in this database: roles belong to the server, so names are chosen for each database.';

CREATE OR REPLACE FUNCTION dbanon.version() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('dbanon %s, schema %s, PostgreSQL %s, PostGIS %s', @version_text@,
                  (SELECT max(v.version_num) FROM dbanon.alembic_version v),
                  split_part(current_setting('server_version'), ' ', 1), @postgis@.postgis_lib_version())
$$;
COMMENT ON FUNCTION dbanon.version IS
'Names the installed versions: the program that last upgraded the schema, the revision of the schema, the server and PostGIS.
Arguments: none.
Returns: the versions, as one text.
Raises: nothing.
Example: SELECT dbanon.version().';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_methods_digest() RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(convert_to(string_agg(met::text, '' ORDER BY met.name COLLATE "C"), 'UTF8')) FROM ONLY dbanon.method met
$$;
COMMENT ON FUNCTION dbanon_internal.compute_methods_digest IS 'SHA-256 over all that dbanon.method has now.';

CREATE OR REPLACE FUNCTION dbanon_internal.has_own_methods() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ins.methods_digest IS NOT DISTINCT FROM dbanon_internal.compute_methods_digest() FROM ONLY dbanon.installation ins
$$;
COMMENT ON FUNCTION dbanon_internal.has_own_methods IS 'Whether dbanon.method is as the last upgrade wrote it.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_methods() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- To the server's log: a line of the audit would go with the transaction that the error ends.
    RAISE LOG 'dbanon: % was refused % on dbanon.method', session_user, TG_OP;
    RAISE EXCEPTION 'Table dbanon.method must be written by upgrades alone. Got % on it.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = 'It says which runs are compared with one another, and by what.',
              HINT = 'Install another version of dbanon, and upgrade the database.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_methods IS
'Refuses every change of dbanon.method, for which upgrades switch the trigger off, and writes the login into the server''s log.';

CREATE OR REPLACE FUNCTION dbanon_internal.stands_alone(method text, algorithm text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- What the registry does not say is taken for the stricter.
    RETURN coalesce((SELECT (a.value ->> 'stands_alone')::boolean
                     FROM ONLY dbanon.method m CROSS JOIN LATERAL jsonb_array_elements(m.algorithms) a
                     WHERE m.name = stands_alone.method AND a.value ->> 'name' = stands_alone.algorithm), true);
END
$$;
COMMENT ON FUNCTION dbanon_internal.stands_alone IS
'Whether no other release may speak of the people of such a release: its hiding sets overlap, or it promises more than k.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_window_s(method text, algorithm text, params jsonb) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT (params ->> (alg.value ->> 'window'))::integer
    FROM ONLY dbanon.method met CROSS JOIN LATERAL jsonb_array_elements(met.algorithms) alg
    WHERE met.name = find_window_s.method AND alg.value ->> 'name' = find_window_s.algorithm
$$;
COMMENT ON FUNCTION dbanon_internal.find_window_s IS
'At which multiples of seconds since 1970 the records of a run with such parameters end; NULL where they do not.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_method_reach(traits jsonb, params jsonb, settle_s integer) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT make_interval(secs => CASE WHEN traits ->> 'instant' IS NULL THEN 0
                                      ELSE greatest(settle_s, (params ->> (traits ->> 'oldest'))::double precision) END)
$$;
COMMENT ON FUNCTION dbanon_internal.compute_method_reach IS
'How far from a snapshot other releases are compared with it: the greater of the age that a shown position may have and the settle time of
the population; 0 for a method that is no snapshot.';

-- How times are read. dbanon/base/times.py says which texts mean one instant, and dbanon/load/_parse.py reads those of files by the same rules. It
-- has the numbers that are no times, too: from @last_s@ on, out of range; and @skipped_s@, of an hour that clocks left out.

-- ---- what is asked

CREATE OR REPLACE FUNCTION dbanon_internal.list_time_forms(time_format text) RETURNS TABLE (form text, iso text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    month CONSTANT text := '(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*';
    piece record;
    place integer := 0;
    places jsonb := '{}';
    bad boolean := false;
BEGIN
    form := '(?i)^';
    FOR piece IN
        SELECT coalesce(known.pattern, CASE WHEN hit.part[1] IS NULL THEN regexp_replace(
                regexp_replace(hit.part[2], '[].*+?(){}|^$\\/[-]', '\\\&', 'g'), '\s+', ' +', 'g') END) AS pattern, known.means, known.letter
        FROM regexp_matches(time_format, '%(.?)|([^%]+)', 'g') WITH ORDINALITY hit (part, nth)
        LEFT JOIN (VALUES ('Y', 'Y', '([0-9]{4})'), ('y', 'Y', '([0-9]{2})'), ('m', 'm', '(1[0-2]|0?[1-9])'), ('b', 'm', month), ('B', 'm', month),
                          ('d', 'd', '(3[01]|[12][0-9]|0?[1-9])'), ('H', 'H', '(2[0-3]|[01]?[0-9])'), ('I', 'H', '(1[0-2]|0?[1-9])'),
                          ('M', 'M', '([0-5][0-9])'), ('S', 'S', '([0-5][0-9])'), ('f', 'f', '([0-9]{1,6})[0-9]{0,3}'), ('p', 'p', '([ap])\.?m\.?'),
                          ('z', 'z', '(z|[+-][0-9]{2}:?[0-9]{2})'), ('a', '', '[a-z]+'), ('A', '', '[a-z]+'), ('%', '', '%')
            ) known (letter, means, pattern) ON known.letter = hit.part[1]
        ORDER BY hit.nth
    LOOP
        bad := bad OR piece.pattern IS NULL OR places ? piece.means;
        form := form || coalesce(piece.pattern, '');
        IF piece.means <> '' THEN
            place := place + 1;
            places := places || jsonb_build_object(piece.means, '\' || place, piece.letter, '\' || place);
        END IF;
    END LOOP;
    form := form || '$';
    IF bad OR NOT places ?& ARRAY['Y', 'm', 'd'] OR (places ? 'M' AND NOT places ? 'H') OR (places ? 'S' AND NOT places ? 'M')
        OR (places ? 'f' AND NOT places ? 'S') OR (places ? 'I') <> (places ? 'p') THEN
        RAISE EXCEPTION 'time_format must have a year, a month and a day, each once, and a clock without gaps, in letters of strptime. Got %.',
                dbanon_internal.quote_text(time_format)
            USING ERRCODE = 'DA011',
                  DETAIL = 'Letters are %Y %y %m %b %B %d %H %M %S %f %z, %I with %p, and %a and %A, which are not looked at.',
                  HINT = 'Write it like time_format => ''%d/%m/%Y %H:%M:%S''.';
    END IF;
    iso := format('-%s-%s %s:%s%s%s%s%s', places ->> 'm', places ->> 'd', coalesce(places ->> 'H', '00'), coalesce(places ->> 'M', '00'),
                  ':' || (places ->> 'S'), '.' || (places ->> 'f'), (places ->> 'p') || 'M', ' ' || (places ->> 'z'));
    IF places ? 'y' THEN  -- as strptime has it
        RETURN QUERY SELECT replace(form, '([0-9]{2})', '(' || cen.years || ')'), cen.tury || (places ->> 'Y') || iso
            FROM (VALUES ('20', '[0-5][0-9]|6[0-8]'), ('19', '69|[7-9][0-9]')) cen (tury, years);
        RETURN;
    END IF;
    iso := (places ->> 'Y') || iso;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_time_forms IS
'Lists the patterns one of which a time in a format matches, and what makes ISO 8601 of it. Raises an error if the format leaves a part of a time
open.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_local_time(what text) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'Times must name their zone, or come with one for all of them. %.', what
        USING ERRCODE = 'DA011', DETAIL = 'Without a zone a time of day is not a time.', HINT = 'Give the zone, for example tz => ''UTC''.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_local_time IS 'Refuses a time without a zone where none is given.';

-- ---- numbers

CREATE OR REPLACE FUNCTION dbanon_internal.is_text(kind text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT kind ~ '^(text|character|character varying|name|(.*\.)?citext)$'
$$;
COMMENT ON FUNCTION dbanon_internal.is_text IS 'Says whether a type is one of texts.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_number(word text) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN word ~ '^\s*[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?\s*$' THEN dbanon_internal.read_numeric(word::numeric) END;
COMMENT ON FUNCTION dbanon_internal.read_number IS 'A text of a number as a double; NULL where it is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_number(argument text, kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(CASE kind WHEN 'numeric' THEN 'dbanon_internal.read_numeric(%s)' ELSE '%s::float8' END, argument)
    WHERE kind IN ('smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision')
$$;
COMMENT ON FUNCTION dbanon_internal.build_number IS 'Writes what reads a number of some type as a double; NULL where the type is none of numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_units(
    chosen text, qualified text, kind text, asked dbanon_internal.loading, loaded text, source_label text) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number CONSTANT text := CASE WHEN dbanon_internal.is_text(kind) THEN 'dbanon_internal.read_number(raw_time::text)'
        ELSE dbanon_internal.build_number('raw_time', kind) END;
    typical double precision;
    units_per_s double precision;
BEGIN
    -- Where what is new is looked for, the last load of the source has said what its numbers are.
    SELECT load.units_per_s INTO units_per_s FROM dbanon.load load JOIN dbanon.dataset dat USING (dataset_id)
        WHERE asked.mode = 'new' AND dat.name = asked.dataset AND dat.dropped_at IS NULL AND load.kind = loaded AND load.source = source_label
            AND load.units_per_s IS NOT NULL ORDER BY load.load_id DESC LIMIT 1;
    IF number IS NULL OR asked.time_format IS NOT NULL THEN
        RETURN NULL;
    ELSIF asked.time_unit IS NOT NULL THEN
        RETURN CASE asked.time_unit WHEN 's' THEN 1 WHEN 'ms' THEN 1e3 WHEN 'us' THEN 1e6 WHEN 'ns' THEN 1e9 ELSE 1 / 86400.0::float8 END;
    ELSIF units_per_s IS NOT NULL THEN
        RETURN units_per_s;
    END IF;
    -- Of texts that are rarely numbers those decide nothing.
    typical := coalesce(dbanon_internal.ask_source(format(
        'SELECT CASE WHEN 2 * count(t) >= count(raw_time) THEN percentile_disc(0.5) WITHIN GROUP (ORDER BY abs(t)) FILTER (WHERE abs(t) < ''Infinity'') END '
        'FROM (SELECT raw_time, %s AS t FROM (SELECT %I AS raw_time FROM %s LIMIT 100000) r OFFSET 0) s', number, asked.time_column, chosen), qualified),
        @earliest_s@);
    units_per_s := CASE WHEN typical < 1e11 THEN 1 WHEN typical < 1e14 THEN 1e3 WHEN typical < 1e17 THEN 1e6 ELSE 1e9 END;
    IF typical / units_per_s < @earliest_s@ OR typical / units_per_s >= @latest_s@ THEN
        RAISE EXCEPTION 'Times that are numbers must be unix times in seconds, ms, µs or ns, from 1990 to 2100. Got numbers of another time.'
            USING ERRCODE = 'DA012', DETAIL = format('Column ''%s''.', asked.time_column),
                  HINT = (SELECT format('If they are %s, give %s.', odd.means, odd.remedy)
                          FROM (VALUES @odd_numbers@) odd (low, high, means, remedy)
                          WHERE typical BETWEEN odd.low AND odd.high ORDER BY odd.low DESC LIMIT 1);
    END IF;
    RETURN units_per_s;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_units IS
'How many of the numbers are a second of a source, which loads of a kind call by a name: as asked, else as in the last of these loads, else the median
of the first of them decides; NULL where times are no numbers. Raises an error if that would place times before 1990 or after 2100.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_seconds(number double precision, units_per_s double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN units_per_s < 1 THEN round((number - 25569) * 8640000) / 100 ELSE number / units_per_s END;
COMMENT ON FUNCTION dbanon_internal.count_seconds IS
'A time that is a number of some unit as unix seconds; less than one unit a second are days since 1899-12-30.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_counted(number double precision, units_per_s double precision, unit_given boolean) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- What is out of bounds was counted in another unit, or is no time.
RETURN CASE WHEN NOT unit_given AND (abs(number) < @earliest_s@ * units_per_s + CASE WHEN units_per_s < 1 THEN 25569 ELSE 0 END
        OR abs(number) >= @latest_s@ * units_per_s + CASE WHEN units_per_s < 1 THEN 25569 ELSE 0 END AND abs(number) < 'Infinity') THEN @last_s@
    ELSE dbanon_internal.count_seconds(number, units_per_s) END;
COMMENT ON FUNCTION dbanon_internal.read_counted IS
'A time that is a number of some unit as unix seconds, out of range before 1990 and after 2100 unless somebody said the unit.';

-- ---- texts

CREATE OR REPLACE FUNCTION dbanon_internal.try_moment(clock timestamp, tz text, gap interval) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN ((clock AT TIME ZONE tz) - gap) AT TIME ZONE tz = clock THEN (clock AT TIME ZONE tz) - gap END;
COMMENT ON FUNCTION dbanon_internal.try_moment IS 'The moment so much before that of a clock, if clocks show the same then.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_local(clock timestamp, tz text) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
-- The earlier of two, and none where clocks were set forward: AT TIME ZONE gives another time of day there.
RETURN CASE WHEN NOT isfinite(clock) THEN 'Infinity'::float8 WHEN clock < '0001-01-02' OR clock > '5138-01-01' THEN @last_s@
    WHEN clock IS NOT NULL THEN coalesce(extract(epoch FROM coalesce(
        dbanon_internal.try_moment(clock, tz, '2 hours'), dbanon_internal.try_moment(clock, tz, '1 hour'),
        dbanon_internal.try_moment(clock, tz, '30 minutes'), dbanon_internal.try_moment(clock, tz, '0')))::float8, @skipped_s@) END;
COMMENT ON FUNCTION dbanon_internal.read_local IS
'A time without a zone as unix seconds: where clocks are set back the earlier of two, where they are set forward and leave it out @skipped_s@.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_day(day date) RETURNS timestamp
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- There are dates that are no timestamps.
RETURN CASE WHEN isfinite(day) THEN least(day, '6000-01-01'::date) ELSE day END::timestamp;
COMMENT ON FUNCTION dbanon_internal.begin_day IS 'Midnight of a day, of one after the year 6000 that of this year.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_written(value text, forms text[], tz text, units_per_s double precision, unit_given boolean, refusal text)
RETURNS TABLE (t double precision, repeated boolean) LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 1
BEGIN ATOMIC
    -- From the cell to the text without blanks, to ISO 8601, to seconds; OFFSET 0 keeps the planner from computing one for each use of it.
    SELECT CASE WHEN wri.iso IS NULL THEN CASE WHEN forms IS NULL THEN (
                SELECT dbanon_internal.read_counted(num.n, units_per_s, unit_given) FROM (SELECT dbanon_internal.read_number(wri.word) AS n OFFSET 0) num) END
            WHEN wri.zoned THEN extract(epoch FROM wri.iso::timestamptz)::float8
            WHEN tz IS NULL THEN dbanon_internal.refuse_local_time(refusal)
            ELSE (SELECT dbanon_internal.read_local(loc.clock, tz) FROM (SELECT wri.iso::timestamp AS clock OFFSET 0) loc) END,
        -- Only what names no zone can be of an hour that comes twice.
        tz <> 'UTC' AND NOT wri.zoned
    FROM (SELECT tim.word, tim.iso, tim.iso ~ @zoned_time@ AS zoned
          FROM (SELECT cel.word, CASE WHEN forms IS NULL AND cel.word ~ @iso_time@ THEN cel.word ELSE (
                    SELECT fit.iso FROM (SELECT CASE WHEN forms IS NULL THEN CASE WHEN cel.word ~ '[^-+0-9.eE]' THEN @iso_of_word@ END
                        WHEN cel.word ~ forms[1] THEN regexp_replace(cel.word, forms[1], forms[2])
                        WHEN cel.word ~ forms[3] THEN regexp_replace(cel.word, forms[3], forms[4]) END AS iso OFFSET 0) fit
                    WHERE fit.iso ~ @iso_time@) END AS iso
                FROM (SELECT dbanon_internal.read_text(value) AS word OFFSET 0) cel OFFSET 0) tim OFFSET 0) wri;
END;
COMMENT ON FUNCTION dbanon_internal.read_written IS
'Reads a text of a time, or with forms (of dbanon_internal.list_time_forms, one after the other) one in a format. Raises an error if it names no zone and
none is given.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_reading(
    argument text, types jsonb, asked dbanon_internal.loading, units_per_s double precision) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on
SET extra_float_digits = 1 AS $$
DECLARE
    kind CONSTANT text := types ->> asked.time_column;
    unit_given CONSTANT boolean := asked.time_unit IS NOT NULL;
    number CONSTANT text := dbanon_internal.build_number(argument, kind);
    written CONSTANT text := CASE WHEN dbanon_internal.is_text(kind) THEN argument || '::text'
        WHEN asked.time_format IS NOT NULL AND number IS NOT NULL THEN format('trim_scale(%s::numeric)::text', argument) END;
    one CONSTANT text := '(SELECT %s AS t, %L::boolean AS repeated) tim';
BEGIN
    IF kind = 'timestamp with time zone' THEN
        RETURN format(one, format('extract(epoch FROM %s)::float8', argument), false);
    ELSIF written IS NOT NULL THEN
        RETURN format('dbanon_internal.read_written(%s, %L::text[], %L, %L::float8, %L::boolean, %L) tim', written,
            (SELECT array_agg(par.part ORDER BY tfo.nth, par.nth)
             FROM dbanon_internal.list_time_forms(asked.time_format) WITH ORDINALITY tfo (form, iso, nth)
             CROSS JOIN LATERAL unnest(ARRAY[tfo.form, tfo.iso]) WITH ORDINALITY par (part, nth)),
            asked.tz, coalesce(units_per_s, 1), unit_given, format('One in column ''%s'' does not', asked.time_column));
    ELSIF units_per_s IS NOT NULL THEN
        RETURN format(one, format('dbanon_internal.read_counted(%s, %L::float8, %L::boolean)', number, units_per_s, unit_given), false);
    ELSIF kind NOT IN ('timestamp without time zone', 'date') THEN
        RAISE EXCEPTION 'Column ''%'' must be a timestamp, a date, a text or a number of unix seconds. It is %.', asked.time_column, kind
            USING ERRCODE = 'DA012', DETAIL = 'A time is a day and a time of day.', HINT = 'Make timestamps of it in a view, and import that.';
    ELSIF asked.tz IS NULL THEN
        PERFORM dbanon_internal.refuse_local_time(format('Column ''%s'' is %s', asked.time_column, kind));
    END IF;
    RETURN format(one, format('dbanon_internal.read_local(%s, %L)', CASE kind WHEN 'date' THEN format('dbanon_internal.begin_day(%s)', argument)
        ELSE argument END, asked.tz), asked.tz <> 'UTC' AND kind <> 'date');
END
$$;
COMMENT ON FUNCTION dbanon_internal.build_reading IS
'Writes what follows FROM and reads a time: tim, with t, unix seconds (NULL where it is none, @skipped_s@ where clocks left it out,
infinite or NaN where it is not finite), and repeated, whether it may be of an hour that comes twice. Raises an error if the column holds no
times, or times without a zone where none is given.';

-- ---- hours that come twice, and that never come

CREATE OR REPLACE FUNCTION dbanon_internal.settle_repeated_hours(tz text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    span record;
    hour record;
    counted record;
    undecided bigint := 0;
BEGIN
    IF tz IS NULL OR tz = 'UTC' THEN RETURN; END IF;
    SELECT min(sta.t) FILTER (WHERE sta.t > 0) AS low, max(sta.t) FILTER (WHERE sta.t < @latest_s@) AS high INTO span
        FROM pg_temp.dbanon_staged sta WHERE sta.repeated;
    -- Days after which clocks are behind, and in each the first minute in which they are.
    FOR hour IN
        SELECT extract(epoch FROM min(mnt.moment))::float8 - day.gap_s AS first_s, day.gap_s
        FROM (SELECT noon.moment, extract(
                  epoch FROM (noon.moment AT TIME ZONE tz) + interval '1 day' - ((noon.moment + interval '24 hours') AT TIME ZONE tz))::float8 AS gap_s
              FROM generate_series(to_timestamp(span.low) - interval '36 hours', to_timestamp(span.high) + interval '36 hours',
                                   interval '24 hours') noon (moment)) day
        CROSS JOIN LATERAL generate_series(day.moment, day.moment + interval '24 hours', interval '1 minute') mnt (moment)
        WHERE day.gap_s > 0 AND extract(epoch FROM (day.moment AT TIME ZONE tz) + (mnt.moment - day.moment) - (mnt.moment AT TIME ZONE tz)) > 0
        GROUP BY day.moment, day.gap_s
    LOOP
        IF NOT EXISTS (SELECT FROM pg_temp.dbanon_staged sta WHERE sta.repeated AND sta.t >= hour.first_s AND sta.t < hour.first_s + hour.gap_s) THEN
            CONTINUE;
        END IF;
        -- A person's rows 01:50, 02:00, 02:30, 02:00, 02:30, 03:00 step back once: what follows is the second pass. 02:30, 02:50, 03:00 do not, but
        -- the row before is far and the row after is near. Newest first, it is the other way round.
        WITH around AS MATERIALIZED (
            SELECT sta.ctid AS place, sta.subject, sta.t, row_number() OVER (ORDER BY sta.file, sta.line) AS nth,
                sta.repeated AND sta.t >= hour.first_s AND sta.t < hour.first_s + hour.gap_s AS open
            FROM pg_temp.dbanon_staged sta WHERE sta.t >= hour.first_s - hour.gap_s AND sta.t < hour.first_s + 3 * hour.gap_s
        ), near AS (
            SELECT aro.*, aro.t - lag(aro.t) OVER (PARTITION BY aro.subject ORDER BY aro.nth) AS step
            FROM around aro WHERE aro.subject IN (SELECT ope.subject FROM around ope WHERE ope.open)
        ), turned AS (
            SELECT nea.*, CASE WHEN sum(sign(nea.step)) OVER () < 0 THEN -nea.nth ELSE nea.nth END AS pos FROM near nea
        ), stepped AS (
            SELECT tur.*, tur.t < lag(tur.t) OVER each AS back,
                tur.open AND lag(tur.open) OVER each AND lag(tur.t) OVER each - tur.t >= hour.gap_s / 2 AS again
            FROM turned tur WINDOW each AS (PARTITION BY tur.subject ORDER BY tur.pos)
        ), person AS (
            SELECT ste.subject, count(*) FILTER (WHERE ste.back) AS backs, min(ste.pos) FILTER (WHERE ste.again) AS second,
                min(ste.t) FILTER (WHERE ste.open) - max(ste.t) FILTER (WHERE NOT ste.open AND ste.t < hour.first_s) <= hour.gap_s / 2 AS follows,
                min(ste.t) FILTER (WHERE NOT ste.open AND ste.t >= hour.first_s + 2 * hour.gap_s)
                    - max(ste.t) FILTER (WHERE ste.open) - hour.gap_s BETWEEN 0 AND hour.gap_s / 2 AS precedes
            FROM stepped ste GROUP BY ste.subject
        ), decided AS (
            SELECT per.subject, CASE WHEN per.backs = 1 THEN per.second WHEN per.backs > 1 THEN NULL
                WHEN coalesce(per.precedes, false) AND NOT coalesce(per.follows, false) THEN -9e18::bigint
                WHEN coalesce(per.follows, false) AND NOT coalesce(per.precedes, false) THEN 9e18::bigint END AS second
            FROM person per
        ), moved AS (
            UPDATE pg_temp.dbanon_staged sta SET t = sta.t + hour.gap_s
            FROM stepped ste JOIN decided dec ON dec.subject = ste.subject
            WHERE sta.ctid = ste.place AND ste.open AND ste.pos >= dec.second
        )
        SELECT count(*) AS rows INTO counted FROM stepped ste JOIN decided dec ON dec.subject = ste.subject WHERE ste.open AND dec.second IS NULL;
        undecided := undecided + counted.rows;
    END LOOP;
    PERFORM dbanon_internal.raise_notice(CASE WHEN undecided > 0 THEN format(
        'Times of an hour that comes twice in %s, which the order of a person''s rows does not decide, were read as the first: %s.',
        tz, dbanon_internal.format_quantity(undecided, 'row')) END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.settle_repeated_hours IS
'Decides by the order of each person''s staged rows which times without a zone are of the second of two equal hours, and says of how many it cannot be
decided.';

-- ---- what could not be read

CREATE OR REPLACE FUNCTION dbanon_internal.describe_first_cell(cells jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- 9 stands for each digit and A for each letter of its first 40 characters: what is no digit, blank or sign of ASCII may be a letter.
    RETURN (SELECT format('The first %s is written like %s. %s', CASE most.reason WHEN 'unparsable-time' THEN 'time' ELSE 'position' END,
        (SELECT string_agg(coalesce(regexp_replace(regexp_replace(
             left(nullif(one.content ->> pair.key, ''), 40), '[0-9]', '9', 'g'), '[^ -/9:-@[-`{-~]', 'A', 'g'), 'nothing'), ' and ' ORDER BY pair.value)
         FROM jsonb_each_text(cells) pair
         WHERE pair.value = ANY (CASE most.reason WHEN 'unparsable-time' THEN ARRAY['t'] ELSE ARRAY['x', 'y', 'place'] END)),
        CASE most.reason WHEN 'unparsable-time' THEN 'Give time_format => ''...''.' ELSE 'Check which columns are named.' END)
    FROM (SELECT rej.reason FROM pg_temp.dbanon_rejected rej GROUP BY rej.reason ORDER BY count(*) DESC, rej.reason LIMIT 1) most
    CROSS JOIN LATERAL (SELECT rej.content FROM pg_temp.dbanon_rejected rej WHERE rej.reason = most.reason AND rej.content IS NOT NULL
                        ORDER BY rej.file, rej.line LIMIT 1) one
    WHERE most.reason IN ('unparsable-time', 'unparsable-position'));
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_first_cell IS
'Words how the first time or position is written that could not be read, where that is what is wrong with most rows; cells names the columns of what
was staged.';

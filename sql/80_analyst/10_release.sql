-- What all functions for analysts begin with: the release, the area and the time that are asked about.
--
-- They run with the rights of their caller, who may read nothing but releases: so what they call is in schema published_inner, where
-- analysts may call it, too. Those whose names end with _of answer from any relation whose rows have the form of a release. With them dbanon
-- evaluates runs.
-- What a release's rows say is recorded with it (published.releases: holds, step_s, window_s, extent), and no function
-- asks for a method's name. Truth is what is published: aligned positions at instants, or the fixes that rows cover.
--
-- A person may have a record in each phase, which is a window or a day of a part: phase_of says in which one a row is, and records of one phase
-- are of different people. So people are summed phase by phase: at least those of the greatest, at most those of all. A release of one run is
-- one part. Every query names the least and the greatest valid_from that it asks for, so that no other parts are looked at.
-- The planner expects few rows of tstzrange(valid_from, valid_to) where no index has it: so conditions are of both columns where it would go astray.

CREATE OR REPLACE FUNCTION published.about(release regclass) RETURNS published.releases
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found published.releases;
    shown boolean;
BEGIN
    SELECT rel.* INTO found FROM published.releases rel JOIN pg_class cla ON cla.relname = rel.name AND cla.relnamespace = 'published'::regnamespace
        WHERE cla.oid = about.release;
    -- Asking for the size waits for a publication or withdrawal that has begun. The first look at rows keeps others from beginning; rows of
    -- a release that has replaced this one since the statement began are not seen.
    PERFORM pg_relation_size(about.release);
    IF to_regclass('published.' || quote_ident(found.name)) = about.release THEN
        -- Of the last part alone.
        EXECUTE format('SELECT EXISTS (SELECT FROM %s c WHERE c.valid_from >= $1)', about.release) INTO shown
            USING found.starts[cardinality(found.starts)];
    END IF;
    IF shown IS NULL OR (found.rows > 0 AND NOT shown) THEN
        RAISE EXCEPTION 'The release must be one that you may read. Got %.', coalesce(about.release::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'It is no release, was withdrawn or replaced a moment ago, or is for other readers.',
                  HINT = 'List those you may read: SELECT * FROM published.releases.';
    END IF;
    RETURN found;
END
$$;
COMMENT ON FUNCTION published.about IS
'Returns the row of published.releases of a release that you may read.
Arguments:
- release: the view, such as ''published.taxi_k5''.
Returns: its row.
Raises: DA001.
Example: SELECT * FROM published.about(''published.taxi_k5'').';

CREATE OR REPLACE FUNCTION published_inner.about_rows(about published.releases, relation regclass) RETURNS published.releases
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- A run's rows are a temporary relation, which analysts can make, too, with other columns.
RETURN CASE WHEN relation = to_regclass('pg_temp.asked_rows') AND has_schema_privilege('dbanon_internal', 'USAGE') THEN about
            ELSE published.about(relation) END;
COMMENT ON FUNCTION published_inner.about_rows IS 'What a run says of its rows, as given, or a release of its own, whatever is given. It refuses other relations.';

CREATE OR REPLACE FUNCTION published_inner.checked_area(area @postgis@.geometry) RETURNS @postgis@.geometry
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fault CONSTANT text := CASE
        WHEN area IS NULL THEN 'NULL'
        WHEN @postgis@.ST_SRID(area) = 0 THEN 'a geometry without an SRID'
        WHEN @postgis@.ST_IsEmpty(area) THEN NULL
        WHEN @postgis@.GeometryType(@postgis@.ST_Force2D(area)) NOT IN ('POLYGON', 'MULTIPOLYGON') THEN 'a ' || @postgis@.GeometryType(area)
        WHEN NOT @postgis@.ST_IsValid(area) THEN 'an invalid one: ' || @postgis@.ST_IsValidReason(area)
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'An area must be a valid polygon or multipolygon with an SRID. Got %.', fault
            USING ERRCODE = 'DA011', DETAIL = 'An empty one is an area, too, with no people in it.',
                  HINT = 'ST_SetSRID names the coordinate system, ST_MakeValid repairs, ST_Buffer makes an area of a point or line.';
    END IF;
    RETURN @postgis@.ST_Force2D(area);
END
$$;
COMMENT ON FUNCTION published_inner.checked_area IS 'The area itself, in two dimensions, where it can be asked about. It refuses others.';

CREATE OR REPLACE FUNCTION published_inner.refuse_projection(srid integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'A coordinate system must be one of PostGIS''s spatial_ref_sys that can show where the release is. Got SRID %.', srid
        USING ERRCODE = 'DA011', DETAIL = 'The area of a question and the regions of a release are brought into one system.',
              HINT = 'Ask in the system of the release (srid in published.releases), or in longitude and latitude (4326).';
END
$$;
COMMENT ON FUNCTION published_inner.refuse_projection IS 'Refuses a coordinate system that PostGIS does not know, or in which a release has no place.';

CREATE OR REPLACE FUNCTION published_inner.known_system(srid integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM @postgis@.spatial_ref_sys s WHERE s.srid = known_system.srid) THEN
        PERFORM published_inner.refuse_projection(known_system.srid);
    END IF;
    RETURN srid;
END
$$;
COMMENT ON FUNCTION published_inner.known_system IS 'The SRID itself, where PostGIS knows it. It refuses others.';

CREATE OR REPLACE FUNCTION published_inner.projected(shape @postgis@.geometry, step double precision, srid integer, asked_srid integer)
RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    right_one @postgis@.geometry := @postgis@.ST_MakeEnvelope(0, 0, 1, 1, 4326);
BEGIN
    RETURN @postgis@.ST_Transform(@postgis@.ST_Segmentize(shape, step), published_inner.known_system(srid));
EXCEPTION WHEN internal_error THEN  -- from PROJ
    -- It keeps an error's code, and the session's next transformation would report it although it is a right one.
    BEGIN
        right_one := @postgis@.ST_Transform(right_one, 3857);
    EXCEPTION WHEN internal_error THEN
        NULL;
    END;
    PERFORM published_inner.refuse_projection(asked_srid);
END
$$;
COMMENT ON FUNCTION published_inner.projected IS
'A shape in another coordinate system, its edges followed at steps. Where it has no place there, it refuses the system that was asked for.';

CREATE OR REPLACE FUNCTION published_inner.surroundings(about published.releases, srid integer, OUT box @postgis@.geometry, OUT step double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    near CONSTANT double precision := 1000 + greatest(about.extent[3] - about.extent[1], about.extent[4] - about.extent[2]) / 10;
BEGIN
    box := @postgis@.ST_Envelope(published_inner.projected(
        @postgis@.ST_MakeEnvelope(about.extent[1] - near, about.extent[2] - near, about.extent[3] + near, about.extent[4] + near, about.srid),
        near / 10, srid, srid));
    step := greatest(@postgis@.ST_XMax(box) - @postgis@.ST_XMin(box), @postgis@.ST_YMax(box) - @postgis@.ST_YMin(box)) / 1000;
END
$$;
COMMENT ON FUNCTION published_inner.surroundings IS
'A box around a release in another coordinate system, a tenth and a kilometre beyond it, and the length of steps that follow edges there.';

CREATE OR REPLACE FUNCTION published_inner.fitted_area(area @postgis@.geometry, about published.releases) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    checked CONSTANT @postgis@.geometry := published_inner.checked_area(area);
    around record;
BEGIN
    IF @postgis@.ST_SRID(checked) = about.srid OR @postgis@.ST_IsEmpty(checked) OR about.extent IS NULL THEN
        RETURN @postgis@.ST_SetSRID(checked, about.srid);
    END IF;
    -- An area of the whole world has no place in a local system: what is far from the release is cut off first, in the area's own
    -- system. Edges that are straight in one system are not in the other, so they are followed at short steps.
    SELECT sur.box, sur.step INTO around FROM published_inner.surroundings(about, @postgis@.ST_SRID(checked)) sur;
    RETURN published_inner.projected(@postgis@.ST_CollectionExtract(@postgis@.ST_Intersection(checked, around.box), 3), around.step, about.srid,
                               @postgis@.ST_SRID(checked));
END
$$;
COMMENT ON FUNCTION published_inner.fitted_area IS
'An area in the coordinate system of a release. For an area in another system it returns the part near the release.';

CREATE OR REPLACE FUNCTION published_inner.in_slots(about published.releases, span tstzrange) RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    whole CONSTANT tstzrange := span * tstzrange(about.since, about.until);
    first_slot numeric;
    last_slot numeric;
BEGIN
    IF isempty(whole) THEN RETURN whole; END IF;
    IF about.step_s IS NULL AND about.holds = 'some time' THEN
        -- Half-open, as rows are: there is no time between two microseconds.
        RETURN tstzrange(lower(whole) + make_interval(secs => CASE WHEN lower_inc(whole) THEN 0 ELSE 1e-6 END),
                         upper(whole) + make_interval(secs => CASE WHEN upper_inc(whole) THEN 1e-6 ELSE 0 END));
    END IF;
    IF about.step_s IS NULL THEN  -- a part is one slot
        RETURN (SELECT coalesce(tstzrange(min(part.since), max(part.until)), 'empty')
                FROM unnest(about.starts, about.ends) part (since, until) WHERE tstzrange(part.since, part.until) && whole);
    END IF;
    -- An instant counts if its slot meets the span: whole slots, so that rows lie within the span or outside.
    first_slot := floor(extract(epoch FROM lower(whole) - about.since) / about.step_s);
    last_slot := extract(epoch FROM upper(whole) - about.since) / about.step_s;
    last_slot := CASE WHEN upper_inc(whole) THEN floor(last_slot) + 1 ELSE ceil(last_slot) END;
    RETURN tstzrange(about.since + make_interval(secs => (first_slot * about.step_s)::double precision),
                     about.since + make_interval(secs => (last_slot * about.step_s)::double precision));
END
$$;
COMMENT ON FUNCTION published_inner.in_slots IS 'The part of a span between the first and the last time of a release, half-open, and in whole slots where it holds at instants.';

CREATE OR REPLACE FUNCTION published_inner.spoken_s(about published.releases, span tstzrange) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(extract(epoch FROM upper(m.met) - lower(m.met))), 0)::double precision
    FROM unnest(about.starts, about.ends) p (since, until) CROSS JOIN LATERAL (SELECT tstzrange(p.since, p.until) * span AS met) m
    WHERE NOT isempty(m.met)
$$;
COMMENT ON FUNCTION published_inner.spoken_s IS 'How many seconds of a span a release speaks of: gaps between its parts do not count.';

CREATE OR REPLACE FUNCTION published_inner.first_from(about published.releases, span tstzrange) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Rows lie within their part: none of a span begins before the part that the span begins in. Nor does one begin earlier than the longest
    -- row is long; in seconds, since a day may have 23 or 25 hours, and only where there is such a time.
    SELECT CASE WHEN NOT isfinite(lower(span)) OR NOT isfinite(p.start) THEN p.start
                WHEN extract(epoch FROM lower(span) - p.start) > about.longest_s THEN lower(span) - make_interval(secs => about.longest_s)
                ELSE p.start END
    FROM (SELECT coalesce(about.starts[width_bucket(lower(span), about.starts)], lower(span)) AS start) p
$$;
COMMENT ON FUNCTION published_inner.first_from IS 'The least valid_from that rows of a span can have.';

CREATE OR REPLACE FUNCTION published_inner.fitted_span(about published.releases, during tstzrange) RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    span CONSTANT tstzrange := during * tstzrange(about.since, about.until);
    gaps bigint;
BEGIN
    IF during IS NULL OR isempty(during) THEN
        RAISE EXCEPTION 'A span of time must not be empty. Got %.', coalesce(during::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'A span begins with its start and ends before its end.',
                  HINT = 'Name both: tstzrange(''2026-01-05 08:00Z'', ''2026-01-05 09:00Z'').';
    END IF;
    IF about.since IS NULL THEN
        RETURN 'empty';  -- no rows: all numbers are 0
    END IF;
    IF isempty(span) THEN
        RAISE EXCEPTION 'The time must be one that release % speaks of, from % on and before %. Got %.', about.name, about.since, about.until,
                CASE WHEN lower(during) = upper(during) THEN lower(during)::text ELSE during::text END
            USING ERRCODE = 'DA011', DETAIL = 'It says nothing about other times. This does not mean that no people were there.',
                  HINT = 'Times without a zone are read in that of the session: write the zone.';
    END IF;
    IF NOT EXISTS (SELECT FROM unnest(about.starts, about.ends) part (since, until) WHERE tstzrange(part.since, part.until) && span) THEN
        RAISE EXCEPTION 'The time must be one that release % speaks of. It has no part at %.', about.name,
                CASE WHEN lower(during) = upper(during) THEN lower(during)::text ELSE during::text END
            USING ERRCODE = 'DA011', DETAIL = 'It says nothing about other times. This does not mean that no people were there.',
                  HINT = format('List its parts: SELECT since, until FROM published.parts WHERE name = %L ORDER BY since.', about.name);
    END IF;
    SELECT count(*) INTO gaps
        FROM unnest(about.starts[2:], about.ends[:cardinality(about.ends) - 1]) gap (next_since, until)
        WHERE gap.until < gap.next_since AND tstzrange(gap.until, gap.next_since) && span;
    IF gaps > 0 THEN
        RAISE NOTICE 'Release % has no part for % of this span: of these times the answer says nothing.', about.name,
            CASE gaps WHEN 1 THEN 'a time' ELSE gaps || ' times' END;
    END IF;
    RETURN published_inner.in_slots(about, span);
END
$$;
COMMENT ON FUNCTION published_inner.fitted_span IS
'The part of a span that a release speaks of, in whole slots where it holds at instants. It is empty where the release has no rows. It refuses a span
in a gap between parts, and gives a notice if a span reaches over a gap.';

-- BEGIN ATOMIC, so that PostgreSQL inlines it: it is called for each row.
CREATE OR REPLACE FUNCTION published_inner.phase_of(about published.releases, valid_from timestamptz, valid_to timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN (pg_catalog.width_bucket(valid_from, about.starts)::bigint << 32) + CASE
    WHEN NOT (pg_catalog.isfinite(valid_from) AND pg_catalog.isfinite(valid_to)) THEN NULL
    WHEN about.day_zone IS NULL THEN coalesce(pg_catalog.floor(EXTRACT(
        epoch FROM valid_from - about.starts[pg_catalog.width_bucket(valid_from, about.starts)]) / about.window_s), 0)::bigint
    -- All people of a row within a day, with no change of the clock, were seen on that day. A row of several days may be of
    -- any of them, and records with the same rows may be days of one person.
    WHEN (valid_from AT TIME ZONE about.day_zone)::date = ((valid_to AT TIME ZONE about.day_zone) - interval '1 microsecond')::date
        AND (valid_to AT TIME ZONE about.day_zone) - (valid_from AT TIME ZONE about.day_zone) = valid_to - valid_from
    THEN (valid_from AT TIME ZONE about.day_zone)::date - date '1970-01-01'
END;
COMMENT ON FUNCTION published_inner.phase_of IS
'The window or the day of a part that a row''s record is of: records of one phase are of different people. The same for all rows of a part where a
person has one record in it. NULL where the row does not lie within one day.';

CREATE OR REPLACE FUNCTION published_inner.windows_of(
    about published.releases, asked tstzrange, each boolean DEFAULT true, OUT span tstzrange, OUT since timestamptz)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH part AS (
        SELECT part.since, part.until, coalesce(about.day_zone, 'UTC') AS zone,
            CASE WHEN about.day_zone IS NOT NULL THEN interval '1 day' ELSE make_interval(secs => about.window_s) END AS step
        FROM unnest(about.starts, about.ends) part (since, until) WHERE tstzrange(part.since, part.until) && asked
    ), met AS (
        SELECT asked * tstzrange(part.since, part.until) * tstzrange(win.since AT TIME ZONE part.zone, (win.since + part.step) AT TIME ZONE part.zone) AS span
        FROM part CROSS JOIN LATERAL (
            SELECT generate_series(CASE WHEN about.day_zone IS NULL THEN loc.since ELSE date_trunc('day', loc.since) END, loc.until, part.step) AS since
            FROM (SELECT part.since AT TIME ZONE part.zone AS since, part.until AT TIME ZONE part.zone AS until) loc WHERE part.step IS NOT NULL
            UNION ALL SELECT loc.since FROM (SELECT part.since AT TIME ZONE part.zone AS since) loc WHERE part.step IS NULL) win
    )
    SELECT met.span, lower(met.span) FROM met WHERE each AND NOT isempty(met.span)
    UNION ALL SELECT asked, NULL WHERE NOT EXISTS (SELECT FROM met WHERE each AND NOT isempty(met.span)) ORDER BY 2
$$;
COMMENT ON FUNCTION published_inner.windows_of IS
'The pieces of a span that are in one window, day or part of a release each, in their order. The span itself where it meets none, or each is not true.';

CREATE OR REPLACE FUNCTION published_inner.report_windows(about published.releases, span tstzrange) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    windows CONSTANT bigint := count(*) FROM published_inner.windows_of(about, span);
BEGIN
    IF windows > 1 THEN
        RAISE NOTICE 'Windows, days or parts of release % in this span: %. People may have a record in each.', about.name, windows
            USING HINT = 'Ask about one of them, or let count_inside answer by_window => true.';
    END IF;
END
$$;
COMMENT ON FUNCTION published_inner.report_windows IS 'A notice where a span has more than one window, day or part of a release.';

CREATE OR REPLACE FUNCTION published_inner.demand_rows(about published.releases, asked text, some_time boolean, one_moment boolean) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF about.holds = 'some time' AND NOT some_time THEN
        RAISE EXCEPTION '% must be asked of a release that holds at instants. % says only that people were seen at some time of each period.',
                asked, about.name
            USING ERRCODE = 'DA011', DETAIL = 'No row says when in the period that was.',
                  HINT = 'Ask count_inside, density, flows or crossings during a span.';
    END IF;
    IF about.holds = 'instant' AND about.step_s IS NULL AND NOT one_moment THEN
        RAISE EXCEPTION '% must be asked of a release in which people move. % speaks of one moment.', asked, about.name
            USING ERRCODE = 'DA011', DETAIL = 'Each person has one row.', HINT = 'Ask count_inside or density.';
    END IF;
END
$$;
COMMENT ON FUNCTION published_inner.demand_rows IS
'Refuses a question that the rows of a release cannot answer: where they hold at some time, unless some_time is true, and where all are of one
moment, unless one_moment is true.';

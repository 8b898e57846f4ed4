-- What columns mean and what may be wrong with a row. Steps over millions of rows are single statements: a function a row would cost more than all
-- the rest, so functions that write expressions say what a column means.

-- ---- what is in a cell

CREATE OR REPLACE FUNCTION dbanon_internal.build_text_expression(argument text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    -- One name in two spellings of Unicode would count as two people. The blanks are those that Arrow trims.
    SELECT format(
        'nullif(CASE WHEN octet_length(%1$s) = char_length(%1$s) THEN btrim(%1$s, %2$s) ELSE normalize(btrim(%1$s, %2$s), NFC) END, '''')',
        argument,
        quote_literal(E'\t\n\u000b\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007'
                      '\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'))
$$;
COMMENT ON FUNCTION dbanon_internal.build_text_expression IS
'Writes a text without the blanks around it and in one spelling of Unicode (NFC), NULL where nothing is left.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_number_expression(argument text, kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    -- A numeric may be too large or too small for a double.
    SELECT format(CASE kind WHEN 'numeric' THEN '(CASE WHEN abs(%1$s) < 1e-300 THEN 0 WHEN abs(%1$s) >= 1e300 AND %1$s::text NOT IN (''NaN'', ''Infinity'', ''-Infinity'') '
                                                'THEN 1e300 ELSE %1$s::float8 END)' ELSE '(%1$s::float8)' END, argument)
    WHERE kind IN ('smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision')
$$;
COMMENT ON FUNCTION dbanon_internal.build_number_expression IS 'Writes a number of some type as a double; NULL where the type is none of numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_middle_expression(argument text, axis text, geographic boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(CASE WHEN axis = 'y' THEN '(@postgis@.ST_YMin(@postgis@.Box3D(%1$s)) + @postgis@.ST_YMax(@postgis@.Box3D(%1$s))) / 2'
        WHEN NOT geographic THEN '(@postgis@.ST_XMin(@postgis@.Box3D(%1$s)) + @postgis@.ST_XMax(@postgis@.Box3D(%1$s))) / 2'
        -- Across the antimeridian, the short way round.
        ELSE '(SELECT CASE WHEN west + east > 360 AND west <= 180 THEN (west + east) / 2 - 360 '
             'WHEN west + east < -360 AND east >= -180 THEN (west + east) / 2 + 360 ELSE (west + east) / 2 END '
             'FROM (SELECT @postgis@.ST_XMin(b) AS west, @postgis@.ST_XMax(b) AS east FROM (SELECT @postgis@.Box3D('
             'CASE WHEN @postgis@.ST_XMax(@postgis@.Box3D(%1$s)) - @postgis@.ST_XMin(@postgis@.Box3D(%1$s)) > 180 '
             'THEN @postgis@.ST_ShiftLongitude(%1$s) ELSE %1$s END) AS b) box) sides)' END, argument)
$$;
COMMENT ON FUNCTION dbanon_internal.build_middle_expression IS 'Writes the middle of the bounds of a shape on one axis.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_endless(shape @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    -- A corner that is no number may not show in the bounds, but it does in the text; bounds beyond half of the greatest double have no middle.
    SELECT @postgis@.ST_AsText(@postgis@.ST_Force2D(shape)) ~* 'nan|inf'
        OR greatest(@postgis@.ST_XMax(b), -@postgis@.ST_XMin(b), @postgis@.ST_YMax(b), -@postgis@.ST_YMin(b)) > 8e307
    FROM (SELECT @postgis@.Box3D(shape) AS b) box
$$;
COMMENT ON FUNCTION dbanon_internal.is_endless IS 'Says whether a coordinate of a shape is not finite, or too great to be halved.';

CREATE OR REPLACE FUNCTION dbanon_internal.reproject(place @postgis@.geometry, target integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shifted @postgis@.geometry;
BEGIN
    -- PROJ either refuses a place that it cannot show, or returns one at infinity: both are null here.
    shifted := @postgis@.ST_Transform(place, target);
    RETURN CASE WHEN @postgis@.ST_XMin(@postgis@.Box3D(shifted)) > -1e12 AND @postgis@.ST_YMin(@postgis@.Box3D(shifted)) > -1e12
                 AND @postgis@.ST_XMax(@postgis@.Box3D(shifted)) < 1e12 AND @postgis@.ST_YMax(@postgis@.Box3D(shifted)) < 1e12
                THEN shifted END;
EXCEPTION WHEN internal_error THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.reproject IS 'Reprojects a geometry.';

-- ---- what is wrong with it

CREATE OR REPLACE FUNCTION dbanon_internal.build_name_reasons(argument text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT format('WHEN %s ~ %L THEN ''control-characters''', argument, E'[\u0001-\u001f\u007f-\u009f]')
$$;
COMMENT ON FUNCTION dbanon_internal.build_name_reasons IS 'Writes what may be wrong with a name, as a branch of a CASE.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_event_reasons(asked dbanon_internal.loading) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
    SELECT format('WHEN subject IS NULL THEN ''missing-subject'' WHEN octet_length(subject) <= %s AND subject = ANY (%L::text[]) THEN ''nobody'' ',
                  (SELECT coalesce(max(octet_length(ele.name)), 0) FROM unnest(nul.nobody) ele (name)), nul.nobody)
           || 'WHEN octet_length(subject) > 1000 THEN ''subject-too-long'' '
           || dbanon_internal.build_name_reasons('subject') ||
           ' WHEN t IS NULL OR t = -1e300 THEN ''unparsable-time'' '
           'WHEN NOT abs(t) < ''Infinity'' THEN ''non-finite-time'' '
           'WHEN t < -62135596800 OR t >= 1e11 THEN ''time-out-of-range'' '
           || format('WHEN t > %L::float8 THEN ''future-time''', dbanon_internal.find_last_time(asked))
    FROM (SELECT dbanon_internal.list_null_names(asked) AS nobody) nul
$$;
COMMENT ON FUNCTION dbanon_internal.build_event_reasons IS
'Writes what may be wrong with who and when, as branches of a CASE over columns subject and t (unix seconds); the first counts.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_position_reasons(expected_srid integer, geographic boolean, missing text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('WHEN srid NOT IN (0, %s) THEN ''other-reference-system'' '
                  'WHEN x IS NULL OR y IS NULL THEN CASE WHEN %s THEN ''missing-position'' ELSE ''unparsable-position'' END '
                  'WHEN NOT (abs(x) < ''Infinity'' AND abs(y) < ''Infinity'') THEN ''non-finite-position''', expected_srid, missing)
           || CASE WHEN geographic THEN
                  ' WHEN abs(x) <= 90 AND abs(y) > 90 AND abs(y) <= 180 THEN ''swapped-axes'' '
                  'WHEN abs(x) > 180 OR abs(y) > 90 THEN ''position-out-of-range''' ELSE '' END
$$;
COMMENT ON FUNCTION dbanon_internal.build_position_reasons IS
'Writes what may be wrong with a place, as branches of a CASE over columns srid, x and y (its middle); the first counts. missing says there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_box_condition(x text, y text, bbox double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
    -- One whose least x is the greater crosses the antimeridian.
    SELECT format('((%1$s >= %3$L::float8 %7$s %1$s <= %5$L::float8) AND %2$s >= %4$L::float8 AND %2$s <= %6$L::float8)',
                  x, y, bbox[1], bbox[2], bbox[3], bbox[4], CASE WHEN bbox[1] <= bbox[3] THEN 'AND' ELSE 'OR' END)
$$;
COMMENT ON FUNCTION dbanon_internal.build_box_condition IS 'Writes that a position lies in a box.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_box_reasons(bbox double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
    SELECT CASE WHEN bbox IS NULL THEN '' ELSE format(
        ' WHEN NOT %1$s AND %2$s THEN ''swapped-axes'' WHEN NOT %1$s THEN ''outside-bbox''',
        dbanon_internal.build_box_condition('x', 'y', bbox), dbanon_internal.build_box_condition('y', 'x', bbox)) END
$$;
COMMENT ON FUNCTION dbanon_internal.build_box_reasons IS
'Writes what may be wrong with a place where a box is given, as branches of a CASE over columns x and y.';

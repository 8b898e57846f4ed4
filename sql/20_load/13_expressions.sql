-- What columns mean and what may be wrong with a row. Each is one expression that is bound when it is made: PostgreSQL puts it into the statement
-- that calls it, where a function with a setting would cost more a row than all the rest, and no search path leads it elsewhere.

-- ---- what is in a cell

CREATE OR REPLACE FUNCTION dbanon_internal.read_text(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- One name in two spellings of Unicode would count as two people. The blanks are those that Arrow trims.
RETURN nullif(CASE WHEN octet_length(value) = char_length(value) THEN btrim(value, E'\t\n\u000b\f\r\u001c\u001d\u001e\u001f ')
    ELSE normalize(btrim(value, E'\t\n\u000b\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a'
                                '\u2028\u2029\u202f\u205f\u3000'), NFC) END, '');
COMMENT ON FUNCTION dbanon_internal.read_text IS 'A text without the blanks around it and in one spelling of Unicode (NFC), NULL where nothing is left.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_numeric(number numeric) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- It may be too large or too small for a double.
RETURN CASE WHEN abs(number) < 1e-300 THEN 0 WHEN abs(number) >= 1e300 AND number NOT IN ('NaN', 'Infinity', '-Infinity') THEN 1e300
    ELSE number::float8 END;
COMMENT ON FUNCTION dbanon_internal.read_numeric IS 'A number as a double: 1e300 for all that are greater.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_middle_x(shape @postgis@.geometry, geographic boolean) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN (
    -- Across the antimeridian, the short way round.
    SELECT CASE WHEN geographic AND west + east > 360 AND west <= 180 THEN (west + east) / 2 - 360
        WHEN geographic AND west + east < -360 AND east >= -180 THEN (west + east) / 2 + 360 ELSE (west + east) / 2 END
    FROM (SELECT @postgis@.ST_XMin(b) AS west, @postgis@.ST_XMax(b) AS east
          FROM (SELECT @postgis@.Box3D(CASE WHEN geographic AND @postgis@.ST_XMax(b) - @postgis@.ST_XMin(b) > 180
                                       THEN @postgis@.ST_ShiftLongitude(shape) ELSE shape END) AS b
                FROM (SELECT @postgis@.Box3D(shape) AS b OFFSET 0) plain OFFSET 0) box OFFSET 0) sides);
COMMENT ON FUNCTION dbanon_internal.find_middle_x IS 'The middle of the bounds of a shape from west to east.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_middle_y(shape @postgis@.geometry) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN (@postgis@.ST_YMin(@postgis@.Box3D(shape)) + @postgis@.ST_YMax(@postgis@.Box3D(shape))) / 2;
COMMENT ON FUNCTION dbanon_internal.find_middle_y IS 'The middle of the bounds of a shape from south to north.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_endless(shape @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- A corner that is no number may not show in the bounds, but it does in the text; bounds beyond half of the greatest double have no middle.
RETURN (
    SELECT @postgis@.ST_AsText(@postgis@.ST_Force2D(shape)) ~* 'nan|inf'
        OR greatest(@postgis@.ST_XMax(b), -@postgis@.ST_XMin(b), @postgis@.ST_YMax(b), -@postgis@.ST_YMin(b)) > 8e307
    FROM (SELECT @postgis@.Box3D(shape) AS b OFFSET 0) box);
COMMENT ON FUNCTION dbanon_internal.is_endless IS 'Says whether a coordinate of a shape is not finite, or too great to be halved.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_point(shape @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN shape IS NULL OR @postgis@.GeometryType(shape) LIKE 'POINT%';
COMMENT ON FUNCTION dbanon_internal.is_point IS 'Says whether a shape is a point, or there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_x(shape @postgis@.geometry, geographic boolean) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN dbanon_internal.is_point(shape) THEN @postgis@.ST_X(shape) WHEN dbanon_internal.is_endless(shape) THEN 'NaN'
    ELSE dbanon_internal.find_middle_x(shape, geographic) END;
COMMENT ON FUNCTION dbanon_internal.read_x IS 'The x of a point, or of the middle of a shape.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_y(shape @postgis@.geometry) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN dbanon_internal.is_point(shape) THEN @postgis@.ST_Y(shape) WHEN dbanon_internal.is_endless(shape) THEN 'NaN'
    ELSE dbanon_internal.find_middle_y(shape) END;
COMMENT ON FUNCTION dbanon_internal.read_y IS 'The y of a point, or of the middle of a shape.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_time(t double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN t >= @first_s@ AND t < @last_s@;
COMMENT ON FUNCTION dbanon_internal.is_time IS 'Says whether unix seconds are of a time that a table can hold.';

CREATE OR REPLACE FUNCTION dbanon_internal.copy_cells(names text[], cells text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN jsonb_object(names, cells) - '';
COMMENT ON FUNCTION dbanon_internal.copy_cells IS 'The cells of a row by their names; those without a name are left out.';

CREATE OR REPLACE FUNCTION dbanon_internal.copy_place(names text[], label text, shape @postgis@.geometry) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN jsonb_strip_nulls(jsonb_build_object(names[1], label)) || jsonb_build_object(names[2], @postgis@.ST_AsText(shape));
COMMENT ON FUNCTION dbanon_internal.copy_place IS 'The cells of a place, of which the label may be missing.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_empty(pairs jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN pairs = '{}';
COMMENT ON FUNCTION dbanon_internal.is_empty IS 'Says whether an object has no pairs.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_row(first_number bigint, line bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN lpad((first_number + line - 1)::text, 12, '0');
COMMENT ON FUNCTION dbanon_internal.name_row IS 'The name of a person who is a single row.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_on_the_map(shape @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN @postgis@.ST_XMin(@postgis@.Box3D(shape)) > -1e12 AND @postgis@.ST_YMin(@postgis@.Box3D(shape)) > -1e12
    AND @postgis@.ST_XMax(@postgis@.Box3D(shape)) < 1e12 AND @postgis@.ST_YMax(@postgis@.Box3D(shape)) < 1e12;
COMMENT ON FUNCTION dbanon_internal.is_on_the_map IS 'Says whether a reprojected shape lies where its reference system shows it, and not at infinity.';

CREATE OR REPLACE FUNCTION dbanon_internal.reproject(place @postgis@.geometry, target integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shifted @postgis@.geometry;
BEGIN
    -- PROJ either refuses a place that it cannot show, or returns one at infinity: both are null here.
    shifted := @postgis@.ST_Transform(place, target);
    RETURN CASE WHEN dbanon_internal.is_on_the_map(shifted) THEN shifted END;
EXCEPTION WHEN internal_error THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.reproject IS 'Reprojects a geometry.';

-- ---- what is wrong with it: the first reason counts

CREATE OR REPLACE FUNCTION dbanon_internal.find_name_fault(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN name ~ E'[\u0001-\u001f\u007f-\u009f]' THEN 'control-characters' END;
COMMENT ON FUNCTION dbanon_internal.find_name_fault IS 'What is wrong with a name.';

CREATE OR REPLACE FUNCTION dbanon_internal.measure_longest(names text[]) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN (SELECT coalesce(max(octet_length(ele.name)), 0) FROM unnest(names) ele (name));
COMMENT ON FUNCTION dbanon_internal.measure_longest IS 'The bytes of the longest of some names.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_event_fault(subject text, t double precision, nobody text[], last_s double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN subject IS NULL THEN 'missing-subject'
    WHEN octet_length(subject) <= dbanon_internal.measure_longest(nobody) AND subject = ANY (nobody) THEN 'nobody'
    WHEN octet_length(subject) > 1000 THEN 'subject-too-long'
    WHEN dbanon_internal.find_name_fault(subject) IS NOT NULL THEN dbanon_internal.find_name_fault(subject)
    WHEN t IS NULL OR t = @skipped_s@ THEN 'unparsable-time'
    WHEN NOT abs(t) < 'Infinity' THEN 'non-finite-time'
    WHEN NOT dbanon_internal.is_time(t) THEN 'time-out-of-range'
    WHEN t > last_s THEN 'future-time' END;
COMMENT ON FUNCTION dbanon_internal.find_event_fault IS
'What is wrong with who and when (unix seconds), which must not lie after last_s; nobody: the texts that name no person.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_position_fault(
    srid integer, x double precision, y double precision, expected_srid integer, geographic boolean, missing boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN srid NOT IN (0, expected_srid) THEN 'other-reference-system'
    WHEN x IS NULL OR y IS NULL THEN CASE WHEN missing THEN 'missing-position' ELSE 'unparsable-position' END
    WHEN NOT (abs(x) < 'Infinity' AND abs(y) < 'Infinity') THEN 'non-finite-position'
    WHEN geographic AND abs(x) <= 90 AND abs(y) > 90 AND abs(y) <= 180 THEN 'swapped-axes'
    WHEN geographic AND (abs(x) > 180 OR abs(y) > 90) THEN 'position-out-of-range' END;
COMMENT ON FUNCTION dbanon_internal.find_position_fault IS 'What is wrong with a place, of which x and y are the middle. missing says that there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.lies_in_box(x double precision, y double precision, bbox double precision[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- One whose least x is the greater crosses the antimeridian.
RETURN CASE WHEN bbox[1] <= bbox[3] THEN x >= bbox[1] AND x <= bbox[3] ELSE x >= bbox[1] OR x <= bbox[3] END AND y >= bbox[2] AND y <= bbox[4];
COMMENT ON FUNCTION dbanon_internal.lies_in_box IS 'Says whether a position lies in a box.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_box_fault(x double precision, y double precision, bbox double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN bbox IS NULL OR dbanon_internal.lies_in_box(x, y, bbox) THEN NULL
    WHEN dbanon_internal.lies_in_box(y, x, bbox) THEN 'swapped-axes' ELSE 'outside-bbox' END;
COMMENT ON FUNCTION dbanon_internal.find_box_fault IS 'What is wrong with a place where a box is given.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_fix_fault(
    subject text, trip text, t double precision, srid integer, x double precision, y double precision, nobody text[], last_s double precision,
    expected_srid integer, geographic boolean, missing boolean, bbox double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN coalesce(dbanon_internal.find_event_fault(subject, t, nobody, last_s), dbanon_internal.find_name_fault(trip),
                dbanon_internal.find_position_fault(srid, x, y, expected_srid, geographic, missing), dbanon_internal.find_box_fault(x, y, bbox));
COMMENT ON FUNCTION dbanon_internal.find_fix_fault IS 'What is wrong with a fix by itself.';

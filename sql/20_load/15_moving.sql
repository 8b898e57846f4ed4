-- Columns of MobilityDB's tgeompoint, or of texts that are written like one: the position of a load, and its times. Each instant is a fix.

CREATE OR REPLACE FUNCTION dbanon_internal.read_moving_instants(
    value text, tz text, OUT t double precision, OUT place @postgis@.geometry, OUT cell text)
RETURNS SETOF record LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1 SET standard_conforming_strings = on AS $$
DECLARE
    number CONSTANT text := '[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf|infinity)';
    instant CONSTANT text := '[^,;@\[\](){}]+@[^,;@\[\](){}]+';
    sequence CONSTANT text := format('[\[(]%1$s(?:,%1$s)*[\])]\s*', instant);
    written CONSTANT text := format('^(?:%1$s|\{%1$s(?:,%1$s)*\}\s*|%2$s|\{\s*%2$s(?:,\s*%2$s)*\}\s*)$', instant, sequence);
    iso CONSTANT text := '^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}';
    clock CONSTANT text := '[ T][0-9]{2}(:?[0-9]{2}(:?[0-9]{2}(\.[0-9]{1,9})?)?)?';
    naive CONSTANT text := format('%s(%s)?\s*$', iso, clock);
    zoned CONSTANT text := format('%s%s\s*([zZ]|[+-][0-9]{2}(:?[0-9]{2})?)\s*$', iso, clock);
    body text := regexp_replace(regexp_replace(value, '^\s*(SRID=[0-9]+;)?\s*(Interp=(Discrete|Step|Stepwise|Linear);)?\s*', '', 'i'),
                                '\mPOINT\s*(?:ZM|Z|M)?\s*\(([^()]*)\)', '\1', 'gi');
    srid integer;
    cells text[];
    moments text[];
    times double precision[];
    places @postgis@.geometry[];
BEGIN
    IF body ~ written THEN
        SELECT array_agg(btrim(ele.piece, E'[](){} \t\r\n') ORDER BY ele.nth),
            array_agg(split_part(btrim(ele.piece, E'[](){} \t\r\n'), '@', 2) ORDER BY ele.nth)
        INTO cells, moments FROM regexp_split_to_table(body, ',') WITH ORDINALITY ele (piece, nth);
        IF tz IS NULL AND EXISTS (SELECT FROM unnest(moments) ele (moment) WHERE ele.moment ~ naive) THEN
            PERFORM dbanon_internal.refuse_local_time('One of a moving point does not');
        END IF;
        BEGIN
            SELECT array_agg(CASE WHEN ele.moment ~ zoned THEN extract(epoch FROM ele.moment::timestamptz)::float8 END ORDER BY ele.nth) INTO times
            FROM unnest(moments) WITH ORDINALITY ele (moment, nth);
            IF array_position(times, NULL) IS NOT NULL AND tz IS NOT NULL THEN
                SELECT array_agg(coalesce(ele.t, CASE WHEN ele.moment ~ naive THEN dbanon_internal.read_local(ele.moment::timestamp, tz) END) ORDER BY ele.nth)
                INTO times FROM unnest(times, moments) WITH ORDINALITY ele (t, moment, nth);
            END IF;
            -- Once: for each instant, a text of 10,000 of them would be looked through 10,000 times.
            srid := substring(value FROM '(?i)^\s*SRID=([0-9]+);')::integer;
            SELECT array_agg(CASE
                WHEN spot.place ~* format('^\s*%1$s\s+%1$s(\s+%1$s){0,2}\s*$', number) THEN @postgis@.ST_SetSRID(@postgis@.ST_MakePoint(
                    (regexp_match(spot.place, '\S+'))[1]::float8, (regexp_match(spot.place, '\S+\s+(\S+)'))[1]::float8),
                    coalesce(srid, 0))
                WHEN spot.place ~ '^([0-9A-Fa-f]{2}){21,}$' THEN spot.place::@postgis@.geometry END ORDER BY spot.nth) INTO places
            FROM (SELECT split_part(ele.cell, '@', 1) AS place, ele.nth FROM unnest(cells) WITH ORDINALITY ele (cell, nth)) spot;
        EXCEPTION WHEN data_exception OR internal_error OR invalid_parameter_value THEN
            places := NULL;
        END;
    END IF;
    IF EXISTS (SELECT FROM unnest(times, places) ele (t, place)
               WHERE ele.t IS NULL OR ele.place IS NULL OR @postgis@.GeometryType(ele.place) NOT LIKE 'POINT%')
        OR places IS NULL THEN
        t := 0;
        cell := left(value, 1000);
        RETURN NEXT;
    ELSE
        RETURN QUERY SELECT * FROM unnest(times, places, cells);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.read_moving_instants IS
'Reads the fixes of the text of a tgeompoint: unix seconds, a point, and the fix as it was written; a text with a mistake is one fix without a place.
Raises an error if a time has no zone and none is given.';

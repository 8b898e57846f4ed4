-- Releases as vector tiles, for pg_tileserv and Martin.

CREATE OR REPLACE FUNCTION published.tile(z integer, x integer, y integer, release text, at timestamptz DEFAULT NULL) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    view CONSTANT regclass := (
        SELECT cla.oid FROM pg_class cla WHERE cla.relnamespace = 'published'::regnamespace
            AND cla.relname = regexp_replace(tile.release, '^published\.', '') AND cla.relkind = 'v');
    about published.releases;
    frame @postgis@.geometry;
    near @postgis@.geometry;
    found bytea;
BEGIN
    IF (z BETWEEN 0 AND 31 AND x BETWEEN 0 AND (1::bigint << z) - 1 AND y BETWEEN 0 AND (1::bigint << z) - 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'A tile must have a z from 0 to 31, and an x and a y from 0 to 2^z - 1. Got %/%/%.',
                coalesce(z::text, 'NULL'), coalesce(x::text, 'NULL'), coalesce(y::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Tiles are those of Web Mercator, counted from the north-west.', HINT = 'Begin with 0/0/0, which is the whole world.';
    END IF;
    IF view IS NULL THEN
        RAISE EXCEPTION 'A tile must be of a release. There is none named %.',
                coalesce(quote_literal(regexp_replace(left(release, 60) COLLATE "C", '[^[:print:]]', '?', 'g')), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'The name is the argument release, with or without its schema.', HINT = 'List those you may read: SELECT * FROM published.releases.';
    END IF;
    about := published.about(view);
    frame := @postgis@.ST_TileEnvelope(z, x, y);
    near := published_inner.fitted_area(@postgis@.ST_TileEnvelope(z, x, y, margin => 64.0 / 4096), about);
    IF @postgis@.ST_IsEmpty(near) OR about.extent IS NULL THEN
        RETURN '';
    END IF;
    near := @postgis@.ST_Envelope(near);
    at := coalesce(at, about.since);
    -- Coordinates are whole numbers of the tile's units; what is too small for them is drawn as a square of two.
    EXECUTE format($query$
        WITH near AS MATERIALIZED (
            SELECT clo.cloak_id, clo.record_id, clo.crowd, clo.subjects, clo.valid_from, clo.valid_to,
                @postgis@.ST_Transform(clo.region, 3857) AS shape
            FROM published.%I clo WHERE clo.valid_from BETWEEN $6 AND $2 AND clo.valid_to > $2 AND clo.region OPERATOR(@postgis@.&&) $1
        )
        SELECT @postgis@.ST_AsMVT(feature, $4, 4096, 'region', 'cloak_id')
        FROM (SELECT near.cloak_id, near.record_id, near.crowd, near.subjects,
                  to_char(near.valid_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS valid_from,
                  to_char(near.valid_to AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS valid_to,
                  coalesce(@postgis@.ST_AsMVTGeom(near.shape, $3, 4096, 64, true),
                           @postgis@.ST_AsMVTGeom(@postgis@.ST_Expand(@postgis@.ST_Envelope(near.shape), $5), $3, 4096, 64, true)) AS region
              FROM near OFFSET 0) feature
        WHERE feature.region IS NOT NULL
        $query$, about.name) INTO found USING near, at, frame::@postgis@.box2d, about.name,
        (@postgis@.ST_XMax(frame) - @postgis@.ST_XMin(frame)) / 4096, published_inner.first_from(about, tstzrange(at, at, '[]'));
    RETURN coalesce(found, '');
END
$$;
COMMENT ON FUNCTION published.tile IS
'Draws the rows of a release that hold at a moment as a vector tile (Mapbox, in Web Mercator). For pg_tileserv:
`/published.tile/{z}/{x}/{y}.pbf?release=taxi_k5&at=2026-01-05T08:00Z`.
Arguments:
- z: zoom of the tile.
- x: column of the tile.
- y: row of the tile.
- release: name of the release.
- at: a moment. Default: the first of the release.
Returns: the tile. Its layer has the name of the release, with cloak_id as its key, and record_id, crowd, `subjects`, valid_from and valid_to. It is
empty where there are no rows.
Raises: DA001, DA011.
Example: SELECT length(published.tile(0, 0, 0, ''taxi_k5'')).';

CREATE OR REPLACE FUNCTION published.tile_query(z integer, x integer, y integer, query json) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment timestamptz;
BEGIN
    BEGIN
        moment := query ->> 'at';
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION 'The moment at of a tile must be a time. Got something else.'
            USING ERRCODE = 'DA011', DETAIL = 'It is a word of the query.', HINT = 'Write it like at=2026-01-05T08:00Z, or leave it out.';
    END;
    RETURN published.tile(z, x, y, query ->> 'release', moment);
END
$$;
COMMENT ON FUNCTION published.tile_query IS
'Draws the same tile as published.tile, for Martin: `/tile_query/{z}/{x}/{y}?release=taxi_k5&at=2026-01-05T08:00Z`.
Arguments:
- z: zoom of the tile.
- x: column of the tile.
- y: row of the tile.
- query: a JSON object with release, and with at if another moment than the first is wanted.
Returns: the tile.
Raises: DA001, DA011.
Example: SELECT length(published.tile_query(0, 0, 0, ''{"release": "taxi_k5"}'')).';

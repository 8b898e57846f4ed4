-- Where in their regions people are likely: the surface of a release, made of its rows alone (dbanon/metrics/surface.py).
--
-- A surface is the sums of intensities over all cells below and to the left of each corner, so that four of them give those of any rectangle of
-- cells. The people of a row are by intensity, times a factor that is constant in each of nine parts of its region, since each edge has at least
-- one of its crowd. So a share needs no more than sixteen sums of the surface, and sixteen of the part of it that an area covers.

CREATE OR REPLACE FUNCTION published_inner.fitted_mask(about published.releases, relation regclass, span tstzrange, mask @postgis@.geometry)
RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    about CONSTANT published.releases := published_inner.about_rows(fitted_mask.about, relation);
    fitted CONSTANT @postgis@.geometry := published_inner.fitted_area(mask, about);
    beyond bigint;
BEGIN
    IF @postgis@.ST_IsEmpty(fitted) THEN
        RAISE EXCEPTION 'A mask must be an area near the release. Got an empty one, or one far from it.'
            USING ERRCODE = 'DA011', DETAIL = 'A mask is where people can be.', HINT = 'ST_Buffer makes an area of streets.';
    END IF;
    EXECUTE format($query$
        SELECT count(*) FROM %s clo
        WHERE clo.valid_from BETWEEN $3 AND upper($2) AND tstzrange(clo.valid_from, clo.valid_to) && $2 AND NOT @postgis@.ST_Intersects($1, clo.region)
        $query$, relation) INTO beyond USING fitted, span, published_inner.first_from(about, span);
    IF beyond > 0 THEN
        RAISE NOTICE 'Rows with regions outside the mask: %. Their people are spread evenly.', beyond;
    END IF;
    RETURN fitted;
END
$$;
COMMENT ON FUNCTION published_inner.fitted_mask IS
'A mask in the coordinate system of a release. It refuses an empty one, and a notice counts the rows of the span that lie outside.';

CREATE OR REPLACE FUNCTION published_inner.find_surface(
    about published.releases, relation regclass, span tstzrange, even boolean, mask @postgis@.geometry) RETURNS published_inner.surface
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found published_inner.surface;
BEGIN
    IF relation = to_regclass('pg_temp.asked_rows') AND has_schema_privilege('dbanon_internal', 'USAGE') THEN
        SELECT (ask.surface).* INTO found FROM pg_temp.asked_surface ask;
    ELSE
        -- That of the last part that the span meets: streets are where they were.
        SELECT sur.cell_m, sur.left_column, sur.bottom_row, sur.columns, sur.rows, sur.speed_mps, sur.sums INTO found
        FROM published.surfaces sur WHERE sur.name = about.name AND tstzrange(sur.since, sur.until, '[]') && span ORDER BY sur.since DESC LIMIT 1;
    END IF;
    IF even THEN
        found.sums := NULL;
    END IF;
    IF mask IS NOT NULL AND NOT isempty(span) THEN
        IF found.sums IS NULL THEN
            RAISE EXCEPTION 'A mask must be for people that are spread by a surface. Got %.',
                    CASE WHEN even THEN 'even => true' ELSE format('release %s, which has none', about.name) END
                USING ERRCODE = 'DA011', DETAIL = 'People are then where the surface has them within the mask.', HINT = 'Ask without a mask.';
        END IF;
        found.sums := (published_inner.cover(found, published_inner.fitted_mask(about, relation, span, mask), true)).masses;
    END IF;
    RETURN found;
END
$$;
COMMENT ON FUNCTION published_inner.find_surface IS
'The surface of the rows of a release, or of a run that is asked, during a span: without sums where people are spread evenly, and with nobody outside a
mask, so that rows that lie outside are spread evenly. NULL where they have none.';

CREATE OR REPLACE FUNCTION published_inner.grid_of(surface published_inner.surface) RETURNS double precision[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN surface.sums IS NOT NULL
            THEN ARRAY[surface.cell_m, surface.left_column, surface.bottom_row, surface.columns, surface.rows] END;
COMMENT ON FUNCTION published_inner.grid_of IS
'The side of a cell of a surface, its first column and row, and how many there are. NULL where people are spread evenly.';

CREATE OR REPLACE FUNCTION published_inner.stay_s(surface published_inner.surface, area @postgis@.geometry, step_s double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- People who move straight on at one speed stay pi x area / (perimeter x speed) on average; who stands or turns stays longer, 1.7 times as long on
-- taxis and in generated cities. A position lasts for a step, or about a minute.
RETURN coalesce(coalesce(step_s, 60) + 1.7 * pi() * @postgis@.ST_Area(area) / nullif(@postgis@.ST_Perimeter(area) * surface.speed_mps, 0), 'Infinity');
COMMENT ON FUNCTION published_inner.stay_s IS 'How many seconds apart two looks at an area are, so that what they say is of different people or journeys.';

CREATE OR REPLACE FUNCTION published_inner.near_s() RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
RETURN 300;
COMMENT ON FUNCTION published_inner.near_s IS 'How many seconds before a moment a row that holds at some time may be for its people to be where it says.';

CREATE OR REPLACE FUNCTION published_inner.cover(
    surface published_inner.surface, area @postgis@.geometry, whole boolean, OUT frame integer[], OUT masses integer[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    side CONSTANT double precision := surface.cell_m;
    width CONSTANT integer := surface.columns + 1;
    sums CONSTANT integer[] := surface.sums;
    is_box CONSTANT boolean := @postgis@.ST_Equals(area, @postgis@.ST_Envelope(area));
    x0 CONSTANT double precision := @postgis@.ST_XMin(area) / side - surface.left_column;
    y0 CONSTANT double precision := @postgis@.ST_YMin(area) / side - surface.bottom_row;
    x1 CONSTANT double precision := @postgis@.ST_XMax(area) / side - surface.left_column;
    y1 CONSTANT double precision := @postgis@.ST_YMax(area) / side - surface.bottom_row;
    -- The cells of the surface that the area may meet, and how many.
    i0 CONSTANT integer := CASE WHEN whole THEN 0 ELSE least(greatest(floor(x0), 0), surface.columns) END;
    j0 CONSTANT integer := CASE WHEN whole THEN 0 ELSE least(greatest(floor(y0), 0), surface.rows) END;
    wide CONSTANT integer := CASE WHEN whole THEN surface.columns ELSE least(greatest(ceil(x1), i0), surface.columns) - i0 END;
    high CONSTANT integer := CASE WHEN whole THEN surface.rows ELSE least(greatest(ceil(y1), j0), surface.rows) - j0 END;
    strip @postgis@.geometry;
    at integer;
    run double precision;
    share double precision;
BEGIN
    frame := ARRAY[i0, j0, wide, high];
    masses := array_fill(0, ARRAY[(wide + 1) * (high + 1)]);
    FOR j IN 0 .. high - 1 LOOP
        run := 0;
        IF NOT is_box THEN
            strip := @postgis@.ST_ClipByBox2D(area, @postgis@.ST_MakeEnvelope(
                (surface.left_column + i0) * side, (surface.bottom_row + j0 + j) * side,
                (surface.left_column + i0 + wide) * side, (surface.bottom_row + j0 + j + 1) * side)::@postgis@.box2d);
        END IF;
        FOR i IN 0 .. wide - 1 LOOP
            at := (j0 + j) * width + i0 + i + 1;
            share := CASE
                -- A part of 1e-100 is none: PostgreSQL refuses products that are too small.
                WHEN is_box THEN (greatest(least(x1, i0 + i + 1) - greatest(x0, i0 + i), 1e-100) - 1e-100)
                    * (greatest(least(y1, j0 + j + 1) - greatest(y0, j0 + j), 1e-100) - 1e-100)
                WHEN @postgis@.ST_IsEmpty(strip) THEN 0
                ELSE @postgis@.ST_Area(@postgis@.ST_ClipByBox2D(strip, @postgis@.ST_MakeEnvelope(
                         (surface.left_column + i0 + i) * side, (surface.bottom_row + j0 + j) * side,
                         (surface.left_column + i0 + i + 1) * side, (surface.bottom_row + j0 + j + 1) * side)::@postgis@.box2d)) / (side * side) END;
            run := run + share * (sums[at + width + 1] - sums[at + width] - sums[at + 1] + sums[at]);
            masses[(j + 1) * (wide + 1) + i + 2] := masses[j * (wide + 1) + i + 2] + run;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION published_inner.cover IS
'The part of a surface that an area covers, as sums like those of the surface: frame: its first column and row, and how many there are, which are those
of the surface if whole is true.';

CREATE OR REPLACE FUNCTION published_inner.cover_rows(
    about published.releases, relation regclass, span tstzrange, area @postgis@.geometry, even boolean, mask @postgis@.geometry,
    OUT grid double precision[], OUT whole integer[], OUT sums integer[], OUT frame integer[], OUT masses integer[], OUT stay_s double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    surface CONSTANT published_inner.surface := published_inner.find_surface(about, relation, span, even, mask);
BEGIN
    stay_s := published_inner.stay_s(surface, area, about.step_s);
    IF surface.sums IS NOT NULL AND NOT @postgis@.ST_IsEmpty(area) THEN
        grid := published_inner.grid_of(surface);
        whole := ARRAY[0, 0, surface.columns, surface.rows];
        sums := surface.sums;
        SELECT cov.frame, cov.masses INTO frame, masses FROM published_inner.cover(surface, area, false) cov;
    END IF;
END
$$;
COMMENT ON FUNCTION published_inner.cover_rows IS
'What the rows of a span need to know of their surface and of an area: the grid of published_inner.find_box, the frames and sums of the surface and of the part
that the area covers, NULL where people are spread evenly, and how long people stay.';

CREATE OR REPLACE FUNCTION published_inner.find_corners(frame integer[], box integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN box IS NOT NULL THEN ARRAY[
    LEAST(GREATEST(box[1] - frame[1], 0), frame[3]) + 1, LEAST(GREATEST(box[1] + 1 - frame[1], 0), frame[3]) + 1,
    LEAST(GREATEST(box[3] - 1 - frame[1], 0), frame[3]) + 1, LEAST(GREATEST(box[3] - frame[1], 0), frame[3]) + 1,
    LEAST(GREATEST(box[2] - frame[2], 0), frame[4]) * (frame[3] + 1), LEAST(GREATEST(box[2] + 1 - frame[2], 0), frame[4]) * (frame[3] + 1),
    LEAST(GREATEST(box[4] - 1 - frame[2], 0), frame[4]) * (frame[3] + 1), LEAST(GREATEST(box[4] - frame[2], 0), frame[4]) * (frame[3] + 1)] END;
COMMENT ON FUNCTION published_inner.find_corners IS
'Where sums have the corners of the nine parts of a region: what to add for each of four columns, and of four rows; box: its first column and row of
cells, and those after the last; frame: the first column and row of the sums, and how many columns and rows of cells there are.';

-- PostgreSQL copies an array for each call that it gives it to. So sums are taken by functions that it puts into the statement.
CREATE OR REPLACE FUNCTION published_inner.take_sums(sums integer[], at integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN ARRAY[
    sums[at[5] + at[1]], sums[at[5] + at[2]], sums[at[5] + at[3]], sums[at[5] + at[4]],
    sums[at[6] + at[1]], sums[at[6] + at[2]], sums[at[6] + at[3]], sums[at[6] + at[4]],
    sums[at[7] + at[1]], sums[at[7] + at[2]], sums[at[7] + at[3]], sums[at[7] + at[4]],
    sums[at[8] + at[1]], sums[at[8] + at[2]], sums[at[8] + at[3]], sums[at[8] + at[4]]];
COMMENT ON FUNCTION published_inner.take_sums IS 'The sums at the sixteen corners of a region, row by row; at: as published_inner.find_corners gives them.';

CREATE OR REPLACE FUNCTION published_inner.find_factors(corners integer[], crowd integer, OUT factors double precision[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    least_chance CONSTANT double precision := 1e-10;
    least_rest CONSTANT double precision := exp(-600::double precision / crowd);  -- PostgreSQL refuses very small powers
    others CONSTANT double precision := crowd - 1;
    c CONSTANT double precision[] := corners;
    c_all CONSTANT double precision := c[16] - c[13] - c[4] + c[1];
    r double precision[];
    p double precision[];
    chance double precision;
BEGIN
    IF c_all > 0 IS NOT TRUE THEN
        RETURN;
    END IF;
    -- One after the other, not in a loop, which takes three times as long. The share of the region's intensity that is in it without the outermost cells of
    -- no edge, left, right, both; so for none of bottom and top, for bottom, top, both. Where there is one column, none is left.
    r := ARRAY[
        (c[16] - c[4] - c[13] + c[1]) / c_all, (c[16] - c[4] - c[14] + c[2]) / c_all, (c[15] - c[3] - c[13] + c[1]) / c_all, (c[15] - c[3] - c[14] + c[2]) / c_all,
        (c[16] - c[8] - c[13] + c[5]) / c_all, (c[16] - c[8] - c[14] + c[6]) / c_all, (c[15] - c[7] - c[13] + c[5]) / c_all, (c[15] - c[7] - c[14] + c[6]) / c_all,
        (c[12] - c[4] - c[9] + c[1]) / c_all, (c[12] - c[4] - c[10] + c[2]) / c_all, (c[11] - c[3] - c[9] + c[1]) / c_all, (c[11] - c[3] - c[10] + c[2]) / c_all,
        (c[12] - c[8] - c[9] + c[5]) / c_all, (c[12] - c[8] - c[10] + c[6]) / c_all, (c[11] - c[7] - c[9] + c[5]) / c_all, (c[11] - c[7] - c[10] + c[6]) / c_all];
    -- How likely all others are there. All touch all edges: what is without an edge is taken away, and what is without two was so twice.
    p := ARRAY[
        CASE WHEN r[1] > least_rest THEN (r[1] ^ others) ELSE 0 END, CASE WHEN r[2] > least_rest THEN -(r[2] ^ others) ELSE 0 END,
        CASE WHEN r[3] > least_rest THEN -(r[3] ^ others) ELSE 0 END, CASE WHEN r[4] > least_rest THEN (r[4] ^ others) ELSE 0 END,
        CASE WHEN r[5] > least_rest THEN -(r[5] ^ others) ELSE 0 END, CASE WHEN r[6] > least_rest THEN (r[6] ^ others) ELSE 0 END,
        CASE WHEN r[7] > least_rest THEN (r[7] ^ others) ELSE 0 END, CASE WHEN r[8] > least_rest THEN -(r[8] ^ others) ELSE 0 END,
        CASE WHEN r[9] > least_rest THEN -(r[9] ^ others) ELSE 0 END, CASE WHEN r[10] > least_rest THEN (r[10] ^ others) ELSE 0 END,
        CASE WHEN r[11] > least_rest THEN (r[11] ^ others) ELSE 0 END, CASE WHEN r[12] > least_rest THEN -(r[12] ^ others) ELSE 0 END,
        CASE WHEN r[13] > least_rest THEN (r[13] ^ others) ELSE 0 END, CASE WHEN r[14] > least_rest THEN -(r[14] ^ others) ELSE 0 END,
        CASE WHEN r[15] > least_rest THEN -(r[15] ^ others) ELSE 0 END, CASE WHEN r[16] > least_rest THEN (r[16] ^ others) ELSE 0 END];
    chance := p[1] * r[1] + p[2] * r[2] + p[3] * r[3] + p[4] * r[4] + p[5] * r[5] + p[6] * r[6] + p[7] * r[7] + p[8] * r[8]
        + p[9] * r[9] + p[10] * r[10] + p[11] * r[11] + p[12] * r[12] + p[13] * r[13] + p[14] * r[14] + p[15] * r[15] + p[16] * r[16];
    IF chance < least_chance THEN
        p := ARRAY[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        chance := 1;
    END IF;
    r[1] := 1 / (c_all * chance);
    factors := ARRAY[
        (p[1] + p[3] + p[9] + p[11]) * r[1], (p[2] + p[4] + p[10] + p[12]) * r[1], (p[3] + p[4] + p[11] + p[12]) * -r[1], (p[1] + p[2] + p[9] + p[10]) * -r[1],
        (p[5] + p[7] + p[13] + p[15]) * r[1], (p[6] + p[8] + p[14] + p[16]) * r[1], (p[7] + p[8] + p[15] + p[16]) * -r[1], (p[5] + p[6] + p[13] + p[14]) * -r[1],
        (p[9] + p[11] + p[13] + p[15]) * -r[1], (p[10] + p[12] + p[14] + p[16]) * -r[1], (p[11] + p[12] + p[15] + p[16]) * r[1], (p[9] + p[10] + p[13] + p[14]) * r[1],
        (p[1] + p[3] + p[5] + p[7]) * -r[1], (p[2] + p[4] + p[6] + p[8]) * -r[1], (p[3] + p[4] + p[7] + p[8]) * r[1], (p[1] + p[2] + p[5] + p[6]) * r[1]];
END
$$;
COMMENT ON FUNCTION published_inner.find_factors IS
'By how much the intensities in nine parts of a row''s region are multiplied, as changes at sixteen corners, row by row, given the sums of the surface
there (published_inner.take_sums). NULL where it has no intensity.';

CREATE OR REPLACE FUNCTION published_inner.find_box(grid double precision[], region @postgis@.geometry) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN CASE WHEN (floor(@postgis@.ST_XMax(region) / grid[1]) - floor(@postgis@.ST_XMin(region) / grid[1]) + 1)
                  * (floor(@postgis@.ST_YMax(region) / grid[1]) - floor(@postgis@.ST_YMin(region) / grid[1]) + 1) > 2
    AND floor(@postgis@.ST_XMin(region) / grid[1]) >= grid[2] AND floor(@postgis@.ST_XMax(region) / grid[1]) < grid[2] + grid[4]
    AND floor(@postgis@.ST_YMin(region) / grid[1]) >= grid[3] AND floor(@postgis@.ST_YMax(region) / grid[1]) < grid[3] + grid[5]
    THEN ARRAY[floor(@postgis@.ST_XMin(region) / grid[1]) - grid[2], floor(@postgis@.ST_YMin(region) / grid[1]) - grid[3],
               floor(@postgis@.ST_XMax(region) / grid[1]) - grid[2] + 1, floor(@postgis@.ST_YMax(region) / grid[1]) - grid[3] + 1]::integer[] END;
COMMENT ON FUNCTION published_inner.find_box IS
'The cells of a surface that a region has a part of: its first column and row, and those after the last. NULL where it has two cells or less, and is finer
than the surface; grid: the side of a cell, the first column and row, and how many there are.';

CREATE OR REPLACE FUNCTION published_inner.spread_changes(
    grid double precision[], sums integer[], xs integer[], ys integer[], changes double precision[])
RETURNS TABLE (i bigint, j bigint, people double precision)
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width CONSTANT integer := grid[4] + 1;
    -- Factors of the columns of one row of cells.
    columns double precision[] := array_fill(0::double precision, ARRAY[width]);
    at integer;
    n integer := 1;
    factor double precision;
BEGIN
    -- Changes come by row: what a row of cells has is what the one below had, and what has changed since.
    FOR y IN ys[1] .. ys[cardinality(ys)] - 1 LOOP
        WHILE ys[n] = y LOOP
            columns[xs[n] + 1] := columns[xs[n] + 1] + changes[n];
            n := n + 1;
        END LOOP;
        factor := 0;
        j := grid[3] + y;
        FOR x IN 0 .. grid[4]::integer - 1 LOOP
            factor := factor + columns[x + 1];
            IF factor > 0 THEN
                at := y * width + x + 1;
                people := factor * CASE WHEN sums IS NULL THEN 1 ELSE sums[at + width + 1] - sums[at + width] - sums[at + 1] + sums[at] END;
                IF people > 0 THEN
                    i := grid[2] + x;
                    RETURN NEXT;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION published_inner.spread_changes IS
'How many people are in each cell of a surface, given the factors of rows as changes at corners, in the order of their rows;
sums: of the surface, NULL where all cells have as much.';

CREATE OR REPLACE FUNCTION published_inner.share_inside(factors double precision[], covered integer[], even double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- Nothing or all is said exactly.
RETURN CASE WHEN factors IS NULL OR NOT (even > 0 AND even < 1) THEN even ELSE LEAST(GREATEST(
    factors[1] * covered[1] + factors[2] * covered[2] + factors[3] * covered[3] + factors[4] * covered[4]
    + factors[5] * covered[5] + factors[6] * covered[6] + factors[7] * covered[7] + factors[8] * covered[8]
    + factors[9] * covered[9] + factors[10] * covered[10] + factors[11] * covered[11] + factors[12] * covered[12]
    + factors[13] * covered[13] + factors[14] * covered[14] + factors[15] * covered[15] + factors[16] * covered[16], 0), 1) END;
COMMENT ON FUNCTION published_inner.share_inside IS
'The share of a row''s people that are inside an area as a surface has it, given the row''s factors (published_inner.find_factors), the sums of the part
that the area covers (published_inner.take_sums, published_inner.cover), and the share if people were spread evenly, which it is without a surface.';

-- The rows of runs: which tables hold them, and the view that puts them together.

CREATE OR REPLACE FUNCTION dbanon_internal.list_run_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['region', 'period', 'record', 'membership', 'hiding', 'atom']
$$;
COMMENT ON FUNCTION dbanon_internal.list_run_tables IS
'The one list of the private tables that hold what runs wrote, each with a column run_id: guards, deletion and grants follow it.';

-- A deleted row has the number 0, which no period or region has: the join drops it.
CREATE OR REPLACE VIEW dbanon.cloak AS
SELECT d.run_id, d.record_id, e.seq::integer AS seq, p.period, g.region, g.crowd, g.subjects, g.extra
FROM ONLY dbanon.record d
CROSS JOIN LATERAL unnest(d.periods, d.regions) WITH ORDINALITY e (period_no, region_no, seq)
JOIN ONLY dbanon.period p ON p.run_id = d.run_id AND p.period_no = e.period_no
JOIN ONLY dbanon.region g ON g.run_id = d.run_id AND g.region_no = e.region_no;

CREATE OR REPLACE FUNCTION dbanon_internal.number_region(cloak dbanon.cloak) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number integer;
BEGIN
    SELECT reg.region_no INTO number FROM ONLY dbanon.region reg
        WHERE reg.run_id = cloak.run_id AND reg.crowd = cloak.crowd AND reg.subjects = cloak.subjects
          AND reg.extra::text IS NOT DISTINCT FROM cloak.extra::text
          AND reg.region OPERATOR(@postgis@.=) cloak.region AND reg.region::bytea = cloak.region::bytea
        ORDER BY reg.region_no LIMIT 1;
    IF number IS NULL THEN
        INSERT INTO dbanon.region (run_id, region_no, region, crowd, subjects, extra)
            SELECT cloak.run_id, coalesce(max(reg.region_no), 0) + 1, cloak.region, cloak.crowd, cloak.subjects, cloak.extra
            FROM ONLY dbanon.region reg WHERE reg.run_id = cloak.run_id
            RETURNING region_no INTO number;
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION dbanon_internal.number_region IS 'Finds or stores the region of a row, with its crowd, subjects and extra, and returns its region_no.';

CREATE OR REPLACE FUNCTION dbanon_internal.number_period(cloak dbanon.cloak) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number integer;
BEGIN
    SELECT per.period_no INTO number FROM ONLY dbanon.period per
        WHERE per.run_id = cloak.run_id AND per.period = cloak.period ORDER BY per.period_no LIMIT 1;
    IF number IS NULL THEN
        INSERT INTO dbanon.period (run_id, period_no, period)
            SELECT cloak.run_id, coalesce(max(per.period_no), 0) + 1, cloak.period
            FROM ONLY dbanon.period per WHERE per.run_id = cloak.run_id
            RETURNING period_no INTO number;
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION dbanon_internal.number_period IS 'Finds or stores the period of a row, and returns its period_no.';

CREATE OR REPLACE FUNCTION dbanon_internal.put_row(cloak dbanon.cloak) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    period_no CONSTANT integer := dbanon_internal.number_period(cloak);
    region_no CONSTANT integer := dbanon_internal.number_region(cloak);
    rows integer;
    held dbanon.record;
BEGIN
    IF cloak.seq < 1 THEN
        RAISE EXCEPTION 'Rows of a record must be numbered from 1. Got %.', cloak.seq
            USING ERRCODE = 'check_violation', DETAIL = format('Record %s of run %s.', cloak.record_id, cloak.run_id),
                  HINT = 'Give the row another seq.';
    END IF;
    SELECT rec.* INTO held FROM ONLY dbanon.record rec WHERE rec.run_id = cloak.run_id AND rec.record_id = cloak.record_id;
    IF held.regions[cloak.seq] > 0 AND held.periods[cloak.seq] > 0 THEN
        RAISE EXCEPTION 'The rows of a record must have different numbers. It has a row of number % already.', cloak.seq
            USING ERRCODE = 'unique_violation', DETAIL = format('Record %s of run %s.', cloak.record_id, cloak.run_id),
                  HINT = 'Give the row another seq, or delete that one first.';
    END IF;
    rows := greatest(coalesce(cardinality(held.regions), 0), cloak.seq);
    -- Array elements that were never set are 0.
    held.periods := held.periods || array_fill(0, ARRAY[rows - coalesce(cardinality(held.periods), 0)]);
    held.regions := held.regions || array_fill(0, ARRAY[rows - coalesce(cardinality(held.regions), 0)]);
    held.periods[cloak.seq] := period_no;
    held.regions[cloak.seq] := region_no;
    INSERT INTO dbanon.record (run_id, record_id, periods, regions)
        VALUES (cloak.run_id, cloak.record_id, held.periods, held.regions)
        ON CONFLICT (run_id, record_id) DO UPDATE SET periods = excluded.periods, regions = excluded.regions;
END
$$;
COMMENT ON FUNCTION dbanon_internal.put_row IS 'Stores a row at its place in its record. Raises an error if its number is below 1, or if the place is taken.';

CREATE OR REPLACE FUNCTION dbanon_internal.take_row(cloak dbanon.cloak) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dbanon.record;
    rows integer;
    last boolean;
BEGIN
    SELECT rec.* INTO STRICT held FROM ONLY dbanon.record rec WHERE rec.run_id = cloak.run_id AND rec.record_id = cloak.record_id;
    last := held.periods[cloak.seq] = (SELECT max(per.period_no) FROM ONLY dbanon.period per WHERE per.run_id = cloak.run_id)
        OR held.regions[cloak.seq] = (SELECT max(reg.region_no) FROM ONLY dbanon.region reg WHERE reg.run_id = cloak.run_id);
    held.periods[cloak.seq] := 0;
    held.regions[cloak.seq] := 0;
    SELECT max(ele.place) INTO rows FROM unnest(held.regions) WITH ORDINALITY ele (region_no, place) WHERE ele.region_no > 0;
    IF rows IS NULL THEN
        DELETE FROM dbanon.record rec WHERE rec.run_id = cloak.run_id AND rec.record_id = cloak.record_id;
    ELSE
        UPDATE dbanon.record rec SET periods = held.periods[:rows], regions = held.regions[:rows]
            WHERE rec.run_id = cloak.run_id AND rec.record_id = cloak.record_id;
    END IF;
    RETURN last;
END
$$;
COMMENT ON FUNCTION dbanon_internal.take_row IS
'Takes a row from its record, whose other rows keep their places; returns whether its region or period was the last of the run.';

CREATE OR REPLACE FUNCTION dbanon_internal.drop_unused(run_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOOP
        DELETE FROM dbanon.region reg
            WHERE reg.run_id = drop_unused.run_id
              AND reg.region_no = (SELECT max(reg.region_no) FROM ONLY dbanon.region reg WHERE reg.run_id = drop_unused.run_id)
              AND NOT EXISTS (SELECT FROM ONLY dbanon.record rec WHERE rec.run_id = drop_unused.run_id AND reg.region_no = ANY (rec.regions));
        EXIT WHEN NOT FOUND;
    END LOOP;
    LOOP
        DELETE FROM dbanon.period per
            WHERE per.run_id = drop_unused.run_id
              AND per.period_no = (SELECT max(per.period_no) FROM ONLY dbanon.period per WHERE per.run_id = drop_unused.run_id)
              AND NOT EXISTS (SELECT FROM ONLY dbanon.record rec WHERE rec.run_id = drop_unused.run_id AND per.period_no = ANY (rec.periods));
        EXIT WHEN NOT FOUND;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.drop_unused IS
'Deletes the last regions and periods of a run that no record uses, so that undoing a change leaves what was there before.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_cloak() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last boolean := false;
BEGIN
    -- One writer of a run at a time: all rows of a record are one row of dbanon.record, which is read, changed and written.
    PERFORM FROM ONLY dbanon.run run WHERE run.run_id IN (OLD.run_id, NEW.run_id) ORDER BY run.run_id FOR NO KEY UPDATE;
    IF TG_OP <> 'INSERT' THEN
        IF OLD::text IS DISTINCT FROM (SELECT clo::text FROM dbanon.cloak clo
                                       WHERE (clo.run_id, clo.record_id, clo.seq) = (OLD.run_id, OLD.record_id, OLD.seq)) THEN
            RAISE EXCEPTION 'A row of dbanon.cloak must be as the statement read it. It was changed or deleted meanwhile.'
                USING ERRCODE = 'serialization_failure', DETAIL = format('Record %s of run %s.', OLD.record_id, OLD.run_id),
                      HINT = 'Run the statement again. One that joins must find each row once.';
        END IF;
        last := dbanon_internal.take_row(OLD);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF NEW.run_id IS NULL OR NEW.record_id IS NULL OR NEW.seq IS NULL OR NEW.period IS NULL OR NEW.region IS NULL
            OR NEW.crowd IS NULL OR NEW.subjects IS NULL THEN
            RAISE EXCEPTION 'Every column of dbanon.cloak except extra must have a value. One is null.'
                USING ERRCODE = 'not_null_violation', DETAIL = 'Only extra may be null: all own columns have their defaults.',
                      HINT = 'Give run_id, record_id, seq, period, region, crowd and `subjects`.';
        END IF;
        PERFORM dbanon_internal.put_row(NEW);
    END IF;
    IF last THEN PERFORM dbanon_internal.drop_unused(OLD.run_id); END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_cloak IS
'Lets rows be inserted, changed and deleted through the view dbanon.cloak, one by one: for administrators; runs are written to the tables. Raises an
error if a row has changed since the statement read it, if its place is taken, or if a column except extra is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.unite_cells(cells @postgis@.geometry) RETURNS @postgis@.geometry
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    united @postgis@.geometry := @postgis@.ST_UnaryUnion(cells);
    wider CONSTANT @postgis@.geometry := @postgis@.ST_Buffer(united, 0.001, 'join=mitre');
BEGIN
    -- Cells are neighbours to the millimetre. Those that meet only nearly leave cracks between them, which are gone where the
    -- union is wider: then it is taken back to its size. Where cells fit, the union keeps their own corners.
    IF @postgis@.ST_NumGeometries(wider) <> @postgis@.ST_NumGeometries(united) OR @postgis@.ST_NRings(wider) <> @postgis@.ST_NRings(united)
        OR @postgis@.ST_Perimeter(wider) < @postgis@.ST_Perimeter(united) - 0.1 THEN
        united := @postgis@.ST_Buffer(wider, -0.001, 'join=mitre');
    END IF;
    IF @postgis@.ST_NRings(united) = 1 THEN RETURN united; END IF;
    -- What is smaller than a square metre comes of cells that do not quite fit, unless there is nothing else.
    RETURN (
        SELECT @postgis@.ST_CollectionHomogenize(@postgis@.ST_Collect(part.geom ORDER BY part.place)) FROM (
            SELECT poly.path AS place, row_number() OVER (ORDER BY @postgis@.ST_Area(poly.geom) DESC, poly.path) AS size,
                @postgis@.ST_Area(poly.geom) AS area_m2,
                @postgis@.ST_MakePolygon(@postgis@.ST_ExteriorRing(poly.geom), ARRAY(
                    SELECT @postgis@.ST_ExteriorRing(ring.geom) FROM @postgis@.ST_DumpRings(poly.geom) ring
                    WHERE ring.path[1] > 0 AND @postgis@.ST_Area(ring.geom) >= 1 ORDER BY ring.path)) AS geom
            FROM @postgis@.ST_Dump(united) poly) part
        WHERE part.area_m2 >= 1 OR part.size = 1);
END
$$;
COMMENT ON FUNCTION dbanon_internal.unite_cells IS 'Unites cells to valid polygons without parts or holes of less than a square metre.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_cells(run_id bigint, cell bigint[]) RETURNS TABLE (cell_id bigint, shape bytea)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unknown bigint;
BEGIN
    RETURN QUERY SELECT cel.cell_id, @postgis@.ST_AsBinary(cel.geom, 'NDR')
        FROM ONLY dbanon.run run JOIN ONLY dbanon.cell cel ON cel.dataset_id = run.dataset_id AND cel.cell_id = ANY (cell)
        WHERE run.run_id = read_cells.run_id ORDER BY cel.cell_id;
    GET DIAGNOSTICS unknown = ROW_COUNT;
    unknown := cardinality(cell) - unknown;
    IF unknown > 0 THEN
        RAISE EXCEPTION 'Regions must be made of cells of the run''s dataset. % not there.', dbanon_internal.format_quantity(unknown, 'is', 'are')
            USING ERRCODE = 'DA009', DETAIL = format('Of %s.', dbanon_internal.format_quantity(cardinality(cell), 'distinct cell')),
                  HINT = 'Load the cells again, and start another run.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.read_cells IS 'Gives the polygons of distinct cells. Raises an error if one is not a cell of the run''s dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.add_cell_regions(
    run_id bigint, region_no integer[], size integer[], cell bigint[], crowd integer[], subjects integer[], extra jsonb[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dbanon.region (run_id, region_no, region, cells, crowd, subjects, extra)
        SELECT add_cell_regions.run_id, made.region_no, @postgis@.ST_Multi(uni.region), made.cells,
            made.crowd, made.subjects, made.extra
        FROM (SELECT ele.*, cell[sum(ele.size) OVER before - ele.size + 1 : sum(ele.size) OVER before] AS cells
              FROM unnest(region_no, size, crowd, subjects, extra) WITH ORDINALITY ele (region_no, size, crowd, subjects, extra, place)
              WINDOW before AS (ORDER BY ele.place)) made
        CROSS JOIN LATERAL (
            SELECT dbanon_internal.unite_cells(@postgis@.ST_Collect(cel.geom ORDER BY cel.cell_id)) AS region
            FROM ONLY dbanon.cell cel WHERE cel.cell_id = ANY (made.cells)) uni;
END
$$;
COMMENT ON FUNCTION dbanon_internal.add_cell_regions IS
'Stores regions that are unions of cells, united here: of each its number, how many of the cells, which come one region after the
other, are its own, crowd, subjects and extra.';

# An analyst's walk through docs/analysts; written by python -m tests.acceptance.walks.test_analyst.

psql "host=server dbname=geo user=anna"

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT name, method, k, holds, since, until FROM published.releases;
SELECT obj_description('published.city_k5'::regclass);
SELECT column_name, type, meaning FROM published.columns
WHERE name = 'city_k5' ORDER BY place;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY greatest(
    ST_XMax(region) - ST_XMin(region),
    ST_YMax(region) - ST_YMin(region))) AS longer_side_m
FROM published.city_k5;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT valid_from, sum(subjects) AS people FROM published.city_k5
GROUP BY valid_from ORDER BY valid_from LIMIT 3;
SELECT sum(subjects) AS people FROM published.city_0810;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT * FROM published.count_inside('published.city_k5',
    ST_MakeEnvelope(446000, 5888000, 446500, 5888500, 32632),
    at => '2026-01-05 08:10:00Z');
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT cloaked, crowd, count(*) AS rows, sum(subjects) AS people,
    count(DISTINCT region) AS regions
FROM published.city_0810 GROUP BY cloaked, crowd ORDER BY cloaked;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT ST_X(ST_Centroid(region)) AS x, ST_Y(ST_Centroid(region)) AS y
FROM published.city_0810 WHERE NOT cloaked LIMIT 3;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT name, since, count(*) AS atoms, min(categories), sum(pois) AS pois,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY area_m2) AS median_m2
FROM published.atoms GROUP BY name, since ORDER BY name, since;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT substring(
    obj_description('published.city_k5'::regclass) FROM 'Left out: [^\n]*');
SELECT since, until, percent FROM published.left_out
WHERE name = 'city_k5' ORDER BY since;
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SET TIME ZONE 'Europe/Berlin';
SELECT min(valid_from), max(valid_to) FROM published.city_k5;
SELECT sum(subjects) AS people FROM published.city_k5
WHERE valid_from <= '2026-01-05 08:10:30Z' AND valid_to > '2026-01-05 08:10:30Z';
END

psql -AtX -v ON_ERROR_STOP=1 "host=server dbname=geo user=anna" <<'END'
SELECT name, since, until, k, rows, percent_left_out, places_changed
FROM published.parts ORDER BY name, since;
SELECT count(*) FROM published.city_k5
WHERE valid_from >= '2026-01-05 08:00Z' AND valid_from < '2026-01-05 09:00Z';
END

export DBANON_DSN=postgresql://anna@server/geo

ogrinfo "PG:host=server dbname=geo user=anna schemas=published"
ogr2ogr -f GPKG whole.gpkg \
    "PG:host=server dbname=geo user=anna schemas=published" published.city_k5
ogr2ogr -f GPKG hour.gpkg -where "valid_from < '2026-01-05 09:00Z'" \
    "PG:host=server dbname=geo user=anna schemas=published" published.city_k5

dbanon report city_k5 --for analysts

dbanon export city_k5 city_k5.gpkg

dbanon export city_k5 early.csv \
    --where "valid_from < '2026-01-05 08:10:00Z' AND crowd > 5"

python3 - <<'END'
import dbanon

with dbanon.connect("postgresql://anna@server/geo") as db:
    early = "crowd >= %s AND valid_from < %s"
    rows = db.read("city_k5", where=early, params=[5, "2026-01-05 08:10:00Z"])
    db.export("city_k5", "city_k5.fgb")

people = rows.groupby("valid_from")["subjects"].sum()
print(rows.crs.to_epsg(), people.iloc[0], rows.attrs["promise"].split(":")[0])
END

python3 - <<'END'
import geopandas
import sqlalchemy

engine = sqlalchemy.create_engine("postgresql+psycopg://anna@server/geo")
query = sqlalchemy.text("""
    SELECT cloak_id, record_id, seq, valid_from, valid_to, region, crowd, subjects
    FROM published.city_k5 WHERE valid_from < '2026-01-05 08:10:00Z'
""")
rows = geopandas.read_postgis(query, engine, geom_col="region", index_col="cloak_id")

people = rows.groupby("valid_from")["subjects"].sum()
print(rows.crs.to_epsg(), people.iloc[0])
rows.to_parquet("city_k5.parquet")
END

python3 - <<'END'
import geoalchemy2
from sqlalchemy import BigInteger, Column, MetaData, Table, create_engine, func, select

key = Column("cloak_id", BigInteger, primary_key=True)
engine = create_engine("postgresql+psycopg://anna@server/geo")
city = Table("city_k5", MetaData(), key, schema="published", autoload_with=engine)

square = func.ST_MakeEnvelope(446000, 5888000, 446500, 5888500, city.c.region.type.srid)
at_most = (
    select(city.c.valid_from, func.sum(city.c.subjects).label("people"))
    .where(func.ST_Intersects(city.c.region, square))
    .group_by(city.c.valid_from)
    .order_by(city.c.valid_from)
)
with engine.connect() as connection:
    for row in connection.execute(at_most.limit(3)):
        print(row.valid_from, row.people)
END

psql -AtqX -v release=city_0810 -f map.sql "host=server dbname=geo user=anna" > map.svg

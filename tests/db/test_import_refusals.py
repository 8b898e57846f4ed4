"""What imports in SQL refuse, for whom they work, and what they share."""

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from psycopg import sql

from dbanon.base.errors import DataError, ParameterError, StoreError
from dbanon.testing import database_url
from tests.facts import demand_named
from tests.importing import (
    CALLS,
    CELLS,
    POIS,
    SIGHTINGS,
    SQUARE,
    call,
    catch_refusal,
    fetch_everything,
    make_areas,
    make_calls,
    make_seen,
    make_shops,
    settle,
)

# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.many
@pytest.mark.parametrize(
    ("statement", "family", "facts"),
    [
        (
            POIS.replace("town", "twon"),
            ParameterError,
            ("'twon'", "'town'"),
        ),
        (
            POIS.replace("town", "xyz"),
            ParameterError,
            ("'xyz'", "'ten'", "'town'"),
        ),
        (
            POIS.replace("'kind'", "'knid'"),
            DataError,
            ("public.shops", "'knid'", "kind, geom, at"),
        ),
        (
            POIS.replace("'kind'", "'geom'"),
            ParameterError,
            ("category and geometry", "'geom'"),
        ),
        (
            POIS.replace("'kind'", "NULL"),
            ParameterError,
            ("category and geometry", "NULL"),
        ),
        (
            POIS + ", geom => 'at'",
            DataError,
            ("'at'", "geometry", "date", "ST_SetSRID(ST_MakePoint(lon, lat), 4326)"),
        ),
        (
            POIS + ", crs => 'EPSG:99'",
            ParameterError,
            ("spatial_ref_sys", "'EPSG:99'", "EPSG:4326"),
        ),
        (
            POIS.replace("'public.shops'", "'public.shops_pkey'"),
            DataError,
            ("source", "table or a view", "something else"),
        ),
        (
            POIS.replace("'public.shops'", "NULL"),
            DataError,
            ("source", "table or a view", "NULL"),
        ),
        (
            "SELECT * FROM dbanon.import_pois('public.broken', dataset => 'town', category => 'kind'",
            DataError,
            ("public.broken", "SQLSTATE 22012"),
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{}', 'kind', 'at'",
            ParameterError,
            ("request", "one column", "none", "--columns poi,radius"),
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{at}', 'kind', 'at'",
            ParameterError,
            ("content of a request", "'at'"),
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{geom,geom}', 'kind', 'at'",
            ParameterError,
            ("columns of the content", "'geom'"),
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{geom}', 'kind', 'at'",
            ParameterError,
            ("zone", "'at'", "date", "--tz UTC"),
        ),
        (
            "SELECT * FROM dbanon.import_requests('public.shops', 'town', '{geom}', 'kind', 'at', 'UTC+2'",
            ParameterError,
            ("time zone", "'UTC+2'", "--tz UTC"),
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.shops', 'town', 'at', 'kind'",
            DataError,
            ("unparsable-time", "written like AAAA. ", "--time-format"),
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.shops', 'town', 'at', 'at'",
            ParameterError,
            ("person and time", "'at'"),
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.blurred', 'town'",
            DataError,
            ("'subject'", "spellings", "lower(x)::text"),
        ),
        (
            "SELECT * FROM dbanon.import_quasi_identifiers('public.digits', 'town'",
            DataError,
            ("unix times", "2100", "YYYYMMDDhhmmss"),
        ),
    ],
)  # fmt: skip
def test_every_refusal_names_what_is_wrong_and_what_to_do(town, statement, family, facts):
    town.execute("CREATE TABLE public.shops (kind text PRIMARY KEY, geom geometry, at date)")
    town.execute("INSERT INTO public.shops VALUES ('cafe', 'SRID=4326;POINT(8.2 53.1)', '2008-06-04')")
    town.execute(
        "CREATE VIEW public.broken AS SELECT kind || 1 / length(left(kind, 0)) AS kind, geom FROM public.shops"
    )
    town.execute("CREATE COLLATION public.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    town.execute("CREATE TABLE public.blurred (subject text COLLATE public.blind, time int)")
    town.execute("CREATE VIEW public.digits AS SELECT 'a' AS subject, 20080604090000 AS time")
    error = catch_refusal(town, statement)
    assert type(error) is family
    demand_named(str(error), *facts)


@pytest.fixture
def operator(database, login) -> Iterator[psycopg.Connection]:
    """An operator who may read table public.shops, in a database with the dataset town; `owner` made them."""
    with psycopg.connect(database, autocommit=True) as owner:
        settle(owner)
        make_shops(owner, ("cafe", "POINT(8.2 53.1)"), ("bar", "POINT(8.2 53.1)"))
        make_areas(owner, ("north", SQUARE))
        make_calls(owner, ("a", 1212562800, "pharmacy", "5"))
        make_seen(owner, ("a", 1212562800))
        owner.execute("CREATE TABLE public.secret AS TABLE public.shops")
        owner.execute("CREATE SCHEMA hidden")
        owner.execute("CREATE TABLE hidden.shops AS TABLE public.shops")
        url = login("dbanon_operator")
        grant = "GRANT SELECT ON public.shops, public.areas, public.calls, public.seen, hidden.shops TO dbanon_operator"
        owner.execute(grant)
        owner.execute("GRANT SELECT (kind) ON public.secret TO dbanon_operator")
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


def test_an_operator_imports_with_rights_of_its_own(operator):
    for statement in (POIS, CELLS, CALLS, SIGHTINGS):
        assert call(operator, statement)[1] >= 1
    assert fetch_everything(operator, "SELECT DISTINCT loaded_by = session_user FROM dbanon.load") == [(True,)]
    for statement in (POIS, CELLS, SIGHTINGS):
        call(operator, statement, ", replace => true")


@pytest.mark.parametrize("source", ["public.secret", "hidden"])
def test_a_table_that_the_login_may_not_read_is_not_read(database, operator, source):
    if source == "hidden":
        with psycopg.connect(database) as owner:
            found = owner.execute("SELECT 'hidden.shops'::regclass::oid").fetchone()
        assert found
        statement, name = POIS.replace("'public.shops'", str(found[0])), "hidden.shops"
        right = "USAGE ON SCHEMA hidden"
    else:
        statement, name = POIS.replace("public.shops", source), source
        right = f"SELECT ON {source}"
    error = catch_refusal(operator, statement)
    assert isinstance(error, StoreError)
    demand_named(str(error), name, f"GRANT {right} TO {operator.info.user};")


def test_the_rights_that_a_login_lacks_can_be_typed_as_the_hint_has_them(database, operator):
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute('CREATE SCHEMA "Odd one"; CREATE TABLE "Odd one"."Its shops" AS TABLE public.shops')
        found = owner.execute("""SELECT '"Odd one"."Its shops"'::regclass::oid""").fetchone()
        assert found
        statement = POIS.replace("'public.shops'", str(found[0]))
        with pytest.raises(psycopg.Error) as caught:
            operator.execute(statement + ")")
        owner.execute((caught.value.diag.message_hint or "").partition(": ")[2])
    assert call(operator, statement)[1] >= 1


def test_row_level_security_that_hides_rows_is_refused(database, operator):
    with psycopg.connect(database) as owner:
        owner.execute("ALTER TABLE public.shops ENABLE ROW LEVEL SECURITY")
    error = catch_refusal(operator, POIS)
    assert isinstance(error, DataError)
    demand_named(str(error), "row-level security", "public.shops", "this login")


@pytest.mark.parametrize("role", ["dbanon_worker", "dbanon_analyst"])
def test_workers_and_analysts_import_nothing(connection, operator, login, role):
    connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC")
    with psycopg.connect(login(role), autocommit=True) as opened:
        for statement in (POIS, CELLS, CALLS, SIGHTINGS):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                call(opened, statement)


def test_a_worker_reads_what_was_imported(operator, login):
    with psycopg.connect(login("dbanon_worker"), autocommit=True) as opened:
        for name in ("poi", "cell", "quasi_identifier"):
            opened.execute(sql.SQL("SELECT * FROM dbanon.{}").format(sql.Identifier(name)))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                opened.execute(sql.SQL("DELETE FROM dbanon.{}").format(sql.Identifier(name)))


def test_one_load_into_a_dataset_waits_for_another(operator):
    with psycopg.connect(database_url(operator.info.dsn, password=operator.info.password)) as other:
        operator.execute("SET lock_timeout = '50ms'")
        other.execute("SELECT dbanon_internal.lock_dataset('town')")
        for statement in (POIS, CELLS, CALLS, SIGHTINGS):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                call(operator, statement)


# ---- what imports share ----------------------------------------------------------------------------------------------


def test_the_reach_of_a_dataset_is_three_times_the_extent_of_most_of_it(connection):
    connection.execute("INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s) VALUES ('town', 32632, 1, 1)")
    ((dataset,),) = fetch_everything(connection, "SELECT dataset_id FROM dbanon.dataset WHERE name = 'town'")
    query = f"SELECT * FROM dbanon_internal.find_trajectory_bounds({dataset})"
    assert fetch_everything(connection, query) == [(-np.inf, np.inf, -np.inf, np.inf)]
    x, y = np.random.default_rng(3).uniform(0, 20000, (2, 300)).round()
    x[0] = 9e6
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) VALUES (%s, %s, 's', "
            "ST_SetSRID(ST_MakePointM(%s, %s, 0), 32632))",
            [(1000 + i, dataset, *place) for i, place in enumerate(zip(x.tolist(), y.tolist(), strict=True))],
        )
    places = np.unique(np.round(np.column_stack([x, y]) / 100), axis=0) * 100
    cut = int((0.02 + 1 / len(places)) * len(places))
    spans = []
    for axis in np.sort(places, axis=0).T:
        low, high = axis[cut], axis[len(axis) - 1 - cut]
        spans += [low - 3 * (high - low), high + 3 * (high - low)]
    assert fetch_everything(connection, query) == [tuple(spans)]

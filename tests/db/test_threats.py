"""What a login could do to dbanon from outside its rights, each with the protection that stops it."""

from collections.abc import Callable

import psycopg
import pytest

from dbanon import releases, schema
from dbanon.base.errors import DataError, ParameterError, StoreError, VerificationFailed
from dbanon.database import open_database
from dbanon.options.publishing import Publishing
from dbanon.postgres.connection import translate_errors
from tests.facts import expect_refusal


def test_a_function_of_somebody_else_cannot_take_the_place_of_one_of_postgis(
    connection: psycopg.Connection, run: int
) -> None:
    bounds = "SELECT xmin, ymax FROM dbanon_internal.gather_region_evidence(%s) ORDER BY 1, 2"
    before = connection.execute(bounds, [run]).fetchall()
    for name in ("st_xmin", "st_ymin", "st_xmax", "st_ymax"):
        connection.execute(
            f"CREATE FUNCTION public.{name}(geometry) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 0::float8'"
        )
    assert connection.execute(bounds, [run]).fetchall() == before


def test_a_database_in_which_everybody_may_create_beside_postgis_is_not_upgraded(
    database: str, connection: psycopg.Connection
) -> None:
    connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with pytest.raises(StoreError, match="REVOKE CREATE ON SCHEMA public FROM PUBLIC"):
        schema.upgrade(database, share_roles=True)


def test_an_analyst_cannot_hold_up_a_publication(
    connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    with psycopg.connect(login("dbanon_analyst"), autocommit=True) as analyst:
        analyst.execute("SELECT pg_advisory_lock(hashtextextended('dbanon.publish ten', 0))")
        connection.execute("SET statement_timeout = '10s'")
        connection.execute("SELECT dbanon.publish(%s, 'ten')", [run])


def test_a_dataset_with_trajectories_keeps_its_srid_and_a_new_grid_is_a_new_revision(
    connection: psycopg.Connection, run: int
) -> None:
    with pytest.raises(DataError, match="SRID"), translate_errors():
        connection.execute("UPDATE dbanon.dataset SET srid = 3857")
    connection.execute("UPDATE dbanon.dataset SET grid_m = grid_m * 2")
    connection.execute("UPDATE dbanon.dataset SET grid_m = grid_m / 2")
    with pytest.raises(VerificationFailed, match="changed"), translate_errors():
        releases.publish(connection, run, "ten", Publishing())


def test_what_a_run_says_it_left_out_is_part_of_what_was_verified(connection: psycopg.Connection, run: int) -> None:
    connection.execute("""UPDATE dbanon.run SET suppressed = '{"subjects": {"absent_at_some_instant": 7}}'""")
    with pytest.raises(VerificationFailed, match="changed"), translate_errors():
        releases.publish(connection, run, "ten", Publishing())


@pytest.mark.parametrize("shape", ["ST_Force3DM(region)", "ST_ForceCurve(region)", "ST_Multi(region)"])
def test_a_region_that_is_no_plain_polygon_is_no_rectangle(
    connection: psycopg.Connection, run: int, shape: str
) -> None:
    connection.execute(f"UPDATE dbanon.cloak SET region = {shape}")
    # A change leaves the region it was made from.
    query = """SELECT bool_or(rectangle), count(*) FROM dbanon_internal.gather_region_evidence(%s)
        WHERE region_no IN (SELECT unnest(regions) FROM dbanon.record)"""
    assert connection.execute(query, [run]).fetchone() == (False, 3)


def test_a_login_that_may_not_write_cloaks_leaves_no_run_behind(
    connection: psycopg.Connection, run: int, login: Callable[[str], str]
) -> None:
    with open_database(login("dbanon_operator")) as database, pytest.raises(StoreError, match="dbanon_worker"):
        database.run("tp-aware", dataset="city")
    assert connection.execute("SELECT count(*) FROM dbanon.run").fetchone() == (1,)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
@pytest.mark.parametrize("verb", ["run", "submit"])
def test_a_seed_out_of_range_is_a_parameter_error(database: str, verb: str, seed: int) -> None:
    with open_database(database) as opened, expect_refusal(ParameterError, "seed", ">= 0", "2^63", seed):
        getattr(opened, verb)("tp-aware", dataset="city", seed=seed)

"""Releases as tables of SQLAlchemy, made and queried with an analyst's login."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import geopandas
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from geoalchemy2 import Geometry
from geoalchemy2.shape import to_shape
from psycopg import sql
from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSTZRANGE
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.pool import NullPool

from dbanon import models
from dbanon.base.errors import ParameterError, StoreError
from dbanon.testing import cloned_database, database_url, logins
from tests.facts import demand_named, expect_refusal

if TYPE_CHECKING:
    from dbanon.postgres.server import Target

UNUSUAL = 'Städte "Süd"\'s 100 % :k %(k)s'
# Views made by hand: one with columns that no family has so far, one with a name that no release may have.
BY_HAND = """
CREATE VIEW published.by_hand AS SELECT *, ARRAY['a', 'b'] AS tags, 7 AS "Größe ""m"" %" FROM published.ten;
CREATE VIEW published.{name} AS SELECT * FROM published.ten;
GRANT SELECT ON published.by_hand, published.{name} TO dbanon_analyst"""
LISTS = {"published.releases", "published.parts", "published.columns", "published.left_out", "published.atoms"}
IS_FREE = "BEGIN; LOCK TABLE published.ten IN ACCESS EXCLUSIVE MODE NOWAIT; COMMIT"


def make_engine(url: str) -> Engine:
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


@pytest.fixture(scope="module")
def owner(dbanon_server: "Target", ten_template: str) -> Iterator[psycopg.Connection]:
    """Connection to a database with the release ``ten`` of all analysts, ``audited`` of a role, and one withdrawn."""
    with cloned_database(dbanon_server, ten_template) as url, psycopg.connect(url, autocommit=True) as owner:
        owner.execute("SELECT dbanon.publish(1, 'gone')")
        owner.execute("SELECT dbanon.unpublish('gone')")
        owner.execute("SELECT dbanon.publish(1, 'ten')")
        owner.execute("SELECT dbanon.publish(1, 'audited', readers => ARRAY['pg_monitor'])")
        owner.execute(sql.SQL(BY_HAND).format(name=sql.Identifier(UNUSUAL)))
        yield owner


@pytest.fixture(scope="module")
def published(owner: psycopg.Connection, dbanon_server: "Target") -> Iterator[Callable[[str], str]]:
    """Makes logins on the database of `owner`."""
    with logins(database_url(dbanon_server.url, dbname=owner.info.dbname)) as login:
        yield login


@pytest.fixture(scope="module")
def engine(published: Callable[[str], str]) -> Engine:
    return make_engine(published("analyst"))


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:  # type: ignore[override]
    with engine.connect() as opened:
        yield opened


def test_the_table_of_a_release_has_the_types_of_its_columns(engine: Engine) -> None:
    ten = models.release(engine, "ten")
    assert (ten.schema, ten.name) == ("published", "ten")
    region = ten.c.region.type
    assert isinstance(region, Geometry)
    assert (region.geometry_type, region.srid, region.dimension) == ("POLYGON", 32610, 2)
    assert isinstance(ten.c.period.type, TSTZRANGE)
    assert isinstance(ten.c.requests.type, JSONB)
    assert isinstance(ten.c.cloak_id.type, BigInteger)
    assert isinstance(ten.c.crowd.type, Integer)
    assert isinstance(ten.c.valid_from.type, TIMESTAMP)
    assert ten.c.valid_from.type.timezone
    assert [column.name for column in ten.primary_key] == ["cloak_id"]


def test_the_table_says_what_the_release_and_its_catalogue_say(connection: Connection) -> None:
    ten = models.release(connection, "ten")
    columns = models.reflect(connection).tables["published.columns"]
    meant = select(columns.c.column_name, columns.c.meaning).where(columns.c.name == "ten").order_by(columns.c.place)
    assert [(column.name, column.comment) for column in ten.c] == list(map(tuple, connection.execute(meant)))
    assert ten.c.crowd.comment
    promise = connection.scalar(text("SELECT obj_description('published.ten'::regclass)"))
    assert ten.comment == promise
    assert "k is 5" in promise


def test_arrays_and_unusual_names_of_columns_are_read_as_others_are(connection: Connection) -> None:
    odd = models.release(connection, "by_hand")
    assert isinstance(odd.c.tags.type, ARRAY)
    assert isinstance(odd.c.tags.type.item_type, Text)
    rows = connection.execute(select(odd.c.tags, odd.c['Größe "m" %']).where(odd.c['Größe "m" %'] == 7)).all()
    assert list(map(tuple, rows)) == [(["a", "b"], 7)] * 4


def test_a_select_gives_python_what_the_columns_hold(connection: Connection) -> None:
    ten = models.release(connection, "ten")
    row = connection.execute(select(ten).order_by(ten.c.record_id, ten.c.seq)).first()
    assert row is not None
    assert (row.seq, row.crowd, row.subjects) == (1, 5, 5)
    assert row.valid_from == datetime(2008, 6, 4, 8, tzinfo=UTC)
    assert row.period.lower == row.valid_from
    assert to_shape(row.region).area == 3600
    at = datetime(2008, 6, 4, 8, 1, 30, tzinfo=UTC)
    within = select(func.sum(ten.c.subjects)).where(ten.c.valid_from <= at, ten.c.valid_to > at)
    assert connection.scalar(within) == 10
    assert connection.scalar(select(func.sum(ten.c.subjects)).where(ten.c.period.op("@>")(at))) == 10


def test_regions_are_chosen_by_functions_of_postgis(connection: Connection) -> None:
    ten = models.release(connection, "ten")
    area = func.ST_MakeEnvelope(0, 0, 50, 50, ten.c.region.type.srid)
    people = select(func.sum(ten.c.subjects)).where(func.ST_Intersects(ten.c.region, area))
    assert connection.scalar(people) == 10
    assert connection.scalar(people.where(ten.c.seq == 2)) == 5
    assert connection.scalar(select(func.max(func.ST_Area(ten.c.region)))) == 3600


def test_geopandas_reads_a_select(engine: Engine) -> None:
    ten = models.release(engine, "ten")
    rows = select(ten.c.cloak_id, ten.c.valid_from, ten.c.region, ten.c.subjects).order_by(ten.c.cloak_id)
    frame = geopandas.read_postgis(rows, engine, geom_col="region", index_col="cloak_id")
    assert frame.crs.to_epsg() == 32610
    assert frame.area.to_list() == [3600] * 4
    assert frame["subjects"].sum() == 20
    assert list(frame.index) == [1, 2, 3, 4]


def test_the_orm_maps_a_release_by_its_key(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Row(Base):
        __table__ = models.release(engine, "ten")

    with Session(engine) as session:
        row = session.get(Row, 3)
        assert row is not None
        assert (row.cloak_id, row.crowd) == (3, 5)
        assert len(session.scalars(select(Row).where(Row.seq == 1)).all()) == 2
        assert models.release(session.connection(), "ten").c.keys() == Row.__table__.c.keys()


@pytest.mark.parametrize("name", ["absent", "gone", "audited", "releases", "TEN", 'ten"; SELECT 1 --', "", UNUSUAL])
def test_what_is_no_release_of_this_login_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        models.release(engine, name)
    said = str(caught.value)
    assert repr(name) in said
    assert set(re.findall(r"'(\w+)'", said.replace(repr(name), "", 1))) == {"ten", "by_hand"}


def test_another_driver_and_a_server_that_refuses_are_named(published: Callable[[str], str]) -> None:
    with expect_refusal(ParameterError, "pysqlite", "postgresql+psycopg"):
        models.release(create_engine("sqlite://"), "ten")
    url = published("analyst")
    with pytest.raises(StoreError) as caught:
        models.release(make_engine(database_url(url, user="dbanon_unknown")), "ten")
    assert caught.value.sqlstate in ("28000", "28P01")  # by peer or by password, as the server asks
    with pytest.raises(StoreError) as caught:
        models.reflect(make_engine(database_url(url, host="127.0.0.1", port="1")))
    assert caught.value.sqlstate == "08001"


def test_a_connection_is_left_as_it_was(connection: Connection, owner: psycopg.Connection) -> None:
    connection.execute(text("SET search_path = published, public"))
    connection.commit()
    for read in (lambda: models.release(connection, "ten"), lambda: models.reflect(connection)):
        read()
        assert not connection.in_transaction()
        with connection.begin():
            connection.execute(text("CREATE TEMPORARY TABLE kept AS SELECT 1 AS one"))
            read()
            with pytest.raises(ParameterError):
                models.release(connection, "absent")
            assert connection.scalar(text("SHOW search_path")) == "published, public"
            owner.execute(IS_FREE)
            assert connection.scalar(text("SELECT one FROM kept")) == 1
            connection.execute(text("DROP TABLE kept"))


def test_a_connection_may_commit_every_statement(engine: Engine, owner: psycopg.Connection) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert isinstance(models.release(connection, "ten").c.region.type, Geometry)
        owner.execute(IS_FREE)


def test_what_goes_while_all_is_read_is_left_out_or_said(engine: Engine, owner: psycopg.Connection) -> None:
    at, number, ends = 0, 0, set()

    def drop(*_: object) -> None:
        nonlocal number
        number += 1
        if number == at:
            owner.execute("DROP VIEW published.brief")

    event.listen(engine, "before_cursor_execute", drop)
    try:
        while at <= number:  # before each of SQLAlchemy's queries once, until there is none left
            owner.execute("CREATE VIEW published.brief AS SELECT 1 AS one")
            owner.execute("GRANT SELECT ON published.brief TO dbanon_analyst")
            at, number = at + 1, 0
            try:
                found = models.reflect(engine).tables
                ends.add("read" if "published.brief" in found else "left out")
                assert found.keys() - {"published.brief"} == {*LISTS, "published.ten", "published.by_hand"}
            except StoreError as error:
                ends.add("said")
                demand_named(str(error), "withdrawn", "again")
    finally:
        event.remove(engine, "before_cursor_execute", drop)
        owner.execute("DROP VIEW IF EXISTS published.brief")
    assert ends >= {"left out", "said"}


def test_a_login_finds_what_it_may_read_and_nothing_else(published: Callable[[str], str], engine: Engine) -> None:
    found = models.reflect(engine).tables
    assert found.keys() == {*LISTS, "published.ten", "published.by_hand"}
    assert [column.name for column in found["published.ten"].primary_key] == ["cloak_id"]
    with engine.connect() as connection:
        for name in found:
            connection.execute(select(found[name]).limit(1))
    operators = models.reflect(make_engine(published("operator"))).tables
    assert {"dbanon.runs", "dbanon.releases", "dbanon.release", "published.audited", *LISTS} <= operators.keys()
    assert {"dbanon.worker", "dbanon.cloak", "dbanon.population"} & operators.keys() == set()
    assert isinstance(operators["dbanon.release"].c.readers.type, ARRAY)
    assert models.reflect(make_engine(published("pg_monitor"))).tables.keys() == {*LISTS, "published.audited"}
    assert models.reflect(make_engine(published("pg_checkpoint"))).tables == {}


# ---- a user's own Alembic --------------------------------------------------------------------------------------------


def list_proposals(engine: Engine, mine: MetaData, **words: object) -> list[str]:
    """The operations by which Alembic would make the database what the user's own tables say."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_schemas": True, **words})
        operations = [operation for operation in compare_metadata(context, mine) if isinstance(operation, tuple)]
    return [f"{operation[0]} {getattr(operation[1], 'schema', None)}.{operation[1].name}" for operation in operations]


@pytest.mark.filterwarnings("ignore:Did not recognize type")  # of what is compared where nobody says include_name
def test_alembic_of_a_user_lets_dbanon_alone(owner: psycopg.Connection, dbanon_server: "Target") -> None:
    engine = make_engine(database_url(dbanon_server.url, dbname=owner.info.dbname))
    owner.execute("CREATE SCHEMA shop; CREATE TABLE shop.old (id int PRIMARY KEY); CREATE TABLE shop.kept (id int)")
    mine = MetaData()
    Table("kept", mine, Column("id", Integer), schema="shop")
    Table("new", mine, Column("id", Integer, primary_key=True))
    assert "remove_table dbanon.run" in list_proposals(engine, mine)
    proposed = list_proposals(engine, mine, include_name=models.include_name)
    assert sorted(proposed) == ["add_table None.new", "remove_table shop.old"]

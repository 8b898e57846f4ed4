"""The tables of schema dbanon as SQLAlchemy classes, for programs that read them.

The revisions in ``migrations/`` make the tables; a test holds these classes against the catalog. Nothing in dbanon
imports them, because psycopg and Arrow are faster and starting is too.
"""

from datetime import datetime
from typing import Any

from geoalchemy2 import Geometry, WKBElement
from psycopg.types.range import TimestamptzRange
from sqlalchemy import BigInteger, ForeignKey, LargeBinary, MetaData, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, OID, TIMESTAMP, TSTZRANGE
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import Double, UserDefinedType

_PATH = Geometry(geometry_type=None, spatial_index=False)


class Session(UserDefinedType[str]):
    """``dbanon.session``, as the server writes it."""

    def get_col_spec(self, **_: Any) -> str:
        """Name the type."""
        return "dbanon.session"


class Base(DeclarativeBase):
    """Base of all models; ``Base.metadata`` holds the tables."""

    metadata = MetaData(schema="dbanon")
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        str: Text,
        int: BigInteger,
        float: Double,
        bytes: LargeBinary,
        datetime: TIMESTAMP(timezone=True),
        dict[str, Any]: JSONB,
        list[dict[str, Any]]: JSONB,
    }


class Dataset(Base):
    """A named collection in one SRID with one space grid and one time grid."""

    __tablename__ = "dataset"
    dataset_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    srid: Mapped[int]
    grid_m: Mapped[float]
    grid_s: Mapped[int]
    day_zone: Mapped[str | None]
    revision: Mapped[int]
    created_at: Mapped[datetime]
    created_by: Mapped[str]


class Trajectory(Base):
    """One path of one subject; M is unix seconds."""

    __tablename__ = "trajectory"
    trajectory_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    subject: Mapped[str]
    path: Mapped[WKBElement] = mapped_column(_PATH)
    shape: Mapped[WKBElement | None] = mapped_column(Geometry(geometry_type=None, spatial_index=False))


class Load(Base):
    """One load of files, and what became of their rows."""

    __tablename__ = "load"
    load_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    kind: Mapped[str]
    source: Mapped[str]
    rows_read: Mapped[int]
    rows_kept: Mapped[int]
    quarantined: Mapped[dict[str, Any]]
    loaded_at: Mapped[datetime]
    loaded_by: Mapped[str]


class Quarantine(Base):
    """A row a load could not use."""

    __tablename__ = "quarantine"
    quarantine_id: Mapped[int] = mapped_column(primary_key=True)
    load_id: Mapped[int] = mapped_column(ForeignKey("dbanon.load.load_id"))
    line: Mapped[int | None]
    reason: Mapped[str]
    content: Mapped[dict[str, Any] | None] = mapped_column(JSONB)


class Request(Base):
    """A request a subject sent to a location based service."""

    __tablename__ = "request"
    request_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    subject: Mapped[str]
    sent_at: Mapped[datetime]
    content: Mapped[dict[str, Any]]


class Site(Base):
    """A sensitive site."""

    __tablename__ = "site"
    site_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    name: Mapped[str | None]
    geom: Mapped[WKBElement] = mapped_column(_PATH)


class Poi(Base):
    """A point of interest."""

    __tablename__ = "poi"
    poi_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    category: Mapped[str]
    geom: Mapped[WKBElement] = mapped_column(_PATH)


class Cell(Base):
    """The area a base station covers."""

    __tablename__ = "cell"
    cell_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    name: Mapped[str | None]
    geom: Mapped[WKBElement] = mapped_column(_PATH)


class QuasiIdentifier(Base):
    """A time at which an adversary may know where a subject was."""

    __tablename__ = "quasi_identifier"
    quasi_identifier_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    subject: Mapped[str]
    at: Mapped[datetime]
    set_name: Mapped[str]


class Method(Base):
    """A method family as the database knows it."""

    __tablename__ = "method"
    name: Mapped[str] = mapped_column(primary_key=True)
    summary: Mapped[str]
    guarantee: Mapped[str]
    region_type: Mapped[str]
    attack: Mapped[str]
    algorithms: Mapped[list[dict[str, Any]]]
    columns: Mapped[list[dict[str, Any]]]
    paper: Mapped[str]
    adversary: Mapped[str]
    row_meaning: Mapped[str]
    left_out: Mapped[str]
    parameters: Mapped[list[dict[str, Any]]]
    traits: Mapped[dict[str, Any]]


class Run(Base):
    """Method, algorithm, parameters, seed and dataset, and what came out."""

    __tablename__ = "run"
    run_id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(ForeignKey("dbanon.dataset.dataset_id"))
    dataset_revision: Mapped[int | None]
    method: Mapped[str] = mapped_column(ForeignKey("dbanon.method.name"))
    algorithm: Mapped[str]
    params: Mapped[dict[str, Any]]
    seed: Mapped[int | None]
    status: Mapped[str]
    metrics: Mapped[dict[str, Any]]
    suppressed: Mapped[dict[str, Any]]
    timings: Mapped[dict[str, Any]]
    peak_rss_mb: Mapped[float | None]
    error: Mapped[str | None]
    program_version: Mapped[str | None]
    created_at: Mapped[datetime]
    created_by: Mapped[str]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    todo: Mapped[str | None]
    attempts: Mapped[int]
    most_attempts: Mapped[int]
    worker: Mapped[str | None]
    held_by: Mapped[str | None] = mapped_column(Session)
    stage: Mapped[str | None]
    stage_done: Mapped[int | None]
    stage_total: Mapped[int | None]
    rows: Mapped[int | None]
    error_kind: Mapped[str | None]
    cancel_requested_at: Mapped[datetime | None]
    cancel_requested_by: Mapped[str | None]
    publish_error: Mapped[str | None]


class Installation(Base):
    """How dbanon was installed in a database: one row."""

    __tablename__ = "installation"
    one: Mapped[bool] = mapped_column(primary_key=True)
    role_prefix: Mapped[str]
    database_oid: Mapped[int] = mapped_column(OID)
    server_identifier: Mapped[int]
    public_restricted: Mapped[bool]


class ChangedRight(Base):
    """A right on the server's own views that an upgrade took from PUBLIC, or gave to others instead."""

    __tablename__ = "changed_right"
    object: Mapped[str] = mapped_column(primary_key=True)
    grantee: Mapped[str] = mapped_column(primary_key=True)


class Worker(Base):
    """A process that takes runs; it is alive as long as its session holds its advisory lock."""

    __tablename__ = "worker"
    worker_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    channel: Mapped[str]
    held_by: Mapped[str] = mapped_column(Session)
    started_at: Mapped[datetime]
    started_by: Mapped[str]


class Region(Base):
    """Where rows of a run are: each distinct region once, with the crowd, people and columns of these rows."""

    __tablename__ = "region"
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"), primary_key=True)
    region_no: Mapped[int] = mapped_column(primary_key=True)
    region: Mapped[WKBElement] = mapped_column(_PATH)
    cells: Mapped[list[int] | None] = mapped_column(ARRAY(BigInteger))
    crowd: Mapped[int]
    subjects: Mapped[int]
    extra: Mapped[dict[str, Any] | None] = mapped_column(JSONB)


class Period(Base):
    """When rows of a run are: each distinct period once."""

    __tablename__ = "period"
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"), primary_key=True)
    period_no: Mapped[int] = mapped_column(primary_key=True)
    period: Mapped[TimestamptzRange] = mapped_column(TSTZRANGE)


class Record(Base):
    """A published thing of a run, with its rows: the numbers of their periods and regions, 0 where one was deleted."""

    __tablename__ = "record"
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"), primary_key=True)
    record_id: Mapped[int] = mapped_column(primary_key=True)
    periods: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    regions: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class Membership(Base):
    """Whose data a record carries; the table has no key, the mapper's is record, trajectory and period."""

    __tablename__ = "membership"
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"), primary_key=True)
    record_id: Mapped[int] = mapped_column(primary_key=True)
    trajectory_id: Mapped[int] = mapped_column(primary_key=True)
    period: Mapped[TimestamptzRange | None] = mapped_column(TSTZRANGE)


class Hiding(Base):
    """The records that a record is hidden among; the table has no key, the mapper's is record and others."""

    __tablename__ = "hiding"
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"), primary_key=True)
    record_id: Mapped[int] = mapped_column(primary_key=True)
    period: Mapped[TimestamptzRange | None] = mapped_column(TSTZRANGE)
    others: Mapped[list[int]] = mapped_column(ARRAY(BigInteger), primary_key=True)


class Verification(Base):
    """An attack on the stored rows of a run, with its verdict."""

    __tablename__ = "verification"
    verification_id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"))
    attack: Mapped[str]
    passed: Mapped[bool]
    figures: Mapped[dict[str, Any]]
    digest: Mapped[bytes]
    checked_at: Mapped[datetime]
    checked_by: Mapped[str]
    clauses: Mapped[list[dict[str, Any]]]


class Release(Base):
    """What was ever published; append-only."""

    __tablename__ = "release"
    release_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    run_id: Mapped[int] = mapped_column(ForeignKey("dbanon.run.run_id"))
    digest: Mapped[bytes]
    rows: Mapped[int]
    published_at: Mapped[datetime]
    published_by: Mapped[str]
    withdrawn_at: Mapped[datetime | None]
    withdrawn_by: Mapped[str | None]
    overlap: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    overlap_reason: Mapped[str | None]


class Grouping(Base):
    """Which subjects shared a region in a release; the table has no key, the mapper's is all of it but the subjects."""

    __tablename__ = "grouping"
    release_id: Mapped[int] = mapped_column(ForeignKey("dbanon.release.release_id"), primary_key=True)
    period: Mapped[TimestamptzRange] = mapped_column(TSTZRANGE, primary_key=True)
    alone: Mapped[bool] = mapped_column(primary_key=True)
    subjects: Mapped[list[str]] = mapped_column(ARRAY(Text))


class Audit(Base):
    """Who did what and when; append-only."""

    __tablename__ = "audit"
    audit_id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    login: Mapped[str]
    action: Mapped[str]
    dataset: Mapped[str | None]
    run_id: Mapped[int | None]
    release: Mapped[str | None]
    detail: Mapped[dict[str, Any]]

"""PostGIS for tests, for users' tests and dbanon's own: a container, and pytest fixtures with a fresh database each.

A pytest plugin that every test run of the environment loads, so it imports nothing but pytest until a fixture is used.

``DBANON_TEST_DSN`` names a server to test on. Without it the fixtures take a container where a Docker engine answers
and has or can build the image, else a temporary embedded server. ``DBANON_TEST_SERVER`` (``embedded`` or ``container``)
forces one and fails where it cannot be had; ``DBANON_TEST_IMAGE`` names the image.
"""

import importlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

    from dbanon.server import Target

IMAGE = "dbanon-postgis"
_PACKAGE = Path(__file__).resolve().parent
_INSTALLED_CONTEXT, _REPOSITORY_CONTEXT = _PACKAGE / "_docker", _PACKAGE.parent / "docker"
_BUILD_CONTEXT = _INSTALLED_CONTEXT if _INSTALLED_CONTEXT.is_dir() else _REPOSITORY_CONTEXT
# A test's server holds nothing worth keeping: half the time of a clone is waiting for the disk.
_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of a name of its own is made in it
_ROOM = 4 << 30
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


# --- the container ----------------------------------------------------------------------------------------------------


@contextmanager
def postgis_container(image: str | None = None, *, wait_s: float = 60) -> "Iterator[Target]":
    """Run a PostGIS server in a container for the length of a ``with`` block.

    Parameters
    ----------
    image : str, optional
        ``DBANON_TEST_IMAGE`` or ``dbanon-postgis`` if None; the latter is built from the source tree where missing.
    wait_s : float
        How long the server may take until it answers.

    Yields
    ------
    Target
        Its database ``dbanon`` and superuser ``dbanon`` with a password of this run.

    Raises
    ------
    StoreError
        If no Docker engine answers, the image cannot be had, or the server does not come up.
    """
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    name = image or os.environ.get("DBANON_TEST_IMAGE") or IMAGE
    _demand_image(name)
    if "TESTCONTAINERS_RYUK_DISABLED" not in os.environ:
        testcontainers_config.ryuk_disabled = True  # its cleaner is one more image, which may be out of reach
    password = secrets.token_urlsafe(16)
    container = DockerContainer(name).with_exposed_ports(5432)
    container = container.with_envs(POSTGRES_USER="dbanon", POSTGRES_PASSWORD=password, POSTGRES_DB="dbanon")
    with container:
        yield _wait_for(container, name, password, time.monotonic() + wait_s)


def _wait_for(container: Any, image: str, password: str, deadline: float) -> "Target":
    """Wait until the final server answers: the one that runs the init scripts listens on no port."""
    import psycopg

    from dbanon.errors import StoreError
    from dbanon.server import Target, uri

    while True:
        with suppress(psycopg.OperationalError, OSError, LookupError):
            host, port = container.get_container_host_ip(), str(container.get_exposed_port(5432))
            words = {"host": host.replace("localhost", "127.0.0.1"), "port": port, "user": "dbanon", "dbname": "dbanon"}
            target = Target(uri({**words, "password": password}), f"container of {image} on port {port}")
            psycopg.connect(target.url, connect_timeout=5).close()
            return target
        if time.monotonic() > deadline:
            said = b"\n".join(container.get_logs()).decode(errors="replace")[-500:]
            raise StoreError(
                f"The server in the container of {image} must answer in time. Got none; its log ends: {said}"
            )
        time.sleep(0.2)


def _demand_image(name: str) -> None:
    """Make sure that the engine answers and the image is there, building or pulling it where it is not."""
    from dbanon.errors import StoreError

    docker, client = _engine()
    try:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            if name == IMAGE and (_BUILD_CONTEXT / "Dockerfile").exists():
                client.images.build(path=str(_BUILD_CONTEXT), tag=name, rm=True)
            else:
                client.images.pull(name)
    except docker.errors.DockerException as error:
        raise StoreError(
            f"The image {name} must be there, or docker/ be at hand to build it. Got: {str(error)[:200]}; run "
            f"`docker build -t {IMAGE} docker/` or name an image in DBANON_TEST_IMAGE."
        ) from None
    finally:
        client.close()


def _engine() -> tuple[Any, Any]:
    """Return the docker module and a client of an engine that answers."""
    from dbanon.errors import StoreError

    absent = StoreError("A Docker engine must answer. Got none; start one or set DBANON_TEST_SERVER=embedded.")
    if not _answers(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"):
        raise absent
    try:
        docker = importlib.import_module("docker")  # not `import`: type checkers take the directory docker/ for it
        client = docker.from_env(timeout=900)
        client.ping()
    except ImportError:
        raise StoreError("testcontainers must be installed. Got none; run `pip install 'dbanon[testing]'`.") from None
    except docker.errors.DockerException:
        raise absent from None
    return docker, client


def _answers(host: str) -> bool:
    """Whether somebody listens on the engine's unix socket: the client, asking in vain, leaves sockets unclosed."""
    if not host.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(host.removeprefix("unix://")) == 0


# --- which server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def dbanon_server(request: pytest.FixtureRequest) -> "Iterator[Target]":
    """Server of the session, as `Target`: its user must be a superuser, or may create databases and roles."""
    with _test_server() as target:
        reporter = request.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"\ndbanon: tests run on {target.label}")
        yield target


@contextmanager
def _test_server() -> "Iterator[Target]":
    from dbanon.errors import ParameterError, StoreError
    from dbanon.server import external

    wanted, dsn = os.environ.get("DBANON_TEST_SERVER", ""), os.environ.get("DBANON_TEST_DSN")
    if wanted not in ("", "embedded", "container"):
        raise ParameterError(f"DBANON_TEST_SERVER must be embedded or container. Got {wanted!r}; unset it to choose.")
    if not wanted and dsn:
        yield external(dsn)
        return
    if wanted != "embedded":
        try:
            _demand_image(os.environ.get("DBANON_TEST_IMAGE") or IMAGE)
        except StoreError:
            if wanted == "container":
                raise
        else:
            with postgis_container() as target:
                yield target
            return
    with _temporary_server() as target:
        yield target


@contextmanager
def _temporary_server() -> "Iterator[Target]":
    """Run an embedded server of its own; not in pytest's directory, which the server's user may not enter."""
    from dbanon.server import EmbeddedServer

    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings=_FORGETFUL)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _memory_directory() -> Path | None:
    """Return a memory file system with room for a server, or None: the default directory for temporary files."""
    with suppress(OSError):
        if (
            shutil.disk_usage(_MEMORY).free >= _ROOM
            and os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= _ROOM
        ):
            return _MEMORY
    return None


# --- databases --------------------------------------------------------------------------------------------------------


def _on_server(target: "Target") -> "psycopg.Connection[Any]":
    import psycopg

    return psycopg.connect(target.url, autocommit=True)


def database_url(url: str, **words: str) -> str:
    """Return `url` with some of its libpq keywords (``dbname``, ``user``, ``password``) replaced."""
    from dbanon.server import parse, uri

    return uri({**parse(url), **words})


@pytest.fixture(scope="session")
def dbanon_template(dbanon_server: "Target") -> Iterator[str]:
    """Name of a database that is migrated once a session and cloned for each test."""
    from dbanon import schema

    name = f"dbanon_template_{secrets.token_hex(4)}"
    with _on_server(dbanon_server) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            schema.upgrade(database_url(dbanon_server.url, dbname=name))
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            yield name
        finally:
            server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def dbanon_database(dbanon_server: "Target", dbanon_template: str) -> Iterator[str]:
    """URL of a fresh migrated database that is dropped after the test."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        yield url


@contextmanager
def cloned_database(server: "Target", template: str) -> Iterator[str]:
    """Clone a database of the server for the length of a ``with`` block; nobody may be connected to the template.

    Yields
    ------
    str
        URL of the clone.
    """
    name = f"dbanon_test_{secrets.token_hex(6)}"
    with _on_server(server) as connection:
        # Copying files would end, here and at the drop, with a checkpoint that waits for the whole server.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
        try:
            yield database_url(server.url, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

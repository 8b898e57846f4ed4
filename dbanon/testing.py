"""PostGIS for tests, for users' and dbanon's own: servers, fresh databases, logins, and pytest fixtures of them.

A pytest plugin that every test run of the environment loads, so it imports nothing but pytest until a fixture is used.
Without pytest there are no fixtures, and all else works. ``docs/developers/testing.md`` is the guide.

``DBANON_TEST_DSN`` names a server to test on. Otherwise `running_server` takes a container where a Docker engine
answers and has or can build the image, else a temporary embedded server. The processes of pytest-xdist share one: the
process that starts them starts it when the first asks, and stops it after the last. ``DBANON_TEST_SERVER``
(``embedded`` or ``container``) forces one and fails where it cannot be had. ``DBANON_TEST_IMAGE`` names the image;
else it is built from ``docker/`` on the Debian image that ``DBANON_TEST_BASE`` names, which decides on the version
(``debian:bookworm-slim``: PostgreSQL 15; ``debian:trixie-slim``: 17).
"""

import fcntl
import hashlib
import importlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zlib import crc32

try:
    import pytest
except ImportError:
    pytest = SimpleNamespace(  # type: ignore[assignment]
        fixture=lambda function=None, **_: function or (lambda made: made), hookimpl=lambda **_: lambda made: made
    )

if TYPE_CHECKING:
    import psycopg

    from dbanon.postgres.server import Target

__all__ = [
    "cloned_database",
    "database_like",
    "database_url",
    "dbanon_database",
    "dbanon_login",
    "dbanon_server",
    "dbanon_template",
    "demand_image",
    "image_name",
    "logins",
    "postgis_container",
    "release_like",
    "running_server",
    "shared_database",
    "template_database",
]

_BASE_IMAGE = "debian:bookworm-slim"
_PACKAGE = Path(__file__).resolve().parent
_INSTALLED_CONTEXT, _REPOSITORY_CONTEXT = _PACKAGE / "_docker", _PACKAGE.parent / "docker"
_BUILD_CONTEXT = _INSTALLED_CONTEXT if _INSTALLED_CONTEXT.is_dir() else _REPOSITORY_CONTEXT
# A test server holds nothing worth keeping: half the time of a clone is waiting for the disk. And most of the time of
# a small query that calls PostGIS would go to compiling it, and half the time of a session to loading PostGIS. Several
# sessions may create PostGIS or upgrade at a time, and each takes a lock for each of thousands of objects.
_MEMORY_DIRECTORY = Path("/dev/shm")  # noqa: S108 - a directory with a random name is made in it
_MIN_MEMORY_BYTES = 4 << 30
_FORGETFUL_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "jit": "off",
    "autovacuum": "off",
    "max_locks_per_transaction": "256",
    "shared_preload_libraries": "postgis-3,plpgsql",
}


# --- the container ----------------------------------------------------------------------------------------------------


@contextmanager
def postgis_container(image: str | None = None, *, wait_s: float = 60) -> "Iterator[Target]":
    """Run a PostGIS server in a container for the length of a ``with`` block.

    Parameters
    ----------
    image : str, optional
        `image_name` if None, which is built where it is missing.
    wait_s : float
        How long the server may take until it answers.

    Yields
    ------
    Target
        Its database ``dbanon`` and superuser ``dbanon`` with a password of this run.

    Raises `StoreError` if no Docker engine answers, the image cannot be had, or the server does not come up.
    """
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    name = demand_image(image)
    if "TESTCONTAINERS_RYUK_DISABLED" not in os.environ:
        testcontainers_config.ryuk_disabled = True  # its cleaner is another image, which may not be available
    password = secrets.token_urlsafe(16)
    container = DockerContainer(name).with_exposed_ports(5432)
    container = container.with_envs(POSTGRES_USER="dbanon", POSTGRES_PASSWORD=password, POSTGRES_DB="dbanon")
    settings = [word for name, value in _FORGETFUL_SETTINGS.items() for word in ("-c", f"{name}={value}")]
    container = container.with_command(["postgres", *settings])
    if _find_memory_directory() is not None:
        container = container.with_tmpfs_mount("/var/lib/postgresql/data")
    with container:
        yield _wait_for(container, name, password, time.monotonic() + wait_s)


def _wait_for(container: Any, image: str, password: str, deadline: float) -> "Target":
    """Wait until the final server answers: the one that runs the init scripts listens on no port."""
    import psycopg

    from dbanon.base.errors import StoreError
    from dbanon.postgres.server import Target, format_uri

    while True:
        with suppress(psycopg.OperationalError, OSError, LookupError):
            host, port = container.get_container_host_ip(), str(container.get_exposed_port(5432))
            words = {"host": host.replace("localhost", "127.0.0.1"), "port": port, "user": "dbanon", "dbname": "dbanon"}
            target = Target(format_uri({**words, "password": password}), f"container of {image} on port {port}")
            psycopg.connect(target.url, connect_timeout=5).close()
            return target
        if time.monotonic() > deadline:
            log = b"\n".join(container.get_logs()).decode(errors="replace")[-500:]
            raise StoreError(f"The server in the container of {image} did not answer in time. Its log ends: {log}")
        time.sleep(0.2)


def image_name() -> str:
    """Name the image of the tests' server: ``DBANON_TEST_IMAGE``, by default the one of ``docker/``."""
    named = os.environ.get("DBANON_TEST_IMAGE")
    if named:
        return named
    digest = hashlib.sha256(_choose_base().encode())
    for file in sorted(_BUILD_CONTEXT.iterdir()):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"dbanon-postgis:{digest.hexdigest()[:12]}"


def _choose_base() -> str:
    return os.environ.get("DBANON_TEST_BASE") or _BASE_IMAGE


def demand_image(image: str | None = None) -> str:
    """Make sure that the engine answers and the image is there, building or pulling it where it is not.

    Parameters
    ----------
    image : str, optional
        `image_name` if None.

    Returns
    -------
    str
        Name of the image.

    Raises `StoreError` if there is no engine, or the image cannot be had.
    """
    from dbanon.base.errors import StoreError

    name = image or image_name()
    docker, client = _connect_engine()
    try:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            if image or os.environ.get("DBANON_TEST_IMAGE"):
                client.images.pull(name)
            else:
                _build(docker, client, name)
    except docker.errors.DockerException as error:
        raise StoreError(
            f"The image {name} must be there, or be built from docker/, or be pulled. Got: {str(error)[:200]}. "
            f"Correct that, or name another image in DBANON_TEST_IMAGE."
        ) from None
    finally:
        client.close()
    return name


def _build(docker: Any, client: Any, name: str) -> None:
    options = {"path": str(_BUILD_CONTEXT), "tag": name, "rm": True, "buildargs": {"BASE": _choose_base()}}
    with (_BUILD_CONTEXT / "Dockerfile").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes the others find every step done
        try:
            client.images.build(**options)
        except docker.errors.BuildError:  # where the containers' network reaches nothing, the machine's may
            client.images.build(**options, network_mode="host")


def _connect_engine() -> tuple[Any, Any]:
    """Return the docker module and a client of an engine that answers."""
    from dbanon.base.errors import StoreError

    absent = StoreError("No Docker engine answered. Start one or set DBANON_TEST_SERVER=embedded.")
    if not _is_listening(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"):
        raise absent
    try:
        docker = importlib.import_module("docker")  # not `import`: type checkers take the directory docker/ for it
        client = docker.from_env(timeout=900)
        client.ping()
    except ImportError:
        raise StoreError("testcontainers must be installed. Got none. Run `pip install 'dbanon[testing]'`.") from None
    except docker.errors.DockerException:
        raise absent from None
    return docker, client


def _is_listening(host: str) -> bool:
    """Whether a process listens on the engine's unix socket: the client, asking in vain, leaves sockets unclosed."""
    if not host.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(host.removeprefix("unix://")) == 0


# --- which server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def dbanon_server(request: "pytest.FixtureRequest") -> "Iterator[Target]":
    """Server of the session, as `Target`; see `running_server`."""
    address = getattr(request.config, "workerinput", {}).get("dbanon_server")
    with _borrow_server(address) if address else running_server() as target:
        reporter, capture = map(request.config.pluginmanager.get_plugin, ("terminalreporter", "capturemanager"))
        if reporter is not None and capture is not None:  # as in the one process that a user sees
            with capture.global_and_fixture_disabled():  # or pytest would keep the line for a test that fails
                reporter.write_line(f"\ndbanon: tests run on {target.label}")
        yield target


class _Lender:
    """Has one server for all processes of pytest-xdist, in the process that starts and outlives them.

    It answers at a socket in a private directory: to each who asks, with the server, or with why there is none.
    """

    def __init__(self) -> None:
        self.listener = Listener(family="AF_UNIX")
        self.stack = ExitStack()
        self.thread = Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        from dbanon.base.errors import DbanonError

        answer: Any = None
        while True:
            with self.listener.accept() as asking, suppress(EOFError, OSError):  # a process that was killed
                if asking.recv() == "close":
                    return
                if answer is None:
                    try:
                        answer = self.stack.enter_context(running_server())
                    except DbanonError as error:
                        answer = error
                asking.send(answer)

    def close(self) -> None:
        with Client(self.listener.address) as asking:
            asking.send("close")
        self.thread.join()
        self.listener.close()
        self.stack.close()


_lenders: list[_Lender] = []


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of pytest-xdist, before it starts, where it can ask for the server."""
    if not _lenders:
        _lenders.append(_Lender())
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the server would outlive this process
    node.workerinput["dbanon_server"] = _lenders[0].listener.address


def pytest_unconfigure() -> None:
    """Stop the server of all processes."""
    while _lenders:
        _lenders.pop().close()


@contextmanager
def _borrow_server(address: str) -> "Iterator[Target]":
    with Client(address) as asking:
        asking.send("server")
        answer = asking.recv()
    if isinstance(answer, Exception):
        raise answer
    yield answer


@contextmanager
def running_server() -> "Iterator[Target]":
    """Have the server up that the environment asks for, for the length of a ``with`` block.

    Yields
    ------
    Target
        Its login is a superuser, or may create databases and roles. A container or embedded server is removed at the
        end; the server of ``DBANON_TEST_DSN`` is left as it is, with dbanon's roles on it.

    Raises `ParameterError` if ``DBANON_TEST_SERVER`` is neither ``embedded`` nor ``container``; `StoreError` if the
    server that it asks for cannot be had.
    """
    from dbanon.base.errors import ParameterError, StoreError
    from dbanon.postgres.server import make_target

    wanted, dsn = os.environ.get("DBANON_TEST_SERVER", ""), os.environ.get("DBANON_TEST_DSN")
    if wanted not in ("", "embedded", "container"):
        raise ParameterError(f"DBANON_TEST_SERVER must be embedded or container. Got {wanted!r}. Unset it to choose.")
    if not wanted and dsn:
        yield make_target(dsn)
        return
    if wanted != "embedded":
        try:
            demand_image()
        except StoreError:
            if wanted == "container":
                raise
        else:
            with postgis_container() as target:
                yield target
            return
    with _run_temporary_server() as target:
        yield target


@contextmanager
def _run_temporary_server() -> "Iterator[Target]":
    """Run a temporary embedded server; not in pytest's directory, which the server's user may not enter."""
    from dbanon.postgres.server import EmbeddedServer

    directory = Path(tempfile.mkdtemp(prefix="dbanon-test-", dir=_find_memory_directory()))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "home", settings=_FORGETFUL_SETTINGS)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _find_memory_directory() -> Path | None:
    """Return a memory file system with room for a server, or None: the default directory for temporary files."""
    with suppress(OSError, LookupError):
        # Not what is free: most memory keeps files, which give way.
        available = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
        if min(int(available) << 10, shutil.disk_usage(_MEMORY_DIRECTORY).free) >= _MIN_MEMORY_BYTES:
            return _MEMORY_DIRECTORY
    return None


# --- databases --------------------------------------------------------------------------------------------------------


def _connect_to(target: "Target") -> "psycopg.Connection[Any]":
    import psycopg

    return psycopg.connect(target.url, autocommit=True)


def database_url(url: str, **words: str) -> str:
    """Return `url` with some of its connection keywords replaced.

    Parameters
    ----------
    **words : str
        Keywords of libpq, such as ``dbname``, ``user``, ``password`` or ``options``.
    """
    from dbanon.postgres.server import format_uri, parse

    return format_uri({**parse(url), **words})


@pytest.fixture(scope="session")
def dbanon_template(dbanon_server: "Target") -> Iterator[str]:
    """Name of a database that is migrated once and cloned for each test; see `template_database`."""
    with template_database(dbanon_server) as name:
        yield name


@contextmanager
def template_database(server: "Target") -> Iterator[str]:
    """Have a migrated database to be cloned, for the length of a ``with`` block.

    Parameters
    ----------
    server : Target
        Its login may create databases and roles.

    Yields
    ------
    str
        Name of the database, to which no login can connect. The processes of a run of pytest-xdist share it.
    """
    from dbanon import schema

    def fill(url: str) -> None:
        schema.upgrade(url, share_roles=True, restrict_public=True)
        _close_to_sessions(url)

    with shared_database(server, "template", fill) as name:
        yield name


@contextmanager
def shared_database(
    server: "Target", name: str, fill: Callable[[str], object], *, template: str = "template1"
) -> Iterator[str]:
    """Have one database for all processes of a run of pytest-xdist: the first fills it, the last drops it.

    It is for cloning, or for tests that only read.

    Parameters
    ----------
    server : Target
        Its login may create databases.
    name : str
        What the processes know it by.
    fill : callable
        Takes the URL of a clone of `template`, and leaves no connection to it.
    template : str
        Name of a database to which no session is connected.

    Yields
    ------
    str
        Name of the database.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or secrets.token_hex(4)
    whole = f"dbanon_{run[:8]}_{name}"
    made = "SELECT datname FROM pg_database WHERE datname = %s AND shobj_description(oid, 'pg_database') = 'filled'"
    key = crc32(whole.encode()) - 2**31
    making, using = [1, key], [2, key]
    with _connect_to(server) as connection:  # its locks go with this process, however it ends
        connection.execute("SELECT pg_advisory_lock(%s, %s)", making)
        if not connection.execute(made, [whole]).fetchone():
            connection.execute(f"DROP DATABASE IF EXISTS {whole} WITH (FORCE)")  # of a process that was killed
            _clone(connection, whole, template)
            fill(database_url(server.url, dbname=whole))
            connection.execute(f"COMMENT ON DATABASE {whole} IS 'filled'")
        connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", using)
        connection.execute("SELECT pg_advisory_unlock(%s, %s)", making)
        try:
            yield whole
        finally:
            connection.execute("SELECT pg_advisory_lock(%s, %s)", making)
            connection.execute("SELECT pg_advisory_unlock_shared(%s, %s)", using)
            last = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", using).fetchone()
            if last and last[0]:
                connection.execute(f"DROP DATABASE {whole} WITH (FORCE)")


def _close_to_sessions(url: str) -> None:
    """Let no session connect to a database any more: one of autovacuum's would be in the way of a clone."""
    from dbanon.postgres.server import Target, parse

    with _connect_to(Target(database_url(url, dbname="postgres"), "")) as connection:
        connection.execute(f"ALTER DATABASE {parse(url)['dbname']} ALLOW_CONNECTIONS false")


def _clone(connection: "psycopg.Connection[Any]", name: str, template: str) -> None:
    # Copying files ends, here and at the drop, with a checkpoint, which takes long where files are synced.
    row = connection.execute("SELECT current_setting('fsync') = 'off'").fetchone()
    strategy = "file_copy" if row and row[0] else "wal_log"
    connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {strategy}")


@pytest.fixture
def dbanon_database(dbanon_server: "Target", dbanon_template: str) -> Iterator[str]:
    """URL of a fresh migrated database that is dropped after the test."""
    with cloned_database(dbanon_server, dbanon_template) as url:
        yield url


@contextmanager
def cloned_database(server: "Target", template: str) -> Iterator[str]:
    """Clone a database of the server for the length of a ``with`` block.

    Parameters
    ----------
    server : Target
        Its login may create databases.
    template : str
        Name of a database to which no session is connected, such as that of `template_database`.

    Yields
    ------
    str
        URL of the clone.
    """
    name = f"dbanon_test_{secrets.token_hex(6)}"
    with _connect_to(server) as connection:
        _clone(connection, name, template)
        try:
            yield database_url(server.url, dbname=name)
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def release_like(dbanon_server: "Target", dbanon_template: str) -> Iterator[Callable[..., str]]:
    """``release_like("town_k5.parquet")`` is the URL of a fresh database; see `database_like`."""
    with ExitStack() as stack:
        yield lambda *which, **how: stack.enter_context(database_like(dbanon_server, dbanon_template, *which, **how))


@contextmanager
def database_like(
    server: "Target", template: str, release: str | Path, *, dsn: str | None = None, seed: int = 1
) -> Iterator[str]:
    """Have a clone whose dataset ``like`` has people like those of a release: of its file, or of its name at `dsn`."""
    import dbanon

    with cloned_database(server, template) as url, tempfile.TemporaryDirectory() as folder:
        if dsn is not None:
            with dbanon.connect(dsn) as theirs:
                theirs.export(str(release), file := f"{folder}/{release}.parquet")
        with dbanon.connect(url) as database:
            database.synth("like", like=str(release) if dsn is None else file, seed=seed)
        yield url


# --- logins -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def dbanon_login(dbanon_database: str) -> Iterator[Callable[[str], str]]:
    """``dbanon_login("analyst")`` is the URL of a new login of `dbanon_database`; see `logins`."""
    with logins(dbanon_database) as make:
        yield make


@contextmanager
def logins(url: str) -> Iterator[Callable[[str], str]]:
    """Make logins on a database for the length of a ``with`` block. Its end drops them, and all that they own there.

    Parameters
    ----------
    url : str
        Of a login that may create roles and grant those of dbanon.

    Yields
    ------
    callable
        Takes ``admin``, ``operator``, ``worker``, ``analyst`` or the name of another role; returns the URL of a new
        login that is a member of the role and of nothing else.
    """
    from psycopg import sql

    from dbanon.postgres.server import Target

    owner, users = Target(url, ""), []

    def make(role: str) -> str:
        user, password = f"dbanon_login_{secrets.token_hex(4)}", secrets.token_hex(12)
        statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}")
        with _connect_to(owner) as connection:
            if role in ("admin", "operator", "worker", "analyst"):
                row = connection.execute("SELECT dbanon_internal.name_role(%s)", [role]).fetchone()
                role = row[0] if row else role
            names = sql.Identifier(user), sql.Literal(password), sql.Identifier(role)
            connection.execute(statement.format(*names))
        users.append(user)
        return database_url(url, user=user, password=password)

    try:
        yield make
    finally:
        with _connect_to(owner) as connection:
            for user in users:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user])
                connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(user)))
                connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))

"""Which database dbanon uses, and the embedded server it starts where none is named.

Two invariants: a label never holds a password, and the embedded server is reachable through a unix socket in a 0700
directory only, which is why it may trust every login that reaches it. A cluster becomes visible under its name only
when it is complete (role, database and PostGIS included), so an interrupted creation is simply begun again.
"""

import copy
import fcntl
import hashlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

from dbanon.base.errors import ParameterError, StoreError
from dbanon.postgres.programs import Account, find_binaries, find_installations, find_system_user, run_as

PORT = 5432  # only names the socket file: the embedded server listens on no network address
_BUILDING_PORT = 1  # of a server under construction, which no URL names
DATABASE = ROLE = "dbanon"
MAX_SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103  # bytes in sockaddr_un.sun_path, less the final NUL
_TEMPORARY_DIRECTORY = Path("/tmp")  # noqa: S108 - not tempfile.gettempdir(): all processes must find the same directory
SERVER_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")
_SOCKET_DIRECTORIES = ("/var/run/postgresql", "/tmp")  # noqa: S108 - the two defaults libpq is built with
# The private schema has the role's name: "$user", the first of the default path, would put all tables there.
_CONTENT_SQL = f"""
ALTER ROLE {ROLE} SET search_path = public;
CREATE DATABASE {DATABASE};
\\connect {DATABASE}
CREATE EXTENSION postgis;
"""
_TUNING_SETTINGS = "shared_buffers = 256MB\nmax_wal_size = 4GB\nmaintenance_work_mem = 256MB\njit = off\n"
# Given on the command line, so that neither postgresql.conf nor ALTER SYSTEM can undo them: nothing but the socket, and
# no statement, value or parameter of the data in the log. Errors may quote data; guards log their refusals.
_FIXED_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "log",
    "log_checkpoints": "off",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_error_verbosity": "terse",
    "log_autovacuum_min_duration": "-1",
    "log_parameter_max_length_on_error": "0",
}


@dataclass(frozen=True)
class Target:
    """A database to work on."""

    url: str = field(repr=False)  # a libpq URI. May hold a password: never print it, print `label`.
    label: str  # names the server for people, without a password
    embedded: bool = False  # whether it is dbanon's own server, the only one that is migrated without being asked


@dataclass(frozen=True)
class Status:
    """What is known of an embedded server: `version` is that of its cluster, or None before there is one."""

    running: bool
    home: Path
    version: str | None
    socket: Path


# --- which server ---------------------------------------------------------------------------------------------------


def resolve(dsn: str | None) -> Target:
    """Pick the database: `dsn`, else ``DBANON_DSN``, else the PG* variables, else the embedded server.

    Parameters
    ----------
    dsn : str or None
        A libpq URI, ``key=value`` words, ``service=NAME``, or a SQLAlchemy URL of PostgreSQL with any driver.

    Returns
    -------
    Target
        The embedded server is created and started if it has to be; no other server is contacted.

    Raises `ParameterError` if the connection string cannot be understood; `StoreError` if the embedded server cannot be
    created or started.
    """
    dsn = dsn or os.environ.get("DBANON_DSN")
    if dsn:
        return make_target(dsn)
    if any(os.environ.get(name) for name in SERVER_VARIABLES):
        return make_target("postgresql://")
    return EmbeddedServer().start()


def make_target(dsn: str) -> Target:
    """Make a `Target` of a connection string of any accepted form, without contacting the server."""
    words = parse(dsn)
    _name_socket_directory(words)
    return Target(format_uri(words), _make_label(words))


def parse(dsn: str) -> dict[str, str]:
    """Take a connection string of any accepted form apart into libpq's keywords.

    Raises `ParameterError` if it is none of them. The sentence does not repeat the string: it may hold a password.
    """
    import psycopg  # a tenth of a second that `--help` does not need
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {key: str(value) for key, value in conninfo_to_dict(_remove_driver(dsn.strip())).items()}
    except psycopg.Error:
        raise ParameterError(
            "A database must be given as a URI (postgresql://user@host/name), as key=value words or as service=NAME. "
            "Got something else. Quote special characters in it."
        ) from None


def format_uri(words: Mapping[str, str]) -> str:
    """Write libpq keywords as a URI that psycopg and (after its driver is added) SQLAlchemy understand."""
    rest = dict(words)
    host, port, user, password = (rest.pop(key, "") for key in ("host", "port", "user", "password"))
    database = rest.pop("dbname", "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    if password and not user:  # "postgresql://:secret@host" is not understood everywhere
        rest["password"], login = password, ""
    place = ""
    if re.fullmatch(r"[A-Za-z0-9._-]+", host) and re.fullmatch(r"\d*", port):
        place = host + (f":{port}" if port else "")
    else:  # a socket directory, IPv6 or several hosts
        rest.update({key: value for key, value in (("host", host), ("port", port)) if value})
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in rest.items())
    return f"postgresql://{login}{'@' if login else ''}{place}/{quote(database, safe='')}" + (
        f"?{query}" if query else ""
    )


def _remove_driver(dsn: str) -> str:
    """Turn a SQLAlchemy URL into libpq's: no driver; a query in which + is a space; host=name:port in the query."""
    match = re.match(r"postgres(?:ql)?\+\w+://", dsn)
    if not match:
        return dsn
    base, _, query = dsn[match.end() :].partition("?")
    words = [word.partition("=") for word in query.replace("+", "%20").split("&") if word]
    hosts = [
        unquote(value).rpartition(":")
        for key, _, value in words
        if key == "host" and "%3A" in value.replace(":", "%3A")
    ]
    kept = [f"{key}={value}" for key, _, value in words if not (key == "host" and hosts)]
    if hosts:
        kept += [f"host={quote(','.join(name for name, _, _ in hosts), safe='')}"]
        kept += [f"port={quote(','.join(port for _, _, port in hosts), safe='')}"]
    return f"postgresql://{base}" + (f"?{'&'.join(kept)}" if kept else "")


def _name_socket_directory(words: dict[str, str]) -> None:
    """Name the unix socket's directory where the host is left to libpq: drivers bring libraries with other defaults."""
    if any(words.get(key) for key in ("host", "hostaddr", "service")):
        return
    if any(os.environ.get(name) for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE")):
        return
    port = words.get("port") or os.environ.get("PGPORT") or "5432"
    for directory in _SOCKET_DIRECTORIES:
        if Path(directory, f".s.PGSQL.{port}").exists():
            words["host"] = directory
            return


def _make_label(words: Mapping[str, str]) -> str:
    def find_word(key: str, variable: str) -> str:
        return words.get(key) or os.environ.get(variable) or ""

    service = find_word("service", "PGSERVICE")
    place = find_word("host", "PGHOST") or find_word("hostaddr", "PGHOSTADDR") or ("" if service else "localhost")
    port, database, user = find_word("port", "PGPORT"), find_word("dbname", "PGDATABASE"), find_word("user", "PGUSER")
    parts = [
        f"service {service}" if service else "",
        f"database {database}" if database else "",
        f"at {place}{':' + port if port else ''}" if place else "",
        f"as {user}" if user else "",
    ]
    return "PostgreSQL server: " + " ".join(part for part in parts if part)


def lacks_postgis_in_dumps(url: str) -> bool:
    """Check whether `pg_dump` takes the database's PostGIS for a part of every new cluster, and leaves it out.

    It does where the extension was made by a server in single-user mode.
    """
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'postgis'"
            " AND oid OPERATOR(pg_catalog.<) 16384::pg_catalog.oid"
        ).fetchone()
    return row is not None


def run_psql(url: str, arguments: Sequence[str] = ()) -> int:
    """Run psql on `url` with the terminal of this process and return its exit code.

    An error ends with its HINT: PostgreSQL adds the functions it passed through, and psql alone can leave them out.

    The connection goes by environment variables, because every user of the machine can read a command line.
    """
    from psycopg import pq

    program = shutil.which("psql") or next((str(b.bindir / "psql") for b in find_installations()), None)
    if program is None:
        raise StoreError("psql must be on the PATH. Got none. Install it (apt-get install postgresql-client).")
    variables = {item.keyword.decode(): (item.envvar or b"").decode() for item in pq.Conninfo.get_defaults()}
    words = parse(url)
    named = {variables[key]: value for key, value in words.items() if variables.get(key)}
    unnamed = {key: value for key, value in words.items() if not variables.get(key)}
    options = ["--set=SHOW_CONTEXT=never", *(["--dbname", format_uri(unnamed)] if unnamed else [])]
    with _ignore_signal(signal.SIGINT):
        return subprocess.run([program, *options, *arguments], env={**os.environ, **named}, check=False).returncode


@contextmanager
def _ignore_signal(number: int) -> Iterator[None]:
    """Ignore a signal: Ctrl-C cancels psql's statement, and must not end psql."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


# --- the embedded server ----------------------------------------------------------------------------------------------


def find_default_home() -> Path:
    """``DBANON_HOME``, else /var/lib/dbanon for root, else the user's data directory."""
    named = os.environ.get("DBANON_HOME")
    if named:
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/dbanon")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "dbanon"


class EmbeddedServer:
    """A private PostgreSQL with PostGIS in a directory, started on demand and left running until `stop`.

    Parameters
    ----------
    home : Path, optional
        Where cluster, socket, log and lock live; `find_default_home` if None.
    settings : mapping, optional
        Server settings for this start that override dbanon's own (tests turn fsync off).

    Notes
    -----
    Called by root, PostgreSQL runs as the system user `postgres` (or `dbanon`, made for it), because it refuses to run
    as root.
    """

    def __init__(self, home: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        self.home = Path(home).expanduser().absolute() if home is not None else find_default_home()
        self.data = self.home / "data"
        self.log = self.home / "log" / "postgresql.log"
        self._settings = {**_FIXED_SETTINGS, **(settings or {})}
        self._port = PORT

    @property
    def url(self) -> str:
        """The libpq URI of its database, whether it is running or not."""
        return format_uri({"user": ROLE, "dbname": DATABASE, "host": str(self._socket_directory), "port": str(PORT)})

    @property
    def target(self) -> Target:
        """Its database as a `Target`."""
        return Target(self.url, f"embedded server in {self.home}", embedded=True)

    def start(self) -> Target:
        """Create the cluster if there is none, start it if it is down, and return its database. Idempotent.

        Raises `StoreError` if programs, permissions or the server itself prevent it; says what to do.
        """
        if not self._is_ready():
            self._demand_programs()
            self._make_home()
            with self._hold_lock():
                self._demand_owner()
                if not self.data.exists():
                    self._create()
                if not self._is_ready():
                    self._launch()
        return self.target

    def stop(self) -> bool:
        """Shut the server down in an orderly way; return whether it was up."""
        if not self.data.exists():
            return False
        with self._hold_lock():
            was_up = self._find_postmaster() is not None
            if was_up:
                self._run_pg_ctl("stop", "-m", "fast", "-w", "-t", "120")
        if self._socket_directory.parent == _TEMPORARY_DIRECTORY:
            with suppress(OSError):
                self._socket_directory.rmdir()
        return was_up

    def status(self) -> Status:
        """Report whether it runs, where, and which version its cluster has; starts and changes nothing."""
        version = self._read_major()
        return Status(self._is_ready(), self.home, str(version) if version else None, self._socket)

    # -- places and rights

    @cached_property
    def _account(self) -> Account:
        """Who the server runs as: the caller; for root the owner of the cluster, `postgres` or a user made for it."""
        entry = pwd.getpwuid(os.geteuid())
        if entry.pw_uid == 0:
            owner = self.data.stat().st_uid if self.data.exists() else 0
            entry = pwd.getpwuid(owner) if owner else find_system_user()
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)

    @property
    def _socket_directory(self) -> Path:
        """`home`/socket, or a short directory in /tmp where that path is too long or needs quoting in a setting."""
        directory = self.home / "socket"
        path = directory / f".s.PGSQL.{PORT}"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES and not re.search(r"[,\"'\s@]", str(directory)):
            return directory
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return _TEMPORARY_DIRECTORY / f"dbanon-{os.geteuid()}-{digest}"

    @property
    def _socket(self) -> Path:
        return self._socket_directory / f".s.PGSQL.{PORT}"

    def _demand_programs(self) -> None:
        if not self.data.exists():
            find_binaries()  # before a directory or a user is made for nothing

    def _make_home(self) -> None:
        """Make `home` and its directories. Root's can be entered by the server's user, who owns only what is inside."""
        is_root = os.geteuid() == 0
        try:
            self.home.mkdir(mode=0o711 if is_root else 0o700, parents=True, exist_ok=True)
            if is_root and stat.S_IMODE(self.home.stat().st_mode) == 0o700:
                self.home.chmod(0o711)  # the umask may have been stricter than what the server's user needs
        except OSError as error:
            raise StoreError(
                f"DBANON_HOME must be a directory that can be written. Got {self.home}: {error.strerror}."
            ) from None
        self._demand_safe_home()
        for directory in (self.log.parent, self._socket_directory):
            self._make_private(directory)

    def _demand_safe_home(self) -> None:
        inode = self.home.stat()
        if inode.st_uid not in (0, os.geteuid(), self._account.uid) or inode.st_mode & stat.S_IWOTH:
            raise StoreError(
                f"DBANON_HOME must be the caller's own directory that others cannot write. Got {self.home}. Set "
                f"DBANON_HOME to another directory."
            )
        for directory in [*reversed(self.home.parents), self.home]:
            if os.geteuid() == 0 and self._run(["test", "-x", str(directory)]).returncode:
                raise StoreError(
                    f"The system user {self._account.name}, which runs the embedded server, must be able to enter "
                    f"all directories above its files. Got {directory}. Run chmod o+x on it, or set DBANON_HOME."
                )

    def _make_private(self, directory: Path) -> None:
        """Make a 0700 directory of the server's user; refuse one that another user could have put there."""
        if not os.path.lexists(directory):
            # It gets its name when it has its owner: another process that starts at the same time sees it whole.
            fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
            os.chown(fresh, self._account.uid, self._account.gid)
            try:
                fresh.rename(directory)
            except OSError:  # the other process was first, and has put something into it
                fresh.rmdir()
        inode = directory.lstat()
        if not stat.S_ISDIR(inode.st_mode) or inode.st_uid != self._account.uid or inode.st_mode & 0o077:
            raise StoreError(
                f"{directory} must be a private directory (mode 0700) of user {self._account.name}. Got something "
                f"else. Remove it, or set DBANON_HOME to another directory."
            )

    def _demand_owner(self) -> None:
        """Refuse a cluster that belongs to another user: PostgreSQL's own refusal explains less."""
        owner = self.data.stat().st_uid if self.data.exists() else self._account.uid
        if owner != self._account.uid:
            raise StoreError(
                f"The cluster in {self.home} must belong to user {self._account.name}. Got another owner. Call "
                f"dbanon as its owner or set DBANON_HOME to another directory."
            )

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the lock of this home; of two starters the second waits and finds the work done."""
        try:
            handle = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"The lock file in {self.home} must be writable. Got: {error.strerror}. Call dbanon as its owner or "
                f"set DBANON_HOME to another directory."
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    # -- what is there

    def _read_major(self) -> int | None:
        try:
            return int((self.data / "PG_VERSION").read_text())
        except (OSError, ValueError):
            return None

    def _read_pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _is_ready(self) -> bool:
        """Whether a server answers on the socket and says that it takes connections; needs no driver and no process."""
        lines = self._read_pid_file()
        if len(lines) < 8 or lines[7].strip() != "ready":
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self._socket))
            except OSError:  # refused after a kill, absent after a reboot
                return False
        return True

    def _find_postmaster(self) -> int | None:
        """Return the process id of this cluster's server, or None, also where another process has its number now."""
        try:
            pid = int(self._read_pid_file()[0])
            os.kill(pid, 0)
        except (IndexError, ValueError, ProcessLookupError):
            return None
        except PermissionError:
            pass  # alive, and not ours to signal
        link = Path(f"/proc/{pid}/cwd")
        with suppress(OSError):
            if Path("/proc/self").exists() and link.readlink() != self.data.resolve():
                return None
        return pid

    # -- doing

    def _create(self) -> None:
        """Make the cluster beside its place, behind a separate socket, and move it to its place when it is whole.

        Database and extension come from a server in normal operation: what one in single-user mode makes has numbers
        (OIDs) that `pg_dump` takes for parts of every new cluster, and leaves out.
        """
        bindir = find_binaries().bindir
        half = copy.copy(self)
        half.data, half._port = self.home / "data.new", _BUILDING_PORT
        half._clear_remains()
        shutil.rmtree(half.data, ignore_errors=True)
        self._make_private(half.data)
        initdb = [str(bindir / "initdb"), "-D", str(half.data), "-U", ROLE, "--encoding=UTF8"]
        initdb += ["--auth-local=trust", "--auth-host=reject"]
        result = self._run([*initdb, "--locale=C.UTF-8"])
        if result.returncode:  # a system without that locale
            result = self._run([*initdb, "--locale=C"])
        self._demand(result, "initdb")
        self._demand(
            self._run(["tee", "-a", str(half.data / "postgresql.conf")], text=_TUNING_SETTINGS),
            "writing postgresql.conf",
        )
        half._launch()
        try:
            psql = [str(bindir / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", ROLE, "-d", "postgres"]
            where = ["-h", str(self._socket_directory), "-p", str(_BUILDING_PORT)]
            self._demand(self._run([*psql, *where], text=_CONTENT_SQL), "psql")
        finally:
            stopped = half._run_pg_ctl("stop", "-m", "fast", "-w", "-t", "120")
        self._demand(stopped, "pg_ctl stop")
        half.data.rename(self.data)

    def _launch(self) -> None:
        """Start the postmaster; try again while the children of a killed one hold on to shared memory."""
        self._clear_remains()
        deadline = time.monotonic() + 20
        while True:
            before = self.log.stat().st_size if self.log.exists() else 0
            result = self._run_pg_ctl("start", "-w", "-t", "600", "-l", str(self.log), "-o", self._format_options())
            if result.returncode == 0:
                return
            output = self.log.read_bytes()[before:].decode(errors="replace") if self.log.exists() else result.stderr
            if "pre-existing shared memory" not in output or time.monotonic() > deadline:
                reason = (re.findall(r"FATAL:\s*(.+)", output) or [output.strip() or result.stderr.strip()])[0]
                raise StoreError(f"The embedded server did not start: {reason}. See {self.log}.")
            time.sleep(0.5)

    def _clear_remains(self) -> None:
        """Remove the pid file of a killed server; stop one that lives but has lost its socket."""
        if self._find_postmaster() is not None:
            self._run_pg_ctl("stop", "-m", "fast", "-w", "-t", "120")
        elif self._read_pid_file():
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _format_options(self) -> str:
        options = {**self._settings, "unix_socket_directories": str(self._socket_directory), "port": str(self._port)}
        return " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in options.items())

    def _run_pg_ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        binaries = find_binaries(self._read_major())
        return self._run([str(binaries.bindir / "pg_ctl"), "-D", str(self.data), *arguments])

    def _demand(self, result: subprocess.CompletedProcess[str], step: str) -> None:
        if result.returncode:
            message = (re.findall(r"(?:FATAL|ERROR|error):\s*(.+)", result.stderr) or [result.stderr.strip()[-300:]])[0]
            raise StoreError(f"The embedded server's cluster was not created. Error of {step}: {message}.")

    def _run(self, command: Sequence[str], *, text: str = "") -> subprocess.CompletedProcess[str]:
        return run_as(self._account, command, text=text, home=self.home)

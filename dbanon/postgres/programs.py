"""Finds the PostgreSQL programs of this machine, and the system user they run as, for the embedded server."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbanon.base.errors import StoreError

OLDEST_SUPPORTED_MAJOR = 15
_BINARY_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL installation; `postgis` says whether the extension is installed beside them."""

    bindir: Path
    major: int
    has_postgis: bool


@dataclass(frozen=True)
class Account:
    """A user of the operating system."""

    uid: int
    gid: int
    name: str


def find_installations() -> list[Binaries]:
    """Every PostgreSQL server installed here that is recent enough: with PostGIS first, then newest first."""
    directories = {directory.resolve(): None for directory in _list_directories()}
    known = [item for directory in directories if (item := _examine(directory)) is not None]
    return sorted(known, key=lambda item: (item.has_postgis, item.major), reverse=True)


def find_binaries(major: int | None = None) -> Binaries:
    """Choose the newest PostgreSQL with PostGIS, or the one of version `major` that an existing cluster needs.

    Raises
    ------
    StoreError
        Naming what is missing, and the packages that provide it.
    """
    known = [item for item in find_installations() if major in (None, item.major)]
    if known and known[0].has_postgis:
        return known[0]
    if known:
        raise StoreError(
            f"The embedded server needs PostGIS for PostgreSQL {known[0].major}. Got PostgreSQL without it. Install "
            f"it (apt-get install postgresql-{known[0].major}-postgis-3) or name a server with --dsn."
        )
    if major is not None:
        raise StoreError(
            f"The embedded server's cluster needs the programs of PostgreSQL {major}. Got none. Install them "
            f"(apt-get install postgresql-{major}-postgis-3) or name a server with --dsn."
        )
    raise StoreError(
        f"The embedded server needs PostgreSQL {OLDEST_SUPPORTED_MAJOR} or later with PostGIS. Got none. Install them "
        f"(apt-get install postgresql postgresql-postgis) or name a server with --dsn."
    )


def _list_directories() -> Iterator[Path]:
    program = shutil.which("pg_config")
    if program:
        yield Path(_read_output([program, "--bindir"]) or "/nonexistent")
    program = shutil.which("postgres")
    if program:
        yield Path(program).resolve().parent
    for pattern in _BINARY_PATTERNS:
        yield from Path("/").glob(pattern.removeprefix("/"))


def _examine(bindir: Path) -> Binaries | None:
    if not all(os.access(bindir / name, os.X_OK) for name in ("initdb", "pg_ctl", "postgres", "psql")):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", _read_output([str(bindir / "postgres"), "--version"]))
    if not match or int(match[1]) < OLDEST_SUPPORTED_MAJOR:
        return None
    major = int(match[1])
    shared = [Path("/usr/share/postgresql", str(major)), bindir.parent / "share", bindir.parent / "share/postgresql"]
    if (bindir / "pg_config").exists():
        shared = [Path(_read_output([str(bindir / "pg_config"), "--sharedir"]) or "/nonexistent")]
    return Binaries(bindir, major, any((path / "extension/postgis.control").exists() for path in shared))


def _read_output(command: Sequence[str]) -> str:
    try:
        # Not in the caller's directory: it may be gone, and pg_config then says nothing.
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, cwd="/")
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def run_as(account: Account, command: Sequence[str], *, text: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as `account`, fed with `text`, without the caller's PG* variables and working directory."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
    environment |= {"LANG": "C", "LC_ALL": "C", "HOME": str(home)}
    options: dict[str, Any] = {"cwd": "/", "umask": 0o077, "env": environment}
    if os.geteuid() != account.uid:
        groups = os.getgrouplist(account.name, account.gid)
        options |= {"user": account.uid, "group": account.gid, "extra_groups": groups}
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False, **options)
    except PermissionError:
        raise StoreError(
            f"The embedded server's programs must be runnable as user {account.name}. Got: permission denied. Call "
            f"dbanon as a user with that right, or name a server with --dsn."
        ) from None


def find_system_user() -> pwd.struct_passwd:
    """Return the system user for a server that root starts, made where there is none."""
    for name in ("postgres", "dbanon"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    with suppress(OSError, KeyError):
        subprocess.run([*command, "--shell", "/usr/sbin/nologin", "dbanon"], capture_output=True, check=False)
        return pwd.getpwnam("dbanon")
    raise StoreError(
        "The embedded server, called by root, must run as the system user postgres or dbanon. Got neither and no "
        "useradd. Create one of them or call dbanon as another user."
    )

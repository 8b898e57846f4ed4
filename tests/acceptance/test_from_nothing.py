"""dbanon on a server with PostgreSQL and PostGIS only, from nothing to a release.

As ``docs/administrators/psql-alone.md`` says.

Two containers: a server of Debian's packages, in which psql alone is used, and one of the worker's image.
"""

import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dbanon import testing
from tests import pages
from tests.images import build_worker_image

PAGE = "docs/administrators/psql-alone.md"
VOLUME = "dbanon-compiled-in-tests"
BARE = "! command -v python3 && ! command -v python && ! find / -xdev -iname '*dbanon*' | grep ."
INSTALLED = """
SELECT rolsuper, obj_description('dbanon.alembic_version'::regclass) <> '' FROM pg_roles WHERE rolname = 'gina'
"""

Run = Callable[..., str]


def run(*command: str, text: str | None = None, **more: Path) -> str:
    """Run a program that must succeed; returns what it printed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def wait_until(holds: Callable[[], bool], explain: Callable[[], str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.3)


@pytest.fixture
def network() -> Iterator[str]:
    """A network of Docker's; containers on it are removed with it."""
    name = f"dbanon-{secrets.token_hex(4)}"
    run("docker", "network", "create", name)
    yield name
    left = run("docker", "ps", "--all", "--quiet", "--filter", f"network={name}").split()
    run("docker", "rm", "--force", "--volumes", *left)
    run("docker", "network", "rm", name)


@pytest.fixture
def server(network: str) -> Run:
    """Run programs in the container of the server, whose files are those of packages of PostgreSQL and PostGIS."""
    options = ["--network", network, "--network-alias", "server", "--env", "POSTGRES_PASSWORD=change me"]
    name = run("docker", "run", "--detach", *options, testing.demand_image()).strip()

    def execute(*command: str, text: str | None = None) -> str:
        environment = ["--env", "PGPASSWORD=change me", "--env", "PGTZ=UTC"]
        return run("docker", "exec", "--interactive", "--workdir", "/tmp", *environment, name, *command, text=text)

    up = "{{.State.Health.Status}}"
    wait_until(
        lambda: run("docker", "inspect", "--format", up, name) == "healthy\n", lambda: run("docker", "logs", name)
    )
    execute("bash", "-c", BARE)
    return execute


def test_psql_alone_installs_loads_submits_and_publishes_what_another_machine_computes(
    network: str, server: Run, city_files: tuple[Path, Path], tmp_path: Path
) -> None:
    answers = dict[str, str]()

    def psql(login: str, text: str) -> str:
        who = "host=server user=postgres" if login == "superuser" else f"host=server dbname=geo user={login}"
        return server("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", who, text=text)

    def state() -> str:
        return psql("olga", "SELECT status, error FROM dbanon.runs")

    server("sh", "-c", "cat > gps.csv", text=city_files[0].read_text())
    for kind, block in pages.split((pages.ROOT / PAGE).read_text()):
        program, who = kind.split()
        assert program == "sql" or (program == "sh" and who in ("server", "worker"))
        if program == "sql":
            answers[who] = psql(who, block)
        elif who == "server":
            server("bash", "-ec", block)
            assert psql("gina", INSTALLED) == "f|t\n"
        else:
            here = block.replace("docker run", f"docker run --network {network}").replace("dbanon-compiled", VOLUME)
            said = run("bash", "-ec", here.replace("dbanon-worker", build_worker_image()), cwd=tmp_path)
            if "dbanon.sql" in block:
                server("sh", "-c", "cat > dbanon.sql", text=(tmp_path / "dbanon.sql").read_text())
            else:
                wait_until(lambda: state() == "verified|\n", partial(run, "docker", "logs", said.strip()))
    crowds = [int(line.split("|")[2]) for line in answers["anna"].splitlines()]
    assert len(crowds) == 3
    assert min(crowds) >= 5

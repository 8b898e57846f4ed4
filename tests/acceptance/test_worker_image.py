"""The worker's image: what it is made of, and that it works with a file system that it cannot write to."""

import json
import shlex
import subprocess
import time
from collections.abc import Callable

import psycopg

from dbanon import schema
from tests.db.conftest import RUN
from tests.images import build_worker_image

MAX_BYTES = 700_000_000
LOCKED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
PULSE = "/dev/shm/dbanon-pulse"


def run_docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {shlex.join(words)}\n{done.stderr}"
    return done.stdout


def run_in_shell(script: str) -> str:
    return run_docker("run", "--rm", *LOCKED, "--entrypoint", "sh", build_worker_image(), "-ec", script)


def test_it_is_small_and_its_user_is_not_root() -> None:
    [image] = json.loads(run_docker("image", "inspect", build_worker_image()))
    assert image["Size"] < MAX_BYTES
    assert run_in_shell("id -u") != "0\n"
    assert run_in_shell("! command -v pip && ! touch /tmp/it && touch /var/cache/dbanon/it") == ""


def test_what_its_runs_need_was_compiled_when_it_was_built() -> None:
    assert int(run_in_shell("find /var/cache/dbanon -name '*.nbc' | wc -l")) > 30


def test_it_carries_the_script_that_psql_runs() -> None:
    assert run_in_shell("cat /opt/dbanon/share/dbanon.sql") == schema.write_script()


def test_it_is_healthy_as_long_as_its_pulse_is_young() -> None:
    form = "{{json .Config.Healthcheck.Test}}"
    kind, *check = json.loads(run_docker("image", "inspect", "--format", form, build_worker_image()))
    assert kind == "CMD"
    asked = shlex.join(check)
    assert (
        run_in_shell(f"! {asked} && touch {PULSE} && {asked} && touch -d '61 seconds ago' {PULSE} && ! {asked}") == ""
    )


def test_a_worker_in_it_computes_is_healthy_and_stops_when_asked(
    dbanon_database: str, dbanon_login: Callable[[str], str]
) -> None:
    with psycopg.connect(dbanon_database, autocommit=True) as owner:
        owner.execute(RUN)
        owner.execute("SELECT dbanon.submit_run('ten', 'tp-aware', '{\"k\": 5}')")
        login = ("--network", "host", "--env", f"DBANON_DSN={dbanon_login('worker')}")
        options = ("--volume", "dbanon-compiled-in-tests:/var/cache/dbanon", "--health-interval", "1s", *login)
        worker = run_docker("run", "--detach", *LOCKED, *options, build_worker_image()).strip()
        try:
            deadline = time.monotonic() + 180
            while True:
                status = owner.execute("SELECT status FROM dbanon.run ORDER BY run_id DESC LIMIT 1").fetchone()
                health = run_docker("inspect", "--format", "{{.State.Health.Status}}", worker).strip()
                if (status, health) == (("verified",), "healthy"):
                    break
                assert time.monotonic() < deadline, run_docker("logs", worker)
                time.sleep(0.3)
            run_docker("stop", worker)
            assert run_docker("inspect", "--format", "{{.State.ExitCode}}", worker) == "0\n"
        finally:
            run_docker("rm", "--force", worker)

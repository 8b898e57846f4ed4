"""Makes the dump of a database of a version, with releases, a job and a queue alive: what later versions upgrade.

    python -m tests.upgrade.alive tests/upgrade/REVISION.dump.xz

is run with the code of that version. 0004.dump.xz is of commit 6356092.
"""

import lzma
import subprocess
import sys
from pathlib import Path

import psycopg

from dbanon import testing
from tests.clients import find_client
from tests.db import nights
from tests.db.conftest import RUN, VERIFY
from tests.db.parts import find_day, publish_part, run_of
from tests.db.test_composition import HALVES, Release, write_verified

REFUSED, ALLOWED = 8, 9  # runs: the first would join with release `first`, the second is of another day


def fill(url: str) -> None:
    """Publish a release, one that is withdrawn and one that grows; begin a job; queue a run; leave two to publish."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RUN)
        connection.execute(VERIFY, [True])
        connection.execute("SELECT dbanon.publish(1, 'first')")
        for number in (40, 41, 67, 68):
            publish_part(connection, run_of(connection, number), "grown")
        connection.execute("SELECT dbanon.fold_release('grown', '2008-08-01Z')")
        with psycopg.connect(url) as reader:  # in whose way the part is not dropped, but closed
            reader.execute("SELECT count(*) FROM published.grown")
            connection.execute("SELECT dbanon.unpublish_part('grown', %s)", [find_day(68)])
        connection.execute("SELECT dbanon.publish(%s, 'gone')", [run_of(connection, 100)])
        connection.execute("SELECT dbanon.unpublish('gone')")
        nights.make_source(connection)
        nights.add(connection)
        assert [nights.take_step(connection) for _ in range(2)] == ["run", "compute"]
        runs = write_verified(connection, Release(2, HALVES)), run_of(connection, 120)
        assert runs == (REFUSED, ALLOWED)
        connection.execute("""SELECT dbanon.submit_run('ten', 'tp-aware', '{"k": 5, "step_s": 60, "instants": 2}')""")


def restore_old_dump(url: str) -> None:
    """Restore the dump of the last version before the extension into an empty database."""
    dumped = lzma.decompress((Path(__file__).parent / "0004.dump.xz").read_bytes())
    subprocess.run([*find_client("pg_restore", url), "--exit-on-error", "-d", url], check=True, input=dumped)


if __name__ == "__main__":
    with (
        testing.running_server() as server,
        testing.template_database(server) as template,
        testing.cloned_database(server, template) as made,
    ):
        fill(made)
        command = [*find_client("pg_dump", made), "-Fc", "-Z0", "-d", made]
        dumped = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        Path(sys.argv[1]).write_bytes(lzma.compress(dumped, preset=9))

"""Whether the tests notice a mistake in a core function: a dozen and more, each in a copy of the repository.

``python benchmarks/_mutants.py [word ...]`` tries those whose file or tests hold one of the words. Run it by hand
after a change of the tests that makes them quicker or rarer: each mutant must be caught as before.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One mistake: what is replaced in a file, and the tests that must fail."""

    file: str
    before: str
    after: str
    tests: str


MUTANTS = [
    Mutant(
        "dbanon/attacks/tp_aware/_passes.py",  # a cloak may end before its members
        "held[row, 0] <= east and east + 1 <= held[row, 2]",
        "held[row, 0] <= east",
        "tests/unit/test_attack_tp_aware.py",
    ),
    Mutant(
        "dbanon/attacks/once.py",  # groups that meet in time are not two
        "(person[1:] == person[:-1]) & (groups",
        "(person[1:] != person[:-1]) & (groups",
        "tests/unit/test_once.py",
    ),
    Mutant("dbanon/attacks/once.py", "summed > people[", "summed > 1 + people[", "tests/unit/test_once.py"),
    Mutant(
        "dbanon/attacks/mob/_graph.py",  # k - 1 hide whom k should
        "(number < k) & scene.found.published",
        "(number < k - 1) & scene.found.published",
        "tests/unit/test_attack_mob.py",
    ),
    Mutant(
        "dbanon/attacks/kte/_windows.py",
        "doubtful = np.flatnonzero(fitting < k - 1)",
        "doubtful = np.flatnonzero(fitting < k - 2)",
        "tests/unit/test_attack_kte.py",
    ),
    Mutant(
        "dbanon/attacks/semantic/_counting.py",
        "(grouped.crowd < rules.k)",
        "(grouped.crowd < rules.k - 1)",
        "tests/unit/test_attack_semantic.py",
    ),
    Mutant(
        "dbanon/methods/tp_aware/_bundles.py",  # a window of k - 1 people is published
        "published = [s for s in surveys if s.present >= params.k]",
        "published = [s for s in surveys if s.present > params.k]",
        "tests/unit/test_tp_aware.py",
    ),
    Mutant(
        "dbanon/methods/semantic/_groups.py",
        "if len(both.people) >= self._k:\n                self._done.append(both)\n                continue",
        "if len(both.people) > self._k:\n                self._done.append(both)\n                continue",
        "tests/unit/test_semantic.py",
    ),
    Mutant(
        "dbanon/methods/semantic/_optimum.py",  # the cut that loses least
        "if loss + cost[i] < best:",
        "if loss + cost[i] <= best and i % 3:",
        "tests/unit/test_semantic.py",
    ),
    Mutant(
        "dbanon/methods/semantic/_atoms.py",  # a region is grown until it has l
        "(count > 0).sum(axis=1) >= params.l)",
        "(count > 0).sum(axis=1) >= params.l - 1)",
        "tests/unit/test_semantic.py",
    ),
    Mutant(
        "dbanon/methods/mob/_gen_ag.py",  # distances are rounded up instead of down
        "place[j, t] >> shift",
        "(place[j, t] >> shift) + (t & 1)",
        "tests/unit/test_mob_gen_ag.py",
    ),
    Mutant(
        "sql/40_runs/10_digest.sql",  # another person under the same number
        "block.name_sizes || block.names)",
        "block.name_sizes)",
        "tests/db/test_tables.py",
    ),
    Mutant(
        "sql/60_releases/20_publish.sql",  # a release has its records in the run's order
        "(ORDER BY shuffled.draw ROWS",
        "(ORDER BY shuffled.periods ROWS",
        "tests/db/test_publish.py",
    ),
    Mutant(
        "sql/90_grants.sql",  # not to analysts, who have no right to the schema: that would change nothing
        "GRANT SELECT ON dbanon.audit, dbanon.quarantine, dbanon.job TO @operator@;",
        "GRANT SELECT ON dbanon.audit, dbanon.quarantine, dbanon.job TO @operator@, @worker@;",
        "tests/db/test_rights.py",
    ),
    Mutant(
        "sql/72_jobs/10_periods.sql",  # a period that does not end at a bound
        "SELECT tstzrange(since, b.after) FROM",
        "SELECT tstzrange(since, b.after + interval '1 second') FROM",
        "tests/db/test_jobs.py",
    ),
    Mutant(
        "sql/20_load/11_arguments.sql",  # any time zone is taken
        "IF tz <> 'UTC' AND NOT EXISTS",
        "IF tz = '' AND NOT EXISTS",
        "tests/db/test_job_changes.py",
    ),
]


def is_caught(mutant: Mutant, repository: Path) -> bool:
    """Whether a test fails in a copy of the repository with the mistake; the compiled kernels come along."""
    with tempfile.TemporaryDirectory(prefix="dbanon-mutant-") as place:
        copy = Path(place) / "copy"
        shutil.copytree(repository, copy, ignore=shutil.ignore_patterns(".venv", ".git"))
        file = copy / mutant.file
        text = file.read_text()
        if text.count(mutant.before) == 0:
            raise SystemExit(f"{mutant.file} must hold {mutant.before!r}")
        file.write_text(text.replace(mutant.before, mutant.after))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split()]
        return subprocess.run(command, cwd=copy, env={**os.environ}, capture_output=True, check=False).returncode == 1


def main() -> None:
    repository = Path(os.environ.get("DBANON_REPOSITORY", REPOSITORY))
    words = sys.argv[1:]
    lived = 0
    for mutant in MUTANTS:
        if words and not any(word in mutant.file or word in mutant.tests for word in words):
            continue
        began = time.monotonic()
        dead = is_caught(mutant, repository)
        lived += not dead
        print(
            f"{'caught' if dead else 'LIVES '} {time.monotonic() - began:4.0f} s  {mutant.file}: {mutant.after!r}",
            flush=True,
        )
    raise SystemExit(min(lived, 1))


if __name__ == "__main__":
    main()

"""One thread and two, code just compiled and code from Numba's cache: the same cloaks, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_methods import ALGORITHMS

ROOT = Path(__file__).parents[2]
POOLS = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "ARROW_NUM_THREADS",
)

# Enough people for deep trees and many ties: positions are rounded to 20 m.
PROGRAM = """
import dataclasses, hashlib, sys
import numpy as np
from numba.core import event
from dbanon.methods import METHODS
from tests.contract.evidence import people, run
data = people(600, side=2000.0)
data = dataclasses.replace(data, x=np.round(data.x / 20) * 20, y=np.round(data.y / 20) * 20)
family = METHODS[sys.argv[1]]
family.prepare(sys.argv[2], family.parse(family.example))
with event.install_recorder("numba:compile") as compiled:
    each_alone = dataclasses.replace(data, subject=np.arange(len(data.subject)))
    run(family, sys.argv[2], each_alone)
    cloaks = run(family, sys.argv[2], data)
digest = hashlib.sha256()
for item in dataclasses.fields(cloaks):
    value = getattr(cloaks, item.name)
    digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
print(len(compiled.buffer), len(cloaks.record_id), digest.hexdigest())
"""


def digest(family: str, algorithm: str, threads: int, cache: Path) -> str:
    environment = {**os.environ, **dict.fromkeys(POOLS, str(threads)), "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, family, algorithm]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize(("family", "algorithm"), ALGORITHMS)
def test_one_thread_and_two_make_the_same_cloaks(family, algorithm, tmp_path):
    alone = digest(family.name, algorithm, 1, tmp_path)
    compiled, rows, _ = alone.split()
    assert (int(compiled), int(rows) > 0) == (0, True)  # all that is needed was compiled by `prepare`
    assert digest(family.name, algorithm, 2, tmp_path) == alone

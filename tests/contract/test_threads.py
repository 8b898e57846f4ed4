"""One thread and two make the same cloaks, in processes of their own, with what was compiled beforehand."""

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
from dbanon.base import kernels
from dbanon.methods import METHODS
from tests.contract.evidence import make_people, run
data = make_people(600, side=1000.0)
data = dataclasses.replace(data, x=np.round(data.x / 20) * 20, y=np.round(data.y / 20) * 20)
family = METHODS[sys.argv[1]]
family.prepare(sys.argv[2], family.parse(family.example))
load, asked = kernels._Files.load, []  # code is asked for when a kernel first meets some types
kernels._Files.load = lambda files, key: asked.append(key) or load(files, key)
if sys.argv[3] == "1":
    run(family, sys.argv[2], dataclasses.replace(data, subject=np.arange(len(data.subject))))  # each alone
cloaks = run(family, sys.argv[2], data)
digest = hashlib.sha256()
for item in dataclasses.fields(cloaks):
    value = getattr(cloaks, item.name)
    digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
print(len(asked), len(cloaks.record_id), digest.hexdigest())
"""


def digest(family: str, algorithm: str, threads: int) -> str:
    environment = {**os.environ, **dict.fromkeys(POOLS, str(threads))}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, family, algorithm, str(threads)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.stress
@pytest.mark.many
@pytest.mark.parametrize(("family", "algorithm"), ALGORITHMS)
def test_one_thread_and_two_make_the_same_cloaks(family, algorithm):
    alone = digest(family.name, algorithm, 1)
    asked, rows, _ = alone.split()
    assert (int(asked), int(rows) > 0) == (0, True)  # `prepare` has met all types
    assert digest(family.name, algorithm, 2) == alone

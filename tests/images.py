"""The images of docker/, as tests run them."""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


@functools.cache
def build_worker_image() -> str:
    """Build the image of the worker, of which Docker keeps what has not changed, and return its name."""
    build = (
        "docker build -q --network host --file docker/programs.Dockerfile --build-arg COMPILED=tp-aware --target worker"
    )
    done = subprocess.run(
        [*build.split(), "--tag", "dbanon-worker", "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return "dbanon-worker"

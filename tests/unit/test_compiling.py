"""Who runs for the first time on a machine is told that kernels are compiled, and nobody else."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from dbanon import worker
from dbanon.attacks import attacker
from dbanon.methods import method
from dbanon.runs import compiling

KERNEL = "import numba\n\n@numba.njit(cache=True)\ndef kernel(x):\n    return x + 1\n"


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernels_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_compiled_is_heard_and_what_the_cache_holds_is_not(tmp_path: Path) -> None:
    path, said = tmp_path / "kernels_of_a_test.py", []
    path.write_text(KERNEL)
    for first in (True, False):
        module = loaded(path)
        with compiling.notify(lambda: said.append("heard")):
            assert module.kernel(1) == 2
        assert bool(said) == first
        said.clear()
    module = loaded(path)
    module.kernel(1.5)
    assert said == []  # nobody listens any more


def test_a_worker_notes_in_its_log_that_it_compiles_and_no_other_progress(capsys: pytest.CaptureFixture[str]) -> None:
    process = worker._Process(worker.Settings(dsn=None, grace_s=0, parent=0))
    process._tell("computing cloaks", 0, None)
    process._tell(compiling.STAGE, 0, None)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(compiling.STAGE)


@pytest.mark.parametrize("name", ["tp-aware", "kte", "mob", "semantic"])
def test_what_an_attack_compiles_beforehand_is_compiled_without_data(name: str) -> None:
    attacker(method(name).attack).prepare()

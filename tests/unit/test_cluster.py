"""Tasks done by Dask clusters of two and four processes on this machine come to the same as in one process."""

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

from dbanon.base import cores
from dbanon.base.errors import DataError, DbanonError, StoreError
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.methods import METHODS
from dbanon.worker import cluster
from dbanon.worker.cluster import Cluster
from tests.contract.evidence import make_people
from tests.contract.test_methods import is_same
from tests.unit import shared_tasks
from tests.unit.shared_tasks import wait_until


def open_local(processes: int, **more: object) -> distributed.LocalCluster:
    settings = {"n_workers": processes, "threads_per_worker": 1, "dashboard_address": ":0"}
    return distributed.LocalCluster(**settings, **more)


@pytest.fixture(scope="module")
def two() -> Iterator[distributed.LocalCluster]:
    with open_local(2) as cluster:
        yield cluster


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_S", 1)


def compute_cloaks(tasks: Tasks):
    family = METHODS["tp-aware"]
    params = family.parse({"k": 4, "instants": 4})
    return family.anonymise(make_people(200, instants=40), "traj-anon", params, np.random.default_rng(0), tasks=tasks)


@pytest.mark.stress
def test_cloaks_are_the_same_with_two_processes_and_with_one(two) -> None:
    said: list[str] = []
    cluster = Cluster(two.scheduler_address)
    cluster.announce_processes(said.append)
    assert "2 processes" in said[0]
    assert "true positions" in said[1]
    assert is_same(compute_cloaks(SERIAL_TASKS), compute_cloaks(cluster))
    numbers = cluster.map(shared_tasks.compute_square, ((n,) for n in range(50)))
    assert numbers == [n * n for n in range(50)]


@pytest.mark.stress
def test_cloaks_are_the_same_with_four_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    with open_local(4) as four:
        cluster = Cluster(four.scheduler_address)
        assert is_same(compute_cloaks(SERIAL_TASKS), compute_cloaks(cluster))
        assert len(set(cluster.map(shared_tasks.wait_for_others, [(str(tmp_path), 4)] * 4))) == 4
        again = tmp_path / "again"
        again.mkdir()
        assert cluster.map(shared_tasks.end_once, ((str(again), n) for n in range(40))) == list(range(40))
        assert (again / "ended").exists()


@pytest.mark.stress
def test_a_task_of_a_slow_machine_is_done_by_another(two, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(cluster, "_PATIENCE_FACTOR", 1)
    numbers = [(str(tmp_path), number) for number in range(3)]
    asked, processing = iter([OSError("for once not heard")]), distributed.Client.processing

    def hear(client: distributed.Client) -> object:
        for error in asked:
            raise error
        return processing(client)

    monkeypatch.setattr(distributed.Client, "processing", hear)
    assert Cluster(two.scheduler_address).map(shared_tasks.hang_once, numbers) == [0, 1, 2]
    assert next(asked, None) is None
    (tmp_path / "over").touch()


@pytest.mark.stress
def test_a_task_that_ends_every_process_ends_the_run_and_is_not_done_for_ever(two) -> None:
    with pytest.raises(StoreError) as caught:
        Cluster(two.scheduler_address).map(shared_tasks.end, [(np.arange(3),)] * 2)
    assert caught.value.sqlstate is None
    assert Cluster(two.scheduler_address).map(shared_tasks.compute_square, [(3,), (4,)]) == [9, 16]


def test_the_error_is_that_of_the_first_task_that_fails_and_no_log_shows_its_arguments(two, capfd) -> None:
    with pytest.raises(ArithmeticError) as caught:
        Cluster(two.scheduler_address).map(shared_tasks.fail_from, ((123456 + n, 123459) for n in range(9)))
    assert caught.value.args == (123459,)
    wait_until(lambda: "Compute Failed" in "".join(two.get_logs().values()))
    logs = "".join([*two.get_logs().values(), *capfd.readouterr()])
    assert "123459" in logs  # the error itself, which names nothing of the data
    assert "123456" not in logs
    assert "123456" not in repr(cluster._Task("1", shared_tasks.compute_square, (123456,)))


def test_an_interruption_takes_back_all_tasks(two) -> None:
    def arguments() -> Iterator[tuple[int]]:
        yield (1,)
        yield (2,)
        wait_until(lambda: len(two.scheduler.tasks) == 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cluster(two.scheduler_address).map(shared_tasks.compute_square, arguments())
    wait_until(lambda: not two.scheduler.tasks)


def test_positions_stay_with_their_task_and_no_warning_says_that_they_are_large(two) -> None:
    large = np.zeros(4_000_000)
    assert Cluster(two.scheduler_address).map(np.sum, [(large,)] * 2) == [0.0] * 2


def test_a_single_task_is_done_here_on_all_cores() -> None:
    assert Cluster("tcp://127.0.0.1:1").map(cores.count_threads, [()]) == [cores.count_threads()]


@pytest.mark.stress
def test_a_scheduler_that_ends_is_worth_another_try(impatient: None, tmp_path: Path) -> None:
    def arguments() -> Iterator[tuple[str, int]]:
        yield str(tmp_path), 1
        yield str(tmp_path), 2
        wait_until(lambda: list(tmp_path.iterdir()))
        cluster.close()

    with open_local(1) as cluster, pytest.raises(StoreError) as caught:
        Cluster(cluster.scheduler_address).map(shared_tasks.begin_and_stay, arguments())
    assert caught.value.sqlstate == "08006"


@pytest.mark.parametrize("error", [OSError("closed"), TimeoutError(), RuntimeError("IOLoop is closed")])
def test_a_scheduler_that_is_lost_while_it_is_asked_is_worth_another_try(
    two, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(distributed.Client, "nthreads", lost)
    with pytest.raises(StoreError) as caught:
        Cluster(two.scheduler_address).announce_processes(print)
    assert caught.value.sqlstate == "08006"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tls://127.0.0.1:1", "here", "no://where:1", ""])
def test_a_scheduler_that_does_not_answer_is_named(impatient: None, address: str) -> None:
    with pytest.raises(StoreError) as caught:
        Cluster(address).announce_processes(print)
    assert f"at {address} gave" in str(caught.value)
    assert caught.value.sqlstate == "08006"


def test_the_package_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DbanonError) as caught:
        Cluster("tls://here:8786")
    assert "dbanon[dask]" in str(caught.value)


def test_another_version_on_the_cluster_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        cluster._do(cluster._Task("0.0.1", shared_tasks.compute_square, (2,)))
    assert "dbanon 0.0.1" in str(caught.value)


def test_a_task_uses_one_core() -> None:
    import importlib.metadata

    version = importlib.metadata.version("dbanon")
    assert cluster._do(cluster._Task(version, cores.count_threads, ()))[0] == 1


# ---- tls -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Make a key and a certificate signed with it: the files' names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dbanon test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(encoding))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")


@pytest.mark.stress
def test_positions_travel_encrypted_with_the_certificates_of_dasks_configuration(
    impatient: None, certificate: tuple[str, str]
) -> None:
    cert, key = certificate
    roles = {f"distributed.comm.tls.{role}": {"cert": cert, "key": key} for role in ("client", "scheduler", "worker")}
    with dask.config.set({"distributed.comm.tls.ca-file": cert, **roles}):
        cluster = open_local(2, protocol="tls", security=Security(require_encryption=True))
    with cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with pytest.raises(StoreError):
            Cluster(cluster.scheduler_address).announce_processes(print)
        with dask.config.set({"distributed.comm.tls.ca-file": cert, **roles}):
            said: list[str] = []
            Cluster(cluster.scheduler_address).announce_processes(said.append)
            assert not any("encrypt" in line for line in said)
            assert is_same(compute_cloaks(SERIAL_TASKS), compute_cloaks(Cluster(cluster.scheduler_address)))

"""What a worker answers over HTTP costs it little, whoever asks, and however slowly."""

import contextlib
import multiprocessing
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from dbanon import worker
from dbanon.worker import watched
from dbanon.worker.events import Log

DEADLINE_S = 0.5


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a server that answers every request, and gives each half a second."""
    monkeypatch.setattr(watched, "_REQUEST_S", DEADLINE_S)
    server = watched._start_server("127.0.0.1:0", lambda _: (HTTPStatus.OK, "text/plain", b"fine"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(b"GET /healthz HTTP/1.0\r\nX: ")
    return client


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        with client.makefile("rb") as answer:
            return answer.read()


def test_a_request_has_one_deadline_however_many_bytes_come(port: int) -> None:
    began = time.monotonic()
    with connect(port) as client, contextlib.suppress(OSError):
        client.settimeout(0.05)
        while True:
            client.sendall(b"a")
            with contextlib.suppress(TimeoutError):
                if client.recv(1) == b"":
                    break
    assert time.monotonic() - began < 20 * DEADLINE_S
    assert ask(port).endswith(b"fine")


def test_of_many_connections_the_oldest_is_given_up_and_a_quick_request_answered(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_REQUEST_S", 60)
    before = threading.active_count()
    with contextlib.ExitStack() as clients:
        opened = [clients.enter_context(connect(port)) for _ in range(3 * watched._MAX_CONNECTIONS)]
        assert ask(port).endswith(b"fine")
        opened[0].settimeout(10)
        assert opened[0].recv(1) == b""
        assert threading.active_count() - before <= watched._MAX_CONNECTIONS + 1


def test_a_process_without_files_neither_spins_nor_stops_answering(port: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    with socket.socket() as client:
        client.settimeout(10)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(int(file.name) for file in Path("/proc/self/fd").iterdir()) + 1, hard)
        )
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            used = time.process_time()
            time.sleep(1)
            assert time.process_time() - used < 0.3
        finally:
            for number in taken:
                os.close(number)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with client.makefile("rb") as answer:
            assert answer.read().endswith(b"fine")


def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, os.strerror(24))

    context = multiprocessing.get_context("spawn")
    old = context.Process(target=print)
    monkeypatch.setattr(worker, "_start_process", refuse)
    monkeypatch.setattr(worker, "_RESTART_S", 0)
    settings = worker.Settings(dsn=None, grace_s=1, parent=os.getpid())
    assert worker._restart_process(context, settings, old, Log("json")) is old
    assert '"level": "error"' in capsys.readouterr().err
    monkeypatch.setattr(worker, "_start_process", lambda *_: "new")
    assert worker._restart_process(context, settings, old, Log("json")) == "new"

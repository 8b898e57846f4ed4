"""Lets a monitoring system watch a worker: a file that is touched, and answers over HTTP.

A thread of the supervisor looks at the database every few seconds, on a connection of its own. A client is answered
from what the last look found, so no client can hold up the worker or the server. An old look counts as none.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from dbanon.base.errors import DbanonError, ParameterError
from dbanon.database import open_database
from dbanon.runs import queue
from dbanon.worker.events import Log

_LOOK_S = 2.0
_OLD_S = 15.0  # after that a look counts no more: the server may hang
_REQUEST_S = 5.0  # for a client to send its request and take the answer
_MAX_CONNECTIONS = 16
_PAUSE_S = 0.04  # between two connections, so that no number of clients takes much of a core
_BEAT_S = 30.0  # the supervisor's loop takes half a second


class Watched:
    """What a worker shows of itself while a ``with`` block lasts.

    Parameters
    ----------
    dsn : str or None
        See `dbanon.connect`.
    log : Log
    heartbeat : path, optional
        File to touch at each look that finds the worker ready.
    listen : str, optional
        Address for HTTP, ``HOST:PORT``.

    Raises `ParameterError` if the file cannot be written, the address is none or is in use, or the package for the
    metrics is missing.
    """

    def __init__(self, dsn: str | None, log: Log, *, heartbeat: Path | None, listen: str | None) -> None:
        self._dsn, self._log, self._heartbeat = dsn, log, heartbeat
        self._over, self._again = threading.Event(), threading.Event()
        self._beaten = time.monotonic()
        self._looked = float("-inf")
        self._names: frozenset[str] = frozenset()
        self._vitals: list[dict[str, Any]] = []
        self._ready = self._touched = False
        if heartbeat is not None:
            _touch(heartbeat)
        self._server = None if listen is None else _start_server(listen, self._answer)
        self._threads = [threading.Thread(target=self._look, daemon=True)] if heartbeat or listen else []
        if self._server is not None:
            self._threads.append(threading.Thread(target=self._server.serve_forever, daemon=True))

    def __enter__(self) -> "Watched":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def beat(self, pids: list[int | None]) -> None:
        """Say that the supervisor is alive, and which processes do the runs now."""
        self._beaten = time.monotonic()
        self._names = frozenset(queue.name_process(pid) for pid in pids if pid is not None)

    def reload(self) -> None:
        """Connect afresh."""
        self._again.set()

    def note_stop(self) -> None:
        """Count as not ready from now on, while runs are being finished."""
        self._over.set()

    # ---- looking

    def _look(self) -> None:
        while not self._over.is_set():
            try:
                with open_database(self._dsn) as database:
                    connection = database.connection
                    connection.execute("SET statement_timeout = '10s'")
                    self._again.clear()
                    while not (self._over.is_set() or self._again.is_set()):
                        self._see(connection)
                        self._over.wait(_LOOK_S)
            except (DbanonError, psycopg.Error, OSError):  # the processes that do the runs log what is wrong
                self._ready = False
                self._over.wait(_LOOK_S)

    def _see(self, connection: "psycopg.Connection[Any]") -> None:
        with connection.cursor(row_factory=dict_row) as cursor:
            up = cursor.execute("SELECT name FROM dbanon.workers").fetchall()
            vitals = cursor.execute("SELECT name, about, labels, value FROM dbanon_internal.list_vitals()").fetchall()
        self._vitals, self._looked = vitals, time.monotonic()
        self._ready = any(row["name"] in self._names for row in up)
        if self._ready and self._heartbeat is not None:
            try:
                self._heartbeat.touch()
                self._touched = True
            except OSError:
                if self._touched:
                    self._log.write_event("heartbeat", "the heartbeat file cannot be written", level="error")
                self._touched = False

    # ---- answering

    def _answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        now = time.monotonic()
        connected = now - self._looked < _OLD_S and not self._over.is_set()
        if path == "/healthz":
            return _answer_health(
                now - self._beaten < _BEAT_S, "The supervisor is alive.", "The supervisor does not respond."
            )
        if path == "/readyz":
            lacking = "No process of this worker is connected to the database."
            return _answer_health(connected and self._ready, "The worker is connected and takes runs.", lacking)
        if path == "/metrics":
            return _format_metrics(self._vitals if connected else [], connected=connected and self._ready)
        return _make_answer(HTTPStatus.NOT_FOUND, "There are /healthz, /readyz and /metrics.")


def _touch(file: Path) -> None:
    if file.is_dir():
        raise ParameterError("--heartbeat must name a file. Got a directory. Name a file in it.")
    try:
        file.touch()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have that name"
        raise ParameterError(
            f"--heartbeat must name a file that can be written. Got: {reason}. Name another."
        ) from None


def _answer_health(is_fine: bool, yes: str, no: str) -> tuple[HTTPStatus, str, bytes]:
    return _make_answer(HTTPStatus.OK, yes) if is_fine else _make_answer(HTTPStatus.SERVICE_UNAVAILABLE, no)


def _make_answer(status: HTTPStatus, sentence: str) -> tuple[HTTPStatus, str, bytes]:
    return status, "text/plain; charset=utf-8", f"{sentence}\n".encode()


def _format_metrics(vitals: list[dict[str, Any]], *, connected: bool) -> tuple[HTTPStatus, str, bytes]:
    """Write figures in the text format of Prometheus; what is not known has no line."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    gauges = {"connected": Gauge("dbanon_connected", "Whether the worker is connected.", registry=registry)}
    gauges["connected"].set(connected)
    for row in vitals:
        name, labels = row["name"], row["labels"]
        if name not in gauges:
            gauges[name] = Gauge(f"dbanon_{name}", row["about"], list(labels), registry=registry)
        (gauges[name].labels(**labels) if labels else gauges[name]).set(row["value"])
    return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)


def _start_server(listen: str, answer: Callable[[str], tuple[HTTPStatus, str, bytes]]) -> ThreadingHTTPServer:
    host, separator, port = listen.rpartition(":")
    if not (separator and host and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ParameterError(
            "--listen must be an address of this machine and a port, such as 127.0.0.1:9464. Got something else. "
            "Correct it."
        )

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_S
        server_version, sys_version = "dbanon", ""

        def do_GET(self) -> None:
            status, kind, body = answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:  # the worker's log is of runs
            pass

    try:
        family, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        server_class = type("Server", (_Server,), {"address_family": family})
        made: ThreadingHTTPServer = server_class(address[:2], Handler)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no host can have that name"
        raise ParameterError(
            f"--listen must be an address of this machine with a port that is free. Got: {reason}. Name another."
        ) from None
    return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    block_on_close = False  # a slow client does not hold up the end of the worker

    def __init__(self, *given: Any) -> None:
        self._open: dict[Any, float] = {}  # connections and when they began, the oldest first
        super().__init__(*given)

    def get_request(self) -> tuple[socket.socket, Any]:
        time.sleep(_PAUSE_S)  # also where no file is left for the connection, which is there still at the next look
        return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        # A byte now and then keeps no connection. In a flood the oldest ends, so whoever asks quickly is answered.
        opened = list(self._open.items())
        for place, (request, began) in enumerate(opened):
            if place < len(opened) - _MAX_CONNECTIONS or time.monotonic() - began > _REQUEST_S:
                with suppress(OSError):  # the client is gone
                    request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:  # for each connection, however it ends
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:  # a client that is gone is no matter
        pass

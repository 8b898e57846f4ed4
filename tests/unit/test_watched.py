"""What a worker shows of itself: bad settings are refused at once, and nobody who asks holds it up."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dbanon.base.errors import ParameterError, StoreError
from dbanon.postgres.sqlstate import translate
from dbanon.worker import watched
from dbanon.worker.events import Log
from dbanon.worker.watched import Watched
from tests.facts import demand_named

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def port() -> Iterator[int]:
    """Port of a worker whose database does not answer."""
    number = find_free_port()
    with Watched(NOWHERE, Log("json"), heartbeat=None, listen=f"127.0.0.1:{number}"):
        yield number


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Send a request; returns status and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return response.status, response.read().decode()


def test_without_a_database_it_is_alive_and_not_ready_and_has_no_figures(port: int) -> None:
    assert ask(port, "/healthz")[0] == 200
    status, body = ask(port, "/readyz")
    assert (status, body.count("\n")) == (503, 1)
    demand_named(body, "connected")
    status, body = ask(port, "/metrics")
    figures = {
        sample.name: sample.value for family in text_string_to_metric_families(body) for sample in family.samples
    }
    assert (status, figures) == (200, {"dbanon_connected": 0})


def test_it_is_not_alive_once_the_supervisor_does_not_go_on(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_BEAT_S", 0.0)
    assert ask(port, "/healthz")[0] == 503


def test_an_endpoint_that_is_none_is_answered_by_a_sentence_that_quotes_nothing(port: int) -> None:
    status, body = ask(port, "/ann-at-the-clinic?secret")
    assert status == 404
    demand_named(body, "/healthz", "/readyz", "/metrics")
    assert "ann" not in body
    assert ask(port, "/metrics", "POST")[0] == 501


def test_a_client_that_never_sends_its_request_holds_up_nobody_and_is_sent_away(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    silent[0].sendall(b"GET /metr")
    assert ask(port, "/healthz")[0] == 200
    for client in silent:
        client.settimeout(60)
        assert client.recv(1) == b""
        client.close()


def test_the_end_waits_for_no_client() -> None:
    number = find_free_port()
    with Watched(NOWHERE, Log("json"), heartbeat=None, listen=f"127.0.0.1:{number}"):
        client = socket.create_connection(("127.0.0.1", number))
        assert ask(number, "/healthz")[0] == 200
        began = time.monotonic()
    assert time.monotonic() - began < watched._REQUEST_S
    client.close()


@pytest.mark.parametrize(
    ("listen", "fact"),
    [
        ("9464", "127.0.0.1:9464"),
        (":9464", "127.0.0.1:9464"),
        ("127.0.0.1:", "127.0.0.1:9464"),
        ("127.0.0.1:http", "127.0.0.1:9464"),
        ("127.0.0.1:65536", "127.0.0.1:9464"),
        ("127.0.0.1:-1", "127.0.0.1:9464"),
        ("127.0.0.1:٩٤٦٤", "127.0.0.1:9464"),
        ("no host:9464", "--listen"),
        ("nosuch.invalid:9464", "--listen"),
        ("192.0.2.1:9464", "--listen"),
        ("x" * 300 + ":9464", "--listen"),
    ],
)
def test_an_address_that_is_none_is_refused_by_one_sentence(listen: str, fact: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Watched(NOWHERE, Log("text"), heartbeat=None, listen=listen)
    demand_named(str(caught.value), fact)
    assert "\n" not in str(caught.value)


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ParameterError) as caught:
        Watched(NOWHERE, Log("text"), heartbeat=None, listen=f"127.0.0.1:{taken.getsockname()[1]}")
    demand_named(str(caught.value), "in use")


def test_an_address_of_ipv6_will_do() -> None:
    with Watched(NOWHERE, Log("text"), heartbeat=None, listen="[::1]:0"):
        pass


@pytest.mark.parametrize("place", ["", "nowhere/beat", "nul\0"])
def test_a_heartbeat_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Watched(NOWHERE, Log("text"), heartbeat=tmp_path / place, listen=None)
    demand_named(str(caught.value), "--heartbeat")


def test_a_line_of_json_quotes_only_sentences_that_hold_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log("json")
    log.write_event("done", "run 7 of ann", run_id=7, state="verified", seconds=1.5, tries=None)
    own = StoreError("What was published must be known.", "DA020")
    log.write_failure("failed", "words", own, run_id=8)
    log.write_failure("failed", "words", StoreError("The file /home/ann/clinic.csv is gone.", "58P01"))
    log.write_failure("failed", "words", StoreError("There is no column 'ann'.", "DA012"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all({"at", "level", "event", "worker"} <= line.keys() for line in lines)
    assert {name: lines[0][name] for name in ("event", "level", "run_id", "state", "seconds")} == {
        "event": "done", "level": "info", "run_id": 7, "state": "verified", "seconds": 1.5
    }  # fmt: skip
    assert "tries" not in lines[0]
    assert (lines[1]["level"], lines[1]["sqlstate"], lines[1]["sentence"]) == ("error", "DA020", str(own))
    assert [(line["sqlstate"], line.get("sentence")) for line in lines[2:]] == [("58P01", None), ("DA012", None)]
    assert "ann" not in json.dumps(lines)


def test_the_sqlstate_of_an_error_of_another_family_is_that_of_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    cause = psycopg.errors.lookup("22012")()
    error = translate(cause)
    error.__cause__ = cause
    Log("json").write_failure("failed", "", error)
    assert json.loads(capsys.readouterr().err)["sqlstate"] == "22012"

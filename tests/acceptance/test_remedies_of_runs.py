# ruff: noqa: E501
"""What a message about runs, pages, jobs, servers and workers proposes is done on the input that made it say so."""

import os
import re
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from dbanon import metrics, testing
from dbanon.attacks import tp_aware
from dbanon.base.errors import ParameterError, StoreError
from dbanon.database import Database, open_database
from dbanon.postgres import programs, server
from dbanon.postgres.connection import connect_to_hold
from dbanon.postgres.server import Target
from dbanon.testing import cloned_database
from tests.acceptance import workers
from tests.acceptance.commands import call, run_typed
from tests.acceptance.test_remedies import change, fail, find_options, succeed
from tests.hints import tries
from tests.unit.test_server import machine, make_installation

__all__ = ["machine"]
pytestmark = [pytest.mark.db, pytest.mark.stress]  # hundreds of processes, each of which starts anew

CANNOT = {
    "Write it as CSV or GPX by OwnTracks' `ocat --format`": "of another program",
}
"""Pieces of sentences whose proposals cannot be executed, and why."""

JOB = [
    "job",
    "add",
    "taxi",
    "--source",
    "public.gps",
    "--method",
    "tp-aware",
    "--subject",
    "subject",
    "--time",
    "t",
    "--geom",
    "position",
    "-p",
    "k=3",
    "--starts",
    "2026-01-05T00:00:00Z",
]
RUN = ["run", "tp-aware", "--dataset", "city", "-p", "k=7", "-p", "instants=5"]
COMMAND = r"`dbanon ([^`]*)`"


@pytest.fixture(scope="module")
def shared(dbanon_server: Target, city_template: tuple[str, int]) -> Iterator[str]:
    """URL of a city with the release city_k5, which several tests use."""
    with cloned_database(dbanon_server, city_template[0]) as url:
        succeed(url, ["publish", "1", "city_k5"])
        yield url


def take_example(said: str) -> str:
    """What a sentence gives as an example of a value."""
    [value] = re.findall(r"(?:such as|like)(?: --[a-z]+)? ([\w./=:]+?)[.,]?(?=\s|$)", said)
    return str(value)


# ---- options ---------------------------------------------------------------------------------------------------------


@tries("A page for analysts must not show the truth", "must be published to replace or extend")
@pytest.mark.parametrize(
    ("words", "change_of"),
    [
        (["report", "city_k5", "-o", "PAGE", "--for", "analysts", "--with-truth"], {"--with-truth": None}),
        ([*RUN, "--allow-overlap", "--reason", "of a test alone"], {"--publish": "again"}),
    ],
)
def test_the_option_that_is_named_is_given_or_left_out(
    shared: str, tmp_path: Path, words: list[str], change_of: dict[str, str | None]
) -> None:
    words = [{"PAGE": str(tmp_path / "page.html")}.get(word, word) for word in words]
    said = fail(shared, words)
    assert change_of.keys() <= {name for name, _ in find_options(said)}, said
    succeed(shared, change(words, **{name[2:].replace("-", "_"): value for name, value in change_of.items()}))


@tries(
    "--tz must be the name of a time zone", "--source must name a table or view",
    "Write it like --limit", "--from must be a revision",
)  # fmt: skip
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["report", "city_k5", "-o", "PAGE", "--tz", "Mars"], "--tz"),
        (change(JOB, source="gps"), "--source"),
        ([*JOB, "--replace", "--limit", "requests=few"], "--limit"),
        (["db", "script", "--from", "x"], "--from"),
    ],
)
def test_the_value_that_is_named_is_given(shared: str, tmp_path: Path, words: list[str], option: str) -> None:
    words = [{"PAGE": str(tmp_path / "page.html")}.get(word, word) for word in words]
    said = fail(shared, words)
    assert option in said
    value = re.findall(r"one of: '(\w+)'", said)[0] if option == "--from" else take_example(said)
    succeed(shared, change(words, **{option[2:]: value}))


@tries("--further must be JSON")
def test_json_is_quoted_for_the_shell(city_url: str, tmp_path: Path) -> None:
    further = '[{"source": "public.asked", "kind": "requests", "columns": ["poi"]}]'
    with psycopg.connect(city_url, autocommit=True) as owner:
        owner.execute("CREATE VIEW public.asked AS SELECT subject, t AS time, 'cafe' AS poi FROM public.gps")
    command = f"dbanon {shlex.join(JOB)} --further "
    said = run_typed(city_url, tmp_path, command + further.replace(" ", ""))
    assert "Quote" in said.sentence
    succeed(city_url, shlex.split(command + shlex.quote(further))[1:])


# ---- commands --------------------------------------------------------------------------------------------------------


@tries(
    "which `dbanon runs` lists",
    "must be of a run with rows",
    "`dbanon verify` attacks every row",
    "`dbanon methods NAME` shows",
)
def test_the_command_that_is_named_is_one(city_url: str, tmp_path: Path) -> None:
    succeed(city_url, ["submit", "tp-aware", "--dataset", "city"])
    page = ["-o", str(tmp_path / "page.html")]
    for words in (["verify", "x"], ["report", "2", "--with-truth", *page]):
        [command] = re.findall(COMMAND, fail(city_url, words))
        done = call(city_url, *command.split())
        assert (done.code, "queued" in done.stdout) == (0, True)
    [text] = [one.plain for one in metrics.METRICS.values() if "`dbanon verify`" in one.plain]
    succeed(city_url, [*re.findall(COMMAND, text), "1"])
    listed = call(city_url, "methods").stdout
    [(verb, name)] = re.findall(r"`dbanon (\w+) (NAME)`", listed)
    assert name == "NAME"
    for family in re.findall(r"^([a-z]+(?:-[a-z]+)*)  ", listed, re.MULTILINE):
        if family != "method":
            succeed(city_url, [verb, family])


@tries("A page that shows no truth must be of a run that is verified")
def test_a_run_that_is_not_verified_is_verified_for_its_page(city_url: str, tmp_path: Path) -> None:
    with psycopg.connect(city_url, autocommit=True) as owner:
        owner.execute("UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE run_id = 1 AND record_id = 1")
        page = ["report", "1", "-o", str(tmp_path / "page.html")]
        verify, another = re.findall(COMMAND, fail(city_url, page))
        owner.execute("UPDATE dbanon.cloak SET crowd = crowd - 1 WHERE run_id = 1 AND record_id = 1")
        owner.execute("DELETE FROM dbanon.verification")
    assert re.findall(COMMAND, fail(city_url, page)) == [verify, another]
    succeed(city_url, verify.split())
    succeed(city_url, page)
    assert another == RUN[0]


@tries("Read them with: SELECT")
def test_what_is_published_is_read_as_proposed(city_url: str) -> None:
    [query] = re.findall(r"SELECT \* FROM \S+", call(city_url, "publish", "1", "city_k5").stdout)
    with psycopg.connect(city_url) as owner:
        assert owner.execute(query).fetchall()


@tries("The connection to the server was lost while run")
def test_a_run_goes_on_when_the_connection_that_waits_is_lost(city_url: str) -> None:
    with open_database(city_url) as database, psycopg.connect(city_url, autocommit=True) as other:
        database.progress = lambda *_: other.execute(
            "SELECT pg_terminate_backend(%s, 9000)", [database.connection.info.backend_pid]
        )
        with pytest.raises(StoreError) as caught:
            database.wait(database.submit("tp-aware", dataset="city"))
    [command] = re.findall(COMMAND, str(caught.value))
    assert "queued" in call(city_url, *command.split()).stdout


@tries("The verification of run {} did not finish", "The lock on run {} was lost")
def test_a_verification_or_run_that_was_lost_is_looked_after_as_proposed(
    verified_city: tuple[Database, int], city_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, run = verified_city
    with pytest.raises(StoreError) as caught:
        database.wait(run, after=1)
    [command] = re.findall(COMMAND, str(caught.value))
    succeed(city_url, command.split())
    attack = tp_aware.attack

    def lose(evidence: object) -> object:
        database.connection.execute("UPDATE dbanon.run SET attempts = attempts + 1 WHERE run_id = 2")
        return attack(evidence)  # type: ignore[arg-type]

    monkeypatch.setattr(tp_aware, "attack", lose)
    database.submit("tp-aware", dataset="city", params={"k": 7})
    with connect_to_hold(city_url) as holder, pytest.raises(StoreError) as caught:
        database.run_next(holder, "here")
    [command] = re.findall(COMMAND, str(caught.value))
    succeed(city_url, command.split())


@tries("which is a defect ({})", "or --debug of the command line")
def test_what_is_behind_a_defect_is_seen_with_the_option(city_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(city_url, autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'by a rule' "
            "USING ERRCODE = '38000'; END$$; CREATE TRIGGER stop BEFORE DELETE ON dbanon.run EXECUTE FUNCTION public.stop()"
        )
    monkeypatch.setattr(Database, "runs", lambda _: {}["nothing"])
    for words, reason in ((["runs"], "KeyError: 'nothing'"), (["drop", "1"], "by a rule")):
        [(option, _)] = find_options(fail(city_url, words))
        assert reason in call(city_url, *words, option).stderr


# ---- servers ---------------------------------------------------------------------------------------------------------


@tries("The server does not answer", "Or have the login made, and let in", "or ask the server's administrator")
@pytest.mark.parametrize("wrong", [{"host": "127.0.0.1", "port": "1"}, {"user": "nobody_at_all"}, {"dbname": "closed"}])
def test_another_server_is_named_as_proposed(
    city_url: str, wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = server.parse(city_url)
    if "dbname" in wrong:
        wrong = {"dbname": f"{known['dbname']}_closed"}
        with psycopg.connect(city_url, autocommit=True) as owner:
            owner.execute(f"CREATE DATABASE {wrong['dbname']} ALLOW_CONNECTIONS false")
    try:
        said = fail(server.format_uri(known | wrong), ["runs"])
    finally:
        if "dbname" in wrong:
            owner = psycopg.connect(city_url, autocommit=True)
            owner.execute(f"DROP DATABASE {wrong['dbname']}")
            owner.close()
    assert ("--dsn", "") in find_options(said)
    succeed(city_url, ["runs"])
    assert re.search(r"PG(?:\*|PASSWORD)", said)  # the latter of a server that asks for one
    for name, value in known.items():
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), value)
    monkeypatch.delenv("DBANON_DSN", raising=False)
    succeed("", ["runs"])


@pytest.fixture
def enterable() -> Iterator[Path]:
    """A directory that every user may enter, as pytest's may not be."""
    made = Path(tempfile.mkdtemp(prefix="dbanon-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@tries(
    "The embedded server needs PostGIS", "The embedded server's cluster needs", "or later with PostGIS. Got none",
    "The embedded server's programs must be runnable",
)  # fmt: skip
@pytest.mark.parametrize("lacking", ["postgis", "version", "programs", "rights"])
def test_a_server_is_named_where_the_embedded_one_lacks_something(
    machine: Path, enterable: Path, city_url: str, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking == "rights" and os.geteuid():
        pytest.skip("only root runs programs as another user")
    for name in ("DBANON_DSN", *server.SERVER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    home = enterable / "home"
    monkeypatch.setenv("DBANON_HOME", str(home))
    if lacking != "programs":
        make_installation(machine, "16.1", with_postgis=lacking != "postgis")
    if lacking == "version":
        (home / "data").mkdir(parents=True)
        (home / "data" / "PG_VERSION").write_text("15\n")
        if not os.geteuid():
            user = programs.find_system_user()
            for made in (home, home / "data"):
                os.chown(made, user.pw_uid, user.pw_gid)
    said = fail("", ["runs"])
    assert ("--dsn", "") in find_options(said), said
    succeed(city_url, ["runs"])  # which is given with that option


@tries("No Docker engine answered", "DBANON_TEST_SERVER must be embedded or container", "or name another image in")
def test_the_server_of_tests_is_chosen_as_proposed(dbanon_server: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TEST_SERVER": "container", "TEST_DSN": dbanon_server.url}.items():
        monkeypatch.setenv(f"DBANON_{name}", value)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with pytest.raises(StoreError) as absent, testing.running_server():
        pass
    monkeypatch.setenv(*re.findall(r"set (\w+)=(\w+)", str(absent.value))[0])
    with testing.running_server() as target, psycopg.connect(target.url) as connection:
        assert connection.execute("SELECT 1").fetchone()
    monkeypatch.setenv("DBANON_TEST_SERVER", "cloud")
    with pytest.raises(ParameterError) as other, testing.running_server():
        pass
    assert re.findall(r"Unset it", str(other.value))
    monkeypatch.delenv(re.findall(r"DBANON_\w+", str(other.value))[0])
    with testing.running_server() as target:
        assert target.url == dbanon_server.url

    def find(name: str) -> None:
        if name != "known":
            raise StoreError("no such image")

    # An engine that has one image.
    errors = SimpleNamespace(ImageNotFound=LookupError, DockerException=StoreError)
    client = SimpleNamespace(images=SimpleNamespace(get=find), close=lambda: None)
    monkeypatch.setattr(testing, "_connect_engine", lambda: (SimpleNamespace(errors=errors), client))
    with pytest.raises(StoreError) as absent:
        testing.demand_image()
    monkeypatch.setenv(re.findall(r"DBANON_\w+", str(absent.value))[0], "known")
    assert testing.demand_image() == "known"


# ---- workers ---------------------------------------------------------------------------------------------------------


@tries(
    "--heartbeat must name a file. Got",
    "--heartbeat must name a file that can",
    "and a port, such as",
    "with a port that is free",
)
def test_a_worker_is_watched_as_proposed(city_url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option, value in (
            ("--heartbeat", str(tmp_path)), ("--heartbeat", "/proc/none/beat"), ("--listen", f"127.0.0.1:{port}"),
            ("--listen", "here"),
        ):  # fmt: skip
            said = fail(city_url, ["worker", option, value])
            assert (option, "") in find_options(said)
    host, _, _ = take_example(said).rpartition(":")  # its port may be taken
    options = ("--heartbeat", str(tmp_path / "beat"), "--listen", f"{host}:{port}")
    with workers.keep_up(city_url, tmp_path / "log", *options) as worker:
        workers.wait_until((tmp_path / "beat").exists, 30, worker)
        socket.create_connection((host, port)).close()

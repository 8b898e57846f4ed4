"""What an administrator lets be published, and who signs it: dbanon.policy and dbanon.sign_run, with real logins."""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

import dbanon
from dbanon.base.errors import VerificationFailed
from dbanon.base.progress import report_nothing
from dbanon.cli.report import format_card
from tests.acceptance.commands import call
from tests.db.test_own_data import ENDED, NIGHTS, load, work
from tests.facts import demand_named, expect_refusal
from tests.hints import find_statements, refuse, tries
from tests.reading import read_column, read_value

Login = Callable[[str], str]
PUBLISH = "SELECT dbanon.publish(1, 'ten')"
DIGEST = "SELECT encode(digest, 'hex') FROM dbanon.verification ORDER BY verification_id DESC LIMIT 1"
SIGN = "SELECT dbanon.sign_run(%s, %s)"
FIRST = "SELECT state, sqlstate FROM dbanon.job_period ORDER BY period LIMIT 1"
KEPT = "SELECT policy FROM dbanon.release ORDER BY release_id"


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as one:
        one.execute(statement)  # type: ignore[call-overload]


def set_policy(owner: psycopg.Connection, **asked: Any) -> None:
    """Ask for these things and nothing else."""
    asked = (
        dict.fromkeys(("methods", "least_k", "longest_window_s", "largest_error", "signers"))
        | {"signatures": 0}
        | asked
    )
    columns = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in asked.items()
    )
    owner.execute(sql.SQL("UPDATE dbanon.policy SET {}").format(columns))


pytestmark = pytest.mark.db


@pytest.fixture
def officers(connection: psycopg.Connection) -> Iterator[str]:
    name = f"officers_{secrets.token_hex(4)}"
    connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    yield name
    connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.fixture
def sign(connection: psycopg.Connection, officers: str, login: Login) -> Callable[..., int]:
    """Sign as a new officer, or a login that is named, and with another digest."""

    def make(run_id: int = 1, url: str | None = None, digest: str | None = None) -> int:
        with psycopg.connect(url or login(officers), autocommit=True) as one:
            return one.execute(SIGN, [run_id, digest or read_value(connection, DIGEST)]).fetchone()[0]  # type: ignore[index]

    return make


# ---- what may be published


def test_an_empty_policy_changes_nothing(
    run: int, connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    operator.execute(PUBLISH)
    assert read_column(connection, KEPT) == [None]


@pytest.mark.parametrize(
    ("broken", "kept", "named"),
    [
        ({"methods": ["kte"]}, {"methods": ["kte", "tp-aware"]}, ["tp-aware", "kte"]),
        ({"methods": []}, {"methods": None}, ["none"]),
        ({"least_k": 6}, {"least_k": 5}, ["5", "6"]),
        ({"longest_window_s": 60}, {"longest_window_s": 86_400}, ["60"]),
        ({"largest_error": 0.2}, {"largest_error": None}, ["evaluate 1"]),
    ],
)
def test_what_the_policy_does_not_allow_is_refused_and_what_it_allows_is_not(
    *, run: int, connection: psycopg.Connection, operator: psycopg.Connection,
    broken: dict[str, Any], kept: dict[str, Any], named: list[str],
) -> None:  # fmt: skip
    set_policy(connection, **broken)
    with expect_refusal("DA025", 1, *named):
        operator.execute(PUBLISH)
    assert read_value(connection, "SELECT count(*) FROM dbanon.release") == 0
    set_policy(connection, **kept)
    operator.execute(PUBLISH)
    (stored,) = read_column(connection, KEPT)
    assert (stored or {}) == {name: value for name, value in kept.items() if value is not None}


def test_a_policy_that_is_changed_later_leaves_live_releases_alone(
    run: int, connection: psycopg.Connection, operator: psycopg.Connection
) -> None:
    set_policy(connection, least_k=2)
    operator.execute(PUBLISH)
    set_policy(connection, methods=[])
    assert read_value(operator, "SELECT count(*) FROM published.ten") == 4
    assert read_column(connection, KEPT) == [{"least_k": 2}]
    assert read_value(connection, "SELECT dbanon.release_card('ten') -> 'policy'") == {"least_k": 2}


def write_evaluation(connection: psycopg.Connection, *figures: tuple[float, int]) -> None:
    """Write what an evaluation of run 1 found: errors of squares of so many metres."""
    found = [{"name": "count_error", "value": error, "side_m": side, "asked": "moment"} for error, side in figures]
    connection.execute(
        """INSERT INTO dbanon.evaluation (
            run_id, dataset_id, dataset_revision, method, algorithm, params, against, queries, seed, figures)
        VALUES (1, 1, 1, 'tp-aware', 'traj-anon', '{}', 'published', 100, 1, %s)""",
        [Jsonb(found)],
    )


def test_a_measured_run_is_held_against_the_largest_error(run: int, connection: psycopg.Connection) -> None:
    write_evaluation(connection, (0.2049, 2000), (0.9, 1000), (0.1, 4000))
    write_evaluation(connection, (0.1, 2000))
    set_policy(connection, largest_error=0.2)
    with expect_refusal("DA025", "0.205", "0.2", 2000):  # of two measurements the worse, not rounded
        connection.execute(PUBLISH)
    set_policy(connection, largest_error=0.205)
    connection.execute(PUBLISH)


def test_a_measurement_of_other_rows_does_not_count(
    run: int, connection: psycopg.Connection, verify: Callable[..., None]
) -> None:
    write_evaluation(connection, (0.1, 2000))
    set_policy(connection, largest_error=0.2)
    connection.execute("UPDATE dbanon.region SET crowd = crowd + 1 WHERE region_no = 1")
    verify(connection)
    with expect_refusal("DA025", "evaluate 1"):
        connection.execute(PUBLISH)
    write_evaluation(connection, (0.1, 2000))
    connection.execute(PUBLISH)


def test_windows_are_held_against_the_longest_and_not_the_whole_run(
    connection: psycopg.Connection, database: str
) -> None:
    load(database, "create", (1, 9, 0, 31))
    with dbanon.connect(database) as one:
        one.progress = report_nothing
        params = {"k": 2, "window_s": 600}
        run_id = one.run("kte", dataset="gps", algorithm="k-merge", params=params).run_id
    set_policy(connection, longest_window_s=599)
    with expect_refusal("DA025", 600, 599):
        connection.execute(f"SELECT dbanon.publish({run_id}, 'gps')")  # type: ignore[call-overload]
    set_policy(connection, longest_window_s=600)
    connection.execute(f"SELECT dbanon.publish({run_id}, 'gps')")  # type: ignore[call-overload]


def test_without_its_row_nothing_is_published_and_the_remedy_brings_it_back(
    run: int, connection: psycopg.Connection
) -> None:
    for taken in ("DELETE FROM dbanon.policy", "TRUNCATE dbanon.policy"):
        connection.execute(taken)  # type: ignore[call-overload]
        with expect_refusal("DA025", "dbanon.policy", 1):
            connection.execute(PUBLISH)
        connection.execute("INSERT INTO dbanon.policy DEFAULT VALUES;")
    connection.execute(PUBLISH)
    assert read_value(connection, "SELECT count(*) FROM dbanon.audit WHERE action = 'change_policy'") == 4


def test_only_administrators_change_it_and_each_change_is_a_line(
    run: int, connection: psycopg.Connection, operator: psycopg.Connection, login: Login
) -> None:
    for role in ("dbanon_operator", "dbanon_worker", "dbanon_analyst"):
        with psycopg.connect(login(role), autocommit=True) as one:
            for statement in (
                "UPDATE dbanon.policy SET least_k = NULL", "DELETE FROM dbanon.policy",
                "INSERT INTO dbanon.signature (run_id, digest) VALUES (1, '')", "DELETE FROM dbanon.signature",
            ):  # fmt: skip
                with expect_refusal("42501"):
                    one.execute(statement)  # type: ignore[call-overload]
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as admin:
        set_policy(admin, least_k=5)
        query = "SELECT detail FROM dbanon.audit WHERE action = 'change_policy' AND login = %s"
        (said,) = read_column(connection, query, admin.info.user)
        assert (said["least_k"], said["was"]["least_k"]) == (5, None)


@pytest.mark.parametrize(
    "asked", [{"methods": ["kte", "nosuch"]}, {"signers": "nobody here", "signatures": 1}], ids=["method", "role"]
)
def test_a_policy_that_names_what_is_not_there_is_refused(
    connection: psycopg.Connection, asked: dict[str, Any]
) -> None:
    with expect_refusal("DA011"):
        set_policy(connection, **asked)


@pytest.mark.parametrize(
    "asked", [{"signatures": 1}, {"signatures": -1}, {"least_k": 0}, {"largest_error": float("nan")}]
)
def test_a_policy_that_cannot_be_kept_is_no_policy(connection: psycopg.Connection, asked: dict[str, Any]) -> None:
    with expect_refusal("23514"):
        set_policy(connection, **asked)


def test_a_run_that_publishes_says_it_in_one_sentence(run: int, connection: psycopg.Connection, database: str) -> None:
    set_policy(connection, least_k=6)
    with dbanon.connect(database) as one, pytest.raises(VerificationFailed) as refused:
        one.publish(1, "ten")
    demand_named(str(refused.value), 6)


@tries("Make a run that it allows: CALL")
def test_what_a_refusal_proposes_lets_the_run_be_published(connection: psycopg.Connection, database: str) -> None:
    load(database, "create", (1, 9, 0, 31))
    with dbanon.connect(database) as one:
        one.progress = report_nothing
        run_id = one.run("kte", dataset="gps", params={"k": 2}).run_id
    set_policy(connection, largest_error=9)
    words = refuse(connection, f"SELECT dbanon.publish({run_id}, 'gps')", "DA025")
    [command] = re.findall(r"(?:measured|it): dbanon (.*)\.", words)
    assert call(database, *command.split(), "--queries", "100").code == 0
    connection.execute(f"SELECT dbanon.publish({run_id}, 'gps')")  # type: ignore[call-overload]
    set_policy(connection, least_k=3)
    words = refuse(connection, f"SELECT dbanon.publish({run_id}, 'other')", "DA025")
    assert find_statements(words, "CALL") == ["CALL dbanon.anonymize(...)"]
    with dbanon.connect(database) as one:
        one.progress = report_nothing
        one.publish(
            one.run("kte", dataset="gps", params={"k": 3}).run_id, "other", allow_overlap=True, reason="of a test"
        )


# ---- who signs


@tries(
    "sign the digest on its page: SELECT dbanon.sign_run(", "lets one in: GRANT <role> TO <login>",
    "Publish without signing: SELECT dbanon.publish",
)  # fmt: skip
def test_what_is_proposed_to_who_cannot_sign(
    *, run: int, connection: psycopg.Connection, database: str, officers: str, login: Login
) -> None:
    assert "SELECT dbanon.publish(...)" in refuse(connection, "SELECT dbanon.sign_run(1, '00')", "DA013")
    connection.execute("SELECT dbanon.publish(1, 'before')")
    words = refuse(connection, f"UPDATE dbanon.policy SET signers = '{officers}_2'", "DA011")
    [made] = find_statements(words, "CREATE ROLE")
    connection.execute(made)  # type: ignore[call-overload]
    connection.execute(f"DROP ROLE {officers}_2")  # type: ignore[call-overload]
    set_policy(connection, signers=officers, signatures=1)
    words = refuse(connection, "SELECT dbanon.publish(1, 'ten')", "DA025")
    [statement] = find_statements(words, "SELECT dbanon.sign_run")
    with psycopg.connect(login("dbanon_admin"), autocommit=True) as one:
        [let_in] = find_statements(refuse(one, statement.replace("...", "'00'"), "DA014"), "GRANT")
        connection.execute(let_in.replace("<role>", officers).replace("<login>", one.info.user))  # type: ignore[call-overload]
        words = refuse(one, statement.replace("...", "'00'"), "DA005")
        assert re.findall(r"(?:measured|it): dbanon (.*)\.", words) == ["report 1"]
        one.execute(statement.replace("...", f"'{read_value(connection, DIGEST)}'"))  # type: ignore[call-overload]
    connection.execute(PUBLISH)


def test_two_signatures_are_of_two_logins_and_the_release_keeps_them(
    *,
    run: int,
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    officers: str,
    sign: Callable[..., int],
    login: Login,
) -> None:
    set_policy(connection, signers=officers, signatures=2)
    anna = login(officers)
    assert [sign(url=anna), sign(url=anna)] == [1, 1]
    with expect_refusal("DA025", 1, 2, "sign_run"):
        operator.execute(PUBLISH)
    assert sign() == 2
    operator.execute(PUBLISH)
    (kept,) = read_column(connection, KEPT)
    assert (len({one["login"] for one in kept["signed"]}), kept["signatures"], kept["signers"]) == (2, 2, officers)
    assert read_value(connection, "SELECT count(*) FROM dbanon.audit WHERE action = 'sign' AND run_id = 1") == 2


def test_who_submitted_the_run_signs_nothing(
    *,
    run: int,
    connection: psycopg.Connection,
    operator: psycopg.Connection,
    officers: str,
    sign: Callable[..., int],
    login: Login,
) -> None:
    set_policy(connection, signers=officers, signatures=1)
    anna = login(officers)
    sign(url=anna)
    # Whatever was signed before somebody was known to have submitted it does not count.
    user = psycopg.conninfo.conninfo_to_dict(anna)["user"]
    connection.execute("ALTER TABLE dbanon.run DISABLE TRIGGER USER; UPDATE dbanon.run SET created_by = '%s'" % user)  # type: ignore[call-overload]  # noqa: UP031
    with expect_refusal("DA025", 0, 1):
        operator.execute(PUBLISH)
    with expect_refusal("DA014", officers):
        sign(url=anna)
    sign()
    operator.execute(PUBLISH)


def test_others_sign_nothing_and_learn_nothing_of_runs(
    run: int, connection: psycopg.Connection, officers: str, sign: Callable[..., int], login: Login
) -> None:
    with expect_refusal("DA013"):
        connection.execute(SIGN, [1, "00"])
    set_policy(connection, signers=officers, signatures=1)
    for run_id in (1, 99):
        with expect_refusal("DA014", officers):
            sign(run_id, url=login("dbanon_admin"))
    for role in ("dbanon_operator", "dbanon_analyst"):
        with expect_refusal("42501"):
            sign(url=login(role))
    with expect_refusal("DA001", 99):
        sign(99)
    with psycopg.connect(login(officers), autocommit=True) as one, expect_refusal("42501"):
        one.execute("SELECT * FROM dbanon.run")


def test_a_signature_lapses_with_the_digest_and_with_the_membership(
    *, run: int, connection: psycopg.Connection, operator: psycopg.Connection, officers: str,
    sign: Callable[..., int], login: Login, verify: Callable[..., None],
) -> None:  # fmt: skip
    set_policy(connection, signers=officers, signatures=1)
    before = read_value(connection, DIGEST)
    anna = login(officers)
    sign(url=anna)
    connection.execute("UPDATE dbanon.region SET crowd = crowd + 1 WHERE region_no = 1")
    with expect_refusal("DA005"):
        operator.execute(PUBLISH)
    verify(connection)
    with expect_refusal("DA025", 0, 1):
        operator.execute(PUBLISH)
    with expect_refusal("DA005"):
        sign(digest=before)
    sign(url=anna)
    user = psycopg.conninfo.conninfo_to_dict(anna)["user"]
    connection.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(officers), sql.Identifier(str(user))))
    with expect_refusal("DA025", 0, 1):
        operator.execute(PUBLISH)
    verify(connection, passed=False)
    with expect_refusal("DA005"):
        sign()


def test_set_role_makes_nobody_another_login_and_superusers_sign_nothing(
    run: int, connection: psycopg.Connection, officers: str, login: Login
) -> None:
    set_policy(connection, signers=officers, signatures=2)
    with psycopg.connect(login(officers), autocommit=True) as one:
        for role in (str(one.info.user), officers):
            one.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            assert one.execute(SIGN, [1, read_value(connection, DIGEST)]).fetchone() == (1,)
        connection.execute(f"ALTER ROLE {one.info.user} SUPERUSER")  # type: ignore[call-overload]
        with expect_refusal("DA014"):
            one.execute(SIGN, [1, read_value(connection, DIGEST)])


def test_a_verdict_of_another_attack_revives_no_signature(
    *, run: int, connection: psycopg.Connection, officers: str, sign: Callable[..., int], verify: Callable[..., None]
) -> None:
    """A worker writes verdicts: one of signed rows that are no longer there must not let others through."""
    set_policy(connection, signers=officers, signatures=1)
    signed = read_value(connection, DIGEST)
    sign()
    connection.execute("UPDATE dbanon.region SET crowd = crowd + 1 WHERE region_no = 1")
    verify(connection)
    connection.execute(
        "INSERT INTO dbanon.verification (run_id, attack, passed, digest) VALUES (1, 'kte', true, decode(%s, 'hex'))",
        [signed],
    )
    with expect_refusal("DA025", 0, 1):
        connection.execute(PUBLISH)
    with expect_refusal("DA005"):
        sign(digest=signed)


def test_a_signature_that_is_written_by_hand_is_a_line_of_the_audit(run: int, connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO dbanon.signature (run_id, digest, login) VALUES (1, '', 'carl')")
    connection.execute("DELETE FROM dbanon.signature")
    query = "SELECT detail ->> 'statement' FROM dbanon.audit WHERE detail ->> 'table' = 'signature' ORDER BY audit_id"
    assert read_column(connection, query) == ["INSERT", "DELETE"]


def test_the_right_to_sign_moves_with_the_policy(connection: psycopg.Connection, officers: str) -> None:
    query = "SELECT has_function_privilege(%s, 'dbanon.sign_run(bigint, text)', 'EXECUTE')"
    for signers in (officers, None):
        set_policy(connection, signers=signers)
        assert read_value(connection, query, officers) is (signers is not None)


def test_a_policy_that_is_changed_while_a_publication_waits_binds_it(
    run: int, connection: psycopg.Connection, database: str
) -> None:
    with psycopg.connect(database) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT FROM dbanon.population FOR UPDATE")
        waiting = pool.submit(execute, database, PUBLISH)
        while not read_value(connection, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                             "AND query LIKE 'SELECT dbanon.publish%'"):  # fmt: skip
            time.sleep(0.05)
        set_policy(connection, least_k=50)
        other.rollback()
        with expect_refusal("DA025", 50):
            waiting.result()
    assert read_value(connection, "SELECT count(*) FROM dbanon.release") == 0


# ---- jobs


@tries("See what the policy asks: SELECT error FROM dbanon.job_runs")
def test_a_job_waits_for_a_signature_and_goes_on_with_it(
    connection: psycopg.Connection, database: str, officers: str, sign: Callable[..., int]
) -> None:
    set_policy(connection, signers=officers, signatures=1)
    connection.execute(NIGHTS + ")")
    work(database, "held")
    assert connection.execute(FIRST).fetchone() == ("held", "DA025")
    run_id = read_value(connection, "SELECT run_id FROM dbanon.job_period ORDER BY period LIMIT 1")
    assert read_value(connection, "SELECT count(*) FROM dbanon.releases") == 0
    query = "SELECT encode(digest, 'hex') FROM dbanon.verification WHERE run_id = %s"
    remedy = read_value(connection, "SELECT remedy FROM dbanon.health WHERE about = 'job taxi'")
    assert "retry" not in remedy
    [statement] = find_statements(remedy, "SELECT error")
    demand_named(read_value(connection, statement), run_id, "0 of 1")
    sign(run_id, digest=read_value(connection, query, run_id))
    work(database)
    assert connection.execute(ENDED).fetchone() == ("done", None, None)
    assert read_column(connection, "SELECT run_id FROM dbanon.release") == [run_id]  # and not of another


def test_a_job_goes_on_when_the_policy_allows_its_run(connection: psycopg.Connection, database: str) -> None:
    set_policy(connection, least_k=4)
    connection.execute(NIGHTS + ")")
    work(database, "held")
    assert connection.execute(FIRST).fetchone() == ("held", "DA025")
    set_policy(connection)
    work(database)
    assert connection.execute(ENDED).fetchall() == [("done", None, None)] * 2


def test_a_job_that_waits_for_a_measurement_goes_on_with_it(connection: psycopg.Connection, database: str) -> None:
    set_policy(connection, largest_error=9)
    connection.execute(NIGHTS + ")")
    work(database)
    assert connection.execute(FIRST).fetchone() == ("held", "DA025")
    run_id = read_value(connection, "SELECT run_id FROM dbanon.job_period ORDER BY period LIMIT 1")
    with dbanon.connect(database) as one:
        one.progress = report_nothing
        one.evaluate(run_id, queries=100)
    work(database, "held")
    assert connection.execute(ENDED).fetchone() == ("done", None, None)


def test_a_job_goes_on_past_what_no_waiting_mends(connection: psycopg.Connection, database: str) -> None:
    set_policy(connection, methods=["kte"])
    connection.execute(NIGHTS + ")")
    work(database)
    assert [row[:2] for row in connection.execute(ENDED)] == [("held", "DA025")] * 2


def test_a_job_that_measures_is_held_against_the_largest_error(connection: psycopg.Connection, database: str) -> None:
    set_policy(connection, largest_error=0.0)
    connection.execute(NIGHTS + ", evaluate => true)")
    work(database, "held")
    error = read_value(connection, "SELECT error FROM dbanon.job_runs ORDER BY since LIMIT 1")
    demand_named(error, "0")
    assert "not measured" not in error


def test_card_and_page_show_what_was_asked_and_who_signed(
    *, connection: psycopg.Connection, database: str, officers: str, sign: Callable[..., int]
) -> None:
    load(database, "create", (1, 9, 0, 31))
    set_policy(connection, signers=officers, signatures=1, least_k=2)
    with dbanon.connect(database) as one:
        one.progress = report_nothing
        run_id = one.run("kte", dataset="gps", params={"k": 2}).run_id
        assert "nobody yet" in one.report(run_id)
        sign(run_id)
        one.publish(run_id, "gps_k2")
        (signed,) = one.card("gps_k2")["policy"]["signed"]
        page = one.report("gps_k2")
        card = format_card(one.card("gps_k2"))
    for shown in ("least k", officers, signed["login"]):
        assert shown in page
        assert shown in card


def test_a_finished_night_keeps_no_error_that_was_overcome(connection: psycopg.Connection, database: str) -> None:
    """Another session held the dataset at the first try, which does not count as one."""
    connection.execute(NIGHTS + ")")
    work(database, "publish")
    connection.execute("UPDATE dbanon.job_period SET sqlstate = 'DA013', error = 'held' WHERE state = 'publish'")
    work(database)
    assert connection.execute(ENDED).fetchall() == [("done", None, None)] * 2

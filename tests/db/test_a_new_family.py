"""The family of docs/developers/add-a-family.md, as it stands there: its code and a line of the registry are all."""

import ast
import dataclasses
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import psycopg
import pytest

import dbanon.attacks
import dbanon.methods
from dbanon import schema
from dbanon.base.errors import InfeasibleError, VerificationFailed
from dbanon.database import open_database
from dbanon.methods import METHODS
from tests.acceptance.commands import call, read_json
from tests.contract import test_clauses as clauses
from tests.contract import test_methods as contract
from tests.contract.evidence import attack_cloaks, make_people, run
from tests.unit.test_docs import HEADINGS

PAGE = Path(__file__).parents[2] / "docs" / "developers" / "add-a-family.md"
NAME = "slot-boxes"
MAX_STATEMENTS = 95


def read_blocks():
    """The files on the page, by path."""
    found = re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(found)


@pytest.fixture
def changes():
    """Parts of the code on the page, and what is written instead of them."""
    return {}


@pytest.fixture
def family(tmp_path, monkeypatch, changes):
    """The family, installed beside the others and entered in the registry."""
    files = read_blocks()
    for before, after in changes.items():
        [path] = [path for path, text in files.items() if before in text]
        files[path] = files[path].replace(before, after)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for package in (dbanon.methods, dbanon.attacks):
        folder = str(tmp_path / package.__name__.replace(".", "/"))
        monkeypatch.setattr(package, "__path__", [*package.__path__, folder])
    monkeypatch.setitem(METHODS.packages, NAME, "dbanon.methods.slot_boxes")
    importlib.invalidate_caches()
    yield METHODS[NAME]
    for module in ("dbanon.methods.slot_boxes", "dbanon.attacks.slot_boxes"):
        sys.modules.pop(module, None)


@pytest.fixture
def url(database, family, tmp_path):
    """A database that knows the family, and three dozen people who walk for ten minutes."""
    schema.upgrade(database, share_roles=True)
    rng = np.random.default_rng(3)
    steps = rng.normal(0, 5, (36, 20, 2)).cumsum(axis=1) + rng.uniform(0, 500, (36, 1, 2)) + [500_000, 4_000_000]
    rows = [f"p{i},{30 * j},{x},{y}" for i, walk in enumerate(steps) for j, (x, y) in enumerate(walk.tolist())]
    (tmp_path / "walks.csv").write_text("\n".join(["subject,time,x,y", *rows]))
    loaded = call(database, "load", "trajectories", str(tmp_path / "walks.csv"), "--dataset", "walks",
                  "--time-unit", "s",
                  "--crs", "EPSG:32610", "--srid", "32610")  # fmt: skip
    assert loaded.code == 0, loaded.stderr
    return database


def test_a_family_is_short():
    """Counted in statements: comments, and an array operation on each line, cost nothing."""
    texts = [text for path, text in read_blocks().items() if path.endswith(".py")]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 120
    code = [ast.parse(text) for text in texts]
    assert sum(isinstance(node, ast.stmt) for tree in code for node in ast.walk(tree)) <= MAX_STATEMENTS


@pytest.mark.parametrize("path", [path for path in read_blocks() if path.endswith(".py")])
def test_its_code_passes_lint(path):
    check = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", path, "-"]
    told = subprocess.run(
        check, cwd=PAGE.parents[2], input=read_blocks()[path], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_what_attacks_share_is_listed():
    """Each public function of the modules, under the name of its module."""
    listing = PAGE.read_text().partition("## What an attack may use")[2]
    for module in (Path(dbanon.attacks.__path__[0]) / "shared").glob("[a-z]*.py"):
        names = [n.name for n in ast.parse(module.read_text()).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        public = {name for name in names if not name.startswith("_")}
        assert f"`{module.stem}`" in listing
        assert public - set(re.findall(r"`(\w+)`", listing)) == set(), module.name


@pytest.mark.parametrize("kind", HEADINGS)
def test_its_pages_have_the_fixed_headings(kind):
    assert re.findall(r"^## (.+)$", read_blocks()[f"docs/methods/{NAME}{kind}.md"], re.MULTILINE) == HEADINGS[kind]


@pytest.mark.many
@pytest.mark.parametrize(
    "demand",
    [
        contract.test_the_entry_of_a_family_says_what_core_functions_ask,
        contract.test_k_holds_in_distinct_subjects,
        contract.test_input_and_output_are_read_only,
        contract.test_exactly_k_subjects_are_enough,
        contract.test_what_is_left_out_is_counted_by_reason,
        clauses.test_the_clauses_say_what_they_mean_and_which_test_they_serve,
        clauses.test_the_attack_says_what_is_left_open_in_each_test,
    ],
    ids=lambda demand: demand.__name__,
)
def test_it_meets_the_contract(family, demand):
    demand(family) if demand.__code__.co_argcount == 1 else demand(family, "west")


@pytest.mark.many
@pytest.mark.parametrize("mutant", [contract.drop_member, contract.shrink_row, contract.raise_crowd, contract.copy_row])
def test_its_attack_refuses_small_harmful_changes(family, mutant):
    for changed in ({"since": 120, "until": 480}, {"since": 60}, {"since": 60, "until": 301}):
        contract.test_the_attack_finds_nothing_to_object_to(family, "west", changed)
    contract.test_a_small_harmful_change_is_refused(family, "west", mutant)


def test_its_attack_takes_since_and_until_in_seconds_whatever_the_grid(family):
    data = dataclasses.replace(make_people(60), grid_s=60)
    cloaks = run(family, "west", data, since=60, until=300)
    params = family.parse({**family.example, "since": 60, "until": 300})
    assert attack_cloaks(family, "west", params, data, cloaks).passed


def test_it_is_run_attacked_published_and_described(url):
    with open_database(url) as database:
        run = database.run(NAME, dataset="walks", params={"k": 5, "slot_s": 120, "until": 480})
        run.require_verified()
        assert (run.status, run.suppressed["subjects"]) == ("verified", {"slot_below_k": 0})
        database.publish(run.run_id, "walks_k5")
        crowds = database.connection.execute("SELECT crowd, subjects FROM published.walks_k5").fetchall()
        assert len(crowds) == 4 * 7
        assert min(crowds) >= (5, 5)
        card = database.connection.execute("SELECT dbanon.release_card('walks_k5')").fetchone()[0]
    family = METHODS[NAME]
    assert (card["method"], card["promise"], card["k"]) == (NAME, family.guarantee, 5)
    assert card["attack"]["passed"]
    assert card["attack"]["figures"]["seen"] == 36 * 4


def test_a_row_that_was_changed_is_refused_by_its_attack(url):
    with open_database(url) as database:
        run = database.run(NAME, dataset="walks", params={"slot_s": 120})
        database.connection.execute("UPDATE dbanon.cloak SET crowd = crowd + 1 WHERE record_id = 3")
        refused = database.verify(run.run_id)
        assert refused.status == "refused"
        assert [c.name for c in refused.verdict.clauses if not c.passed] == ["crowd"]


def test_a_second_release_is_compared_with_the_first(url):
    with open_database(url) as database:
        first = database.run(NAME, dataset="walks", params={"k": 5, "slot_s": 120})
        database.publish(first.run_id, "first")
        other = database.run(NAME, dataset="walks", params={"k": 4, "slot_s": 120})
        plan = {item.item: item for item in database.plan(NAME, dataset="walks", params={"k": 4, "slot_s": 120})}
        assert (plan["releases_compared"].note, plan["rows"].value) == ("first", 5 * 9)
        with pytest.raises(VerificationFailed) as caught:
            database.publish(other.run_id, "second")
        assert isinstance(caught.value.__cause__, psycopg.Error)
        assert caught.value.__cause__.sqlstate == "DA010"


def test_the_command_line_lists_plans_and_refuses_it(url):
    listed = {family["name"]: family for family in read_json(call(url, "--json", "methods"))["methods"]}
    assert [p["name"] for p in listed[NAME]["parameters"]] == ["k", "slot_s", "since", "until"]
    assert call(url, "plan", NAME, "--dataset", "walks", "-p", "k=37").code == 0  # what a plan says is no failure
    done = call(url, "run", NAME, "--dataset", "walks", "-p", "k=37")
    assert done.code == InfeasibleError.exit_code


# Each person is in a group of neighbours, and in the same slot in a group of another kind: each has k people.
TWICE = {
    "        for group in np.array_split(person[np.argsort(first)], len(person) // params.k):\n": (
        "        kinds = (person[np.argsort(first)], person)\n"
        "        for group in [g for kind in kinds for g in np.array_split(kind, len(person) // params.k)]:\n"
    ),
}


@pytest.mark.parametrize("changes", [TWICE], ids=["two groups"])
def test_a_family_whose_records_overlap_is_refused_though_its_attack_finds_nothing(url):
    with open_database(url) as database:
        run = database.run(NAME, dataset="walks", params={"k": 5, "slot_s": 120})
        assert (run.status, [c.name for c in run.verdict.clauses if not c.passed]) == ("refused", ["one-group"])
        assert "36 of 36 people" in run.refusal
        counted = "SELECT DISTINCT sum(subjects) FROM dbanon.cloak GROUP BY period"
        assert database.connection.execute(counted).fetchall() == [(72,)]
        with pytest.raises(VerificationFailed):
            database.publish(run.run_id, "walks_k5")


OTHERWISE = {
    "import numpy as np\n\nfrom dbanon.attacks import Evidence": (
        "import dataclasses\n\nimport numpy as np\n\nfrom dbanon.attacks import Evidence"
    ),
    "    return evidence\n": "    return dataclasses.replace(evidence, member_record=evidence.member_record + 0)\n",
}


@pytest.mark.parametrize("changes", [OTHERWISE], ids=["members"])
def test_an_attack_that_reads_the_rows_otherwise_than_they_are_stored_is_refused(url):
    with open_database(url) as database:
        run = database.run(NAME, dataset="walks", params={"k": 5, "slot_s": 120})
        assert (run.status, [c.name for c in run.verdict.clauses]) == ("refused", ["decidable"])

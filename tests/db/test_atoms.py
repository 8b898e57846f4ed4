"""Atoms: the next run reads them, analysts see them, and releases are held to what their regions have in common."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb

from dbanon import schema
from dbanon.base.cloaks import Atoms, Cloaks, Regions
from dbanon.runs import reading, stored, writing
from tests.db.methods import change_methods
from tests.db.test_concurrency import start_statement
from tests.db.written import AT_S, LEFT_OUT
from tests.facts import expect_refusal
from tests.hints import accept_overlap, tries
from tests.reading import read_value

DAY_S = 86_400
CELLS = 8  # in a row; every other one has a bar, the others a clinic
PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]
FOURS = [[0, 1, 2, 3], [4, 5, 6, 7]]
SHIFTED = [[0, 7], [1, 2], [3, 4], [5, 6]]
METHOD = """
INSERT INTO dbanon.method (name, summary, guarantee, region_type, attack, algorithms, columns, traits)
VALUES ('areas', 's', 'At least k.', 'MultiPolygon', 'attack', '[{"name": "a", "summary": "s", "stands_alone": true}]',
    '[{"name": "categories", "sql_type": "integer", "default": "0", "comment": "How many."}]',
    '{"hides": "place", "hidden_by": "record", "reads": ["cells"], "notices": {}, "totals": {}, "reasons": {}}')
ON CONFLICT DO NOTHING
"""
RUN = """
INSERT INTO dbanon.run (dataset_id, dataset_revision, method, algorithm, params, suppressed, status, program_version)
SELECT dataset_id, revision, 'areas', 'a', %s, %s, 'verified', '0.1.0' FROM dbanon.dataset WHERE dataset_id = %s
RETURNING run_id
"""
VERIFIED = """
INSERT INTO dbanon.verification (run_id, attack, passed, digest)
VALUES (%s, 'attack', true, dbanon_internal.compute_run_digest(%s))
"""


def add_cells(connection: psycopg.Connection, dataset: object = 1, width: int = 100) -> None:
    connection.execute(
        "INSERT INTO dbanon.cell (dataset_id, geom) SELECT %s, ST_MakeEnvelope(i * %s, 0, (i + 1) * %s, 100, 32610)"
        " FROM generate_series(0, %s) i",
        [dataset, width, width, CELLS - 1],
    )


def add_pois(connection: psycopg.Connection, dataset: object = 1, load: object = None) -> None:
    connection.execute(
        "INSERT INTO dbanon.poi (dataset_id, category, geom, load_id)"
        " SELECT %s, CASE i %% 2 WHEN 0 THEN 'bar' ELSE 'clinic' END,"
        " ST_SetSRID(ST_MakePoint(i * 100 + 50, 50), 32610), %s FROM generate_series(0, %s) i",
        [dataset, load, CELLS - 1],
    )


def add_dataset(connection: psycopg.Connection, name: str, population: str | None = None) -> object:
    """Add a dataset of two people to a population, that of the others unless one is named."""
    if population is not None:
        connection.execute("INSERT INTO dbanon.population (name) VALUES (%s)", [population])
    dataset = read_value(
        connection,
        "INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, population_id) SELECT %s, 32610, 1, 60, population_id"
        " FROM dbanon.population WHERE name = %s RETURNING dataset_id",
        name,
        population or "default",
    )
    connection.execute(
        "INSERT INTO dbanon.trajectory (trajectory_id, dataset_id, subject, path) SELECT 1000 * %s + i, %s, 'q' || i,"
        " ST_SetSRID(ST_MakePointM(i, i, %s), 32610) FROM generate_series(0, 1) i",
        [dataset, dataset, AT_S],
    )
    return dataset


def write(
    connection: psycopg.Connection,
    atoms: list[list[int]] | None,
    regions: list[list[int]] | None = None,
    dataset: object = 1,
    **params: object,
) -> int:
    """Write a verified run on a day of its own; cells by their place, one region an atom unless others are given."""
    cell = np.array(
        connection.execute("SELECT cell_id FROM dbanon.cell WHERE dataset_id = %s ORDER BY 1", [dataset]).fetchall()
    )[:, 0]
    own = [sorted(cell[region].tolist()) for region in regions or atoms or PAIRS]
    of = np.array([next(n for n, some in enumerate(atoms) if i in some) for i in range(len(cell))]) if atoms else None
    rows = len(own)
    members = connection.execute(
        "SELECT trajectory_id FROM dbanon.trajectory WHERE dataset_id = %s ORDER BY 1 LIMIT 2", [dataset]
    ).fetchall()
    with connection.transaction():
        change_methods(connection, METHOD)
        given = {"k": 2, "l": 2, "t": 0.1, **params}
        run = int(str(read_value(connection, RUN, Jsonb(given), Jsonb(LEFT_OUT), dataset)))
        start = AT_S + run * 30 * DAY_S
        cloaks = Cloaks(
            offset=np.array([0, rows]), region=np.arange(rows, dtype=np.int32), period=np.arange(rows),
            regions=Regions(
                crowd=np.full(rows, 2, np.int32), subjects=np.full(rows, 2, np.int32),
                cell_offset=np.cumsum([0, *(len(some) for some in own)]), cell=np.concatenate(own),
            ),
            periods=start + 60 * np.column_stack([np.arange(rows), np.arange(rows) + 1]),
            member_record=np.array([1, 1]), member_trajectory=np.array([row[0] for row in members]),
            atoms=None if of is None else Atoms(cell=cell, atom=of), suppressed=LEFT_OUT, metrics={},
        )  # fmt: skip
        name = str(read_value(connection, "SELECT name FROM dbanon.dataset WHERE dataset_id = %s", dataset))
        writing.write_cloaks(connection, run, stored.find_dataset(connection, name), cloaks)
    connection.execute(VERIFIED, [run, run])
    return run


def publish(connection: psycopg.Connection, run: int, **options: object) -> str:
    name = f"r{run}"
    named = "".join(f", {option} => %s" for option in options)
    connection.execute(f"SELECT dbanon.publish(%s, %s{named})", [run, name, *options.values()])
    return name


def catch_refusal(connection: psycopg.Connection, run: int) -> str:
    with expect_refusal("DA010") as caught:
        publish(connection, run)
    return str(caught.value.diag.message_primary)


def publish_allowed(connection: psycopg.Connection, run: int, **options: object) -> dict[str, object]:
    """Publish for a reason; give what was measured."""
    name = publish(connection, run, allow_overlap=True, reason="for this one test", **options)
    found = read_value(connection, "SELECT overlap FROM dbanon.release WHERE name = %s", name)
    assert (
        read_value(connection, "SELECT overlap_reason FROM dbanon.release WHERE name = %s", name) == "for this one test"
    )
    assert isinstance(found, dict)
    return found


def make_url(connection: psycopg.Connection) -> str:
    return f"{connection.info.dsn} password={connection.info.password}"


def read_atoms(connection: psycopg.Connection, dataset: object = 1, **params: object) -> list[int] | None:
    with reading.open_reader(make_url(connection)) as reader:
        cells = reader.read_inputs(int(str(dataset)), ["cells"], params)["cells"]
    return None if cells.atom is None else cells.atom.tolist()


@pytest.fixture
def city(own: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """Ten people, eight cells and a point of interest in each."""
    add_cells(own)
    add_pois(own)
    return own


def number_atoms(atoms: list[list[int]]) -> list[int]:
    return [next(n for n, some in enumerate(atoms) if i in some) for i in range(CELLS)]


# --- what the next run reads ------------------------------------------------------------------------------------------


def test_the_next_run_reads_the_atoms_of_the_newest_release(city: psycopg.Connection) -> None:
    first = write(city, PAIRS)
    assert read_atoms(city) is None
    publish(city, first)
    assert read_atoms(city) == number_atoms(PAIRS)
    publish(city, write(city, FOURS))
    write(city, PAIRS)  # never published
    assert read_atoms(city) == number_atoms(FOURS)
    city.execute("SELECT dbanon.unpublish(name) FROM dbanon.release")
    assert read_atoms(city) == number_atoms(FOURS)


def test_atoms_are_those_of_the_same_polygons_in_the_same_population(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    twin, strangers, other = (
        add_dataset(city, "twin"), add_dataset(city, "strangers", "elsewhere"), add_dataset(city, "other")
    )  # fmt: skip
    add_cells(city, twin)
    add_cells(city, strangers)
    add_cells(city, other, width=101)
    assert [read_atoms(city, one) for one in (twin, strangers, other)] == [number_atoms(PAIRS), None, None]
    city.execute("DELETE FROM dbanon.cell WHERE dataset_id = %s AND cell_id %% 2 = 0", [twin])
    assert read_atoms(city, twin) == [0, 1, 2, 3]


def test_new_cells_join_the_atoms_that_are_there(city: psycopg.Connection) -> None:
    city.execute("DELETE FROM dbanon.poi WHERE poi_id = (SELECT max(poi_id) FROM dbanon.poi)")
    city.execute("DELETE FROM dbanon.cell WHERE cell_id = (SELECT max(cell_id) FROM dbanon.cell)")
    publish(city, write(city, [[0, 1, 2], [3, 4], [5, 6]]))
    larger = add_dataset(city, "larger")
    add_cells(city, larger)
    assert read_atoms(city, larger) == [0, 0, 0, 1, 1, 2, 2, -1]
    publish(city, write(city, [[0, 1, 2], [3, 4], [5, 6, 7]], dataset=larger))
    assert read_atoms(city, larger) == [0, 0, 0, 1, 1, 2, 2, 2]


def test_atoms_that_promise_enough_come_before_those_of_more_cells(city: psycopg.Connection) -> None:
    city.execute("DELETE FROM dbanon.cell WHERE cell_id = (SELECT max(cell_id) FROM dbanon.cell)")
    publish(city, write(city, [[0, 1, 2], [3, 4], [5, 6]]))
    larger = add_dataset(city, "larger")
    add_cells(city, larger)
    publish(city, write(city, [[i] for i in range(CELLS)], dataset=larger, l=0, t="inf"))
    assert read_atoms(city, larger, l=2, t=0.1) == [0, 0, 0, 1, 1, 2, 2, 3]
    assert read_atoms(city, larger, l=0, t="inf") == list(range(CELLS))


def test_each_cell_has_the_atom_of_the_release_that_knows_most_of_its_dataset(city: psycopg.Connection) -> None:
    west, whole = add_dataset(city, "west"), add_dataset(city, "whole")
    for dataset in (west, whole):
        add_cells(city, dataset)
    city.execute(
        "DELETE FROM dbanon.cell"
        " WHERE dataset_id = %s AND ST_XMin(geom) > 350 OR dataset_id = 1 AND ST_XMin(geom) < 150",
        [west],
    )
    publish(city, write(city, [[0, 1], [2, 3], [4, 5]]))
    publish(city, write(city, [[0, 1, 2, 3]], dataset=west), allow_overlap=True, reason="for this one test")
    assert read_atoms(city, whole) == [3, 3, 0, 0, 1, 1, 2, 2]


def test_atoms_stay_known_when_cells_are_loaded_anew_and_their_dataset_is_dropped(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    city.execute("DELETE FROM dbanon.cell")
    add_cells(city)
    assert read_atoms(city) == number_atoms(PAIRS)
    twin = add_dataset(city, "twin")
    add_cells(city, twin)
    add_pois(city, twin)
    city.execute("SELECT dbanon.unpublish(name) FROM dbanon.release")
    city.execute("SELECT * FROM dbanon.drop_dataset('ten')")
    assert read_value(city, "SELECT count(*) FROM dbanon.atom") == 0
    assert read_atoms(city, twin) == number_atoms(PAIRS)
    assert "1 set" not in catch_refusal(city, write(city, SHIFTED, dataset=twin))
    city.execute("DELETE FROM dbanon.cell")
    add_cells(city, twin, width=101)
    assert read_atoms(city, twin) is None


def test_a_run_without_atoms_has_none_to_read(city: psycopg.Connection) -> None:
    publish(city, write(city, None))
    assert read_atoms(city) is None


# --- what releases tell together --------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [PAIRS, FOURS, [list(range(CELLS))]], ids=["same", "coarser", "the city"])
def test_the_same_atoms_and_coarser_ones_are_published(city: psycopg.Connection, again: list[list[int]]) -> None:
    publish(city, write(city, PAIRS))
    name = publish(city, write(city, again))
    assert read_value(city, "SELECT overlap FROM dbanon.release WHERE name = %s", name) is None


def test_finer_atoms_are_published_where_they_hold(city: psycopg.Connection) -> None:
    publish(city, write(city, FOURS))
    publish(city, write(city, PAIRS))


@pytest.mark.parametrize("withdrawn", [False, True])
def test_other_atoms_need_a_reason(city: psycopg.Connection, withdrawn: bool) -> None:
    publish(city, write(city, PAIRS))
    if withdrawn:
        city.execute("SELECT dbanon.unpublish(name) FROM dbanon.release")
    run = write(city, SHIFTED)
    said = catch_refusal(city, run)
    assert f"Run {run} " in said
    assert "8 sets of cells" in said
    assert read_value(city, "SELECT count(*) FROM dbanon.published_cell WHERE release_id > 1") == 0
    assert publish_allowed(city, run) == {"classes": 8}
    # What all analysts were given once is not told anew.
    publish(city, write(city, SHIFTED))


def test_what_an_earlier_release_promises_is_what_it_was_published_with(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    run = write(city, SHIFTED)
    city.execute("ALTER TABLE dbanon.run DISABLE TRIGGER USER")
    city.execute("""UPDATE dbanon.run SET params = params || '{"l": 0, "t": "Infinity"}' WHERE run_id < %s""", [run])
    assert "8 sets of cells" in catch_refusal(city, run)


def test_what_some_readers_were_given_for_a_reason_is_new_to_others(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    publish_allowed(city, write(city, SHIFTED), readers=["pg_monitor"])
    assert "8 sets" in catch_refusal(city, write(city, SHIFTED))


def test_only_what_regions_show_counts(city: psycopg.Connection) -> None:
    """Of other atoms whose regions share no cell, or all of them, an adversary learns nothing."""
    publish(city, write(city, PAIRS, regions=[[0, 1], [2, 3]]))
    publish(city, write(city, SHIFTED, regions=[[5, 6]]))
    publish(city, write(city, SHIFTED, regions=[[0, 7, 1, 2, 3, 4]]))
    # 0 is what [0, 1] and [0, 7] have in common; 7 was with 4 in the third release, and in no region of the first two.
    assert "2 sets of cells" in catch_refusal(city, write(city, SHIFTED, regions=[[0, 7]]))


@tries("Where the cells are the same, run it again without new_atoms")
def test_other_datasets_of_a_population_count_and_other_populations_do_not(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    twin, strangers = add_dataset(city, "twin"), add_dataset(city, "strangers", "elsewhere")
    for dataset in (twin, strangers):
        add_cells(city, dataset)
        add_pois(city, dataset)
    publish(city, write(city, SHIFTED, dataset=strangers))
    run = write(city, SHIFTED, dataset=twin)
    assert "of dataset ten" in catch_refusal(city, run)
    accept_overlap(city, f"SELECT dbanon.publish({run}, 'r{run}')")
    publish(city, write(city, PAIRS, dataset=twin))


@tries("Load the cells of that release, and start another run")
def test_other_cells_need_a_reason_unless_they_are_elsewhere(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    other = add_dataset(city, "other")
    add_cells(city, other, width=101)
    add_pois(city, other)
    run = write(city, PAIRS, dataset=other)
    assert "other polygons than r2 of dataset ten" in catch_refusal(city, run)
    accept_overlap(city, f"SELECT dbanon.publish({run}, 'r{run}')")
    city.execute("DELETE FROM dbanon.cell WHERE dataset_id = %s", [other])
    add_cells(city, other)
    same = publish(city, write(city, PAIRS, dataset=other))
    other = add_dataset(city, "another")
    add_cells(city, other, width=101)
    add_pois(city, other)
    run = write(city, PAIRS, dataset=other)
    assert publish_allowed(city, run) == {"other_cells": ["r2 of dataset ten", f"{same} of dataset other"]}
    far = add_dataset(city, "far")
    add_cells(city, far)
    add_pois(city, far)
    for table in ("cell", "poi"):
        city.execute(f"UPDATE dbanon.{table} SET geom = ST_Translate(geom, 50000, 50000) WHERE dataset_id = %s", [far])
    publish(city, write(city, PAIRS, dataset=far))


def test_the_weaker_of_the_promises_of_a_place_counts(city: psycopg.Connection) -> None:
    """A single cell has one category, and is ln 2 away from the city."""
    publish(city, write(city, PAIRS, l=1, t=0.7, regions=PAIRS[:2]))
    publish(city, write(city, PAIRS, regions=PAIRS[2:]))
    publish(city, write(city, SHIFTED, regions=[[1, 2]]))
    assert "4 sets" in catch_refusal(city, write(city, SHIFTED))


@pytest.mark.parametrize("readers", [["pg_monitor"], None])
@pytest.mark.parametrize("weak", [[list(range(CELLS))], [[i] for i in range(CELLS)]], ids=["the city", "each cell"])
def test_a_release_that_promises_nothing_lowers_no_other_promise(
    city: psycopg.Connection, weak: list[list[int]], readers: list[str] | None
) -> None:
    publish(city, write(city, PAIRS))
    publish(city, write(city, weak, l=0, t="inf"), readers=readers)
    assert "8 sets" in catch_refusal(city, write(city, SHIFTED))
    assert read_atoms(city, l=2, t=0.1) == number_atoms(PAIRS)


def test_regions_must_be_made_of_the_atoms_that_are_stored(city: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error, match="whole atoms") as caught:
        publish(city, write(city, PAIRS, regions=[[0, 1, 2]]))
    assert caught.value.sqlstate == "DA005"


def test_of_two_levels_what_atoms_promise_counts(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    assert "8 sets" in catch_refusal(city, write(city, SHIFTED, atom_l=1, atom_t=0.6))
    publish(city, write(city, SHIFTED, atom_l=1, atom_t="inf"))


def test_divergence_alone_is_enough_to_refuse(city: psycopg.Connection) -> None:
    first = write(city, PAIRS, l=1, t=0.6)
    publish(city, first)
    assert "8 sets" in catch_refusal(city, write(city, SHIFTED, l=1, t=0.6))


def test_atoms_that_were_merged_since_points_of_interest_changed_are_published(city: psycopg.Connection) -> None:
    publish(city, write(city, PAIRS))
    city.execute("DELETE FROM dbanon.poi WHERE category = 'bar' AND ST_X(geom) < 100")
    publish(city, write(city, [[0, 1, 2, 3], [4, 5], [6, 7]], t=0.2))
    # A class that the run alone makes is judged by what there is now.
    assert "8 sets" in catch_refusal(city, write(city, SHIFTED, t=0.2))


def test_cells_without_a_point_of_interest_are_infinitely_far(city: psycopg.Connection) -> None:
    city.execute("DELETE FROM dbanon.poi WHERE ST_X(geom) > 600")
    publish(city, write(city, FOURS, l=0, t=5))
    assert "1 set of cells" in catch_refusal(city, write(city, [[0, 1, 2, 3, 4, 5], [6, 7]], l=0, t=5))
    publish(city, write(city, [[0, 1, 2, 3, 4, 5], [6, 7]], l=0, t="inf"))


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM dbanon.published_cell WHERE class IS NOT NULL",
        "UPDATE dbanon.published_cell SET class = 7",
        "UPDATE dbanon.published_cell SET pois = pois || '{\"bar\": 9}'",
        "UPDATE dbanon.published_cell SET pois = NULL",
        "UPDATE dbanon.published_cell SET shape = shape || convert_to(pois::text, 'UTF8'), pois = NULL",
    ],
)
def test_what_is_known_of_places_must_be_as_it_was_published(city: psycopg.Connection, change: str) -> None:
    publish(city, write(city, PAIRS))
    city.execute("ALTER TABLE dbanon.published_cell DISABLE TRIGGER USER")
    city.execute(change)
    city.execute("ALTER TABLE dbanon.published_cell ENABLE TRIGGER USER")
    for atoms in (PAIRS, SHIFTED):
        with pytest.raises(psycopg.Error, match=r"\(number 1\) were changed since") as caught:
            publish(city, write(city, atoms))
        assert caught.value.sqlstate == "DA005"


def test_two_publications_at_a_time_come_one_after_the_other(city: psycopg.Connection) -> None:
    twin = add_dataset(city, "twin")
    add_cells(city, twin)
    add_pois(city, twin)
    one, other = write(city, PAIRS), write(city, SHIFTED, dataset=twin)
    with psycopg.connect(make_url(city)) as first:
        publish(first, one)
        thread, found = start_statement(make_url(city), f"SELECT dbanon.publish({other}, 'late')")
        thread.join(0.3)
        assert thread.is_alive()
        first.commit()
    thread.join(30)
    assert found == ["DA010"]


def test_a_plan_says_that_new_atoms_need_a_reason(city: psycopg.Connection) -> None:
    parameter = {
        "name": "new_atoms", "type": "switch", "default": False, "default_text": "off", "requirement": "on or off",
        "help": "h", "algorithms": [], "choices": [],
    }  # fmt: skip
    run = write(city, PAIRS)
    change_methods(city, "UPDATE dbanon.method SET parameters = %s WHERE name = 'areas'", [Jsonb([parameter])])
    query = "SELECT value FROM dbanon.plan_run('ten', 'areas', %s) WHERE item = %s"

    def planned(new: bool) -> list[object]:
        return [read_value(city, query, Jsonb({"new_atoms": new}), item) for item in ("stored_atoms", "exit_code")]

    assert [planned(False), planned(True)] == [[0, 0], [0, 0]]
    publish(city, run)
    assert [planned(False), planned(True)] == [[4, 0], [4, 5]]


# --- what it is worth and who may read it -----------------------------------------------------------------------------


def test_another_atom_changes_the_digest_and_what_is_published_stays(city: psycopg.Connection) -> None:
    run = write(city, PAIRS)
    before = read_value(city, "SELECT dbanon_internal.compute_run_digest(%s)", run)
    for change in (
        "UPDATE dbanon.atom SET atom = atom + 1 WHERE cell_id = (SELECT max(cell_id) FROM dbanon.cell)",
        "DELETE FROM dbanon.atom WHERE cell_id = (SELECT max(cell_id) FROM dbanon.cell)",
        f"INSERT INTO dbanon.atom VALUES ({run}, 999, 0)",
    ):
        with city.transaction(force_rollback=True):
            assert city.execute(change).rowcount == 1
            assert read_value(city, "SELECT dbanon_internal.compute_run_digest(%s)", run) != before
    found = city.execute("SELECT atom FROM dbanon_internal.gather_atom_evidence(%s)", [run]).fetchall()
    assert [row[0] for row in found] == number_atoms(PAIRS)
    publish(city, run)
    for change, code in (
        ("UPDATE dbanon.atom SET atom = 9", "DA007"),
        ("DELETE FROM dbanon.atom", "DA007"),
        ("UPDATE dbanon.published_cell SET class = 9", "DA006"),
        ("DELETE FROM dbanon.published_cell", "DA006"),
        ("TRUNCATE dbanon.published_cell", "DA006"),
        ("INSERT INTO dbanon.published_cell SELECT * FROM dbanon.published_cell", "DA006"),
        ("UPDATE dbanon.published_atom SET pois = 9", "DA006"),
        ("DELETE FROM dbanon.published_atom", "DA006"),
    ):
        with pytest.raises(psycopg.Error) as caught, city.transaction():
            city.execute(change)
        assert caught.value.sqlstate == code, change


def test_analysts_see_the_atoms_of_the_releases_they_may_read(city: psycopg.Connection) -> None:
    all_read, some_read = publish(city, write(city, PAIRS)), publish(city, write(city, FOURS), readers=["pg_monitor"])
    shown = "SELECT atom, ST_AsText(ST_Envelope(region)), area_m2, categories, pois FROM published.atoms"
    # Later changes of the data change nothing.
    city.execute("DELETE FROM dbanon.poi")
    city.execute("DELETE FROM dbanon.cell")
    with city.transaction(force_rollback=True):
        city.execute("SET LOCAL ROLE dbanon_analyst")
        assert read_value(city, "SELECT array_agg(DISTINCT name) FROM published.atoms") == [all_read]
        rows = city.execute(shown + " WHERE name = %s ORDER BY atom", [all_read]).fetchall()
        assert rows[1] == (1, "POLYGON((200 0,200 100,400 100,400 0,200 0))", 20_000, 2, 2)
        assert len(rows) == 4
    with city.transaction(force_rollback=True):
        city.execute("SET LOCAL ROLE pg_monitor")
        assert read_value(city, "SELECT array_agg(DISTINCT name) FROM published.atoms") == [some_read]
    city.execute("SELECT dbanon.unpublish(%s)", [all_read])
    assert read_value(city, "SELECT array_agg(DISTINCT name) FROM published.atoms") == [some_read]
    with expect_refusal("DA002"):
        city.execute("SELECT dbanon.publish(1, 'atoms')")


def publish_part(connection: psycopg.Connection, atoms: list[list[int]]) -> None:
    """Publish a run with some atoms as a part of the release `areas`."""
    start = AT_S + DAY_S * 30 * int(str(read_value(connection, "SELECT max(run_id) + 1 FROM dbanon.run")))
    run = write(connection, atoms, since=start, until=start + DAY_S)
    connection.execute("SELECT dbanon.publish(%s, 'areas', grow => true)", [run])


def test_a_part_says_whether_its_places_are_others_than_those_of_the_part_before(city: psycopg.Connection) -> None:
    publish_part(city, PAIRS)
    # The same places loaded anew are no others.
    city.execute("DELETE FROM dbanon.poi")
    add_pois(city)
    publish_part(city, PAIRS)
    city.execute("UPDATE dbanon.poi SET category = 'inn' WHERE category = 'bar'")
    publish_part(city, PAIRS)
    publish_part(city, PAIRS)
    changed = "SELECT array_agg(places_changed ORDER BY since) FROM published.parts WHERE name = 'areas'"
    assert read_value(city, changed) == [False, False, True, False]
    # Other releases are no parts before, and what was withdrawn is none.
    publish(city, write(city, PAIRS))
    city.execute("SELECT dbanon.unpublish_part('areas', lower(bounds)) FROM dbanon.release ORDER BY bounds LIMIT 1")
    assert read_value(city, changed) == [False, True, False]


def test_atoms_are_those_of_each_part(city: psycopg.Connection) -> None:
    for atoms in (PAIRS, PAIRS, FOURS):
        publish_part(city, atoms)
    of_parts = "SELECT array_agg(n ORDER BY since) FROM (SELECT since, count(*) AS n FROM {} GROUP BY since, until) p"
    joined = "published.parts JOIN published.atoms USING (name, since, until)"
    assert read_value(city, of_parts.format("published.atoms")) == [4, 4, 2]
    assert read_value(city, of_parts.format(joined)) == [4, 4, 2]
    areas = "SELECT sum(area_m2) FROM published.atoms GROUP BY since"
    assert city.execute(areas).fetchall() == [(80_000,)] * 3
    city.execute(
        "SELECT dbanon.unpublish_part('areas', lower(bounds)) FROM dbanon.release ORDER BY bounds DESC LIMIT 1"
    )
    assert read_value(city, of_parts.format("published.atoms")) == [4, 4]


def test_the_sites_of_a_part_are_its_places_and_those_of_another_method_are_none(city: psycopg.Connection) -> None:
    digest = "SELECT dbanon_internal.compute_places_digest(%s)"
    run = write(city, PAIRS)
    before = read_value(city, digest, run)
    assert before is not None
    city.execute("INSERT INTO dbanon.site (dataset_id, geom) VALUES (1, ST_SetSRID(ST_MakePoint(5, 5), 32610))")
    assert read_value(city, digest, run) == before
    assert read_value(city, digest, 1) is None
    change_methods(city, "UPDATE dbanon.method SET traits = traits || '{\"reads\": [\"sites\"]}' WHERE name = 'areas'")
    assert read_value(city, digest, run) not in (None, before)


def test_a_release_says_of_when_its_points_of_interest_are(own: psycopg.Connection) -> None:
    add_cells(own)
    load = read_value(
        own,
        "INSERT INTO dbanon.load (dataset_id, kind, source, rows_read, rows_kept, loaded_at)"
        " VALUES (1, 'pois', 's', 8, 8, '2026-02-03 04:05+00') RETURNING load_id",
    )
    add_pois(own, load=load)
    meaning = "SELECT meaning FROM published.columns WHERE name = %s AND column_name = 'categories'"
    known = publish(own, write(own, PAIRS))
    add_pois(own)  # by hand
    unknown = publish(own, write(own, PAIRS))
    assert "2026-02-03 04:05 UTC" in str(read_value(own, meaning, known))
    assert "not known" in str(read_value(own, meaning, unknown))
    card = read_value(own, "SELECT dbanon.release_card(%s) -> 'atoms'", known)
    assert isinstance(card, dict)
    assert (card["number"], card["pois_loaded_at"][:10]) == (4, "2026-02-03")
    assert read_value(own, "SELECT dbanon.release_card(%s) -> 'atoms'", unknown) == {
        "number": 4,
        "pois_loaded_at": None,
    }
    assert read_value(own, "SELECT dbanon.release_card(%s) -> 'atoms'", publish(own, write(own, None))) is None


# --- against the city of each release ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """A release as readers have it: which cells its dataset had, with what in them, and which regions hold each."""

    number: int
    least: int
    most: float
    mix: dict[int, Counter[str]]
    regions: dict[int, frozenset[int]]

    def diverge(self, mix: Counter[str]) -> float:
        """Compute how far a mix is from that of this release's city."""
        city = sum(self.mix.values(), Counter())
        if not mix.total() or any(category not in city for category in mix):
            return math.inf
        return sum(
            n / mix.total() * math.log(n / mix.total() * city.total() / city[category]) for category, n in mix.items()
        )


def count_failing(new: Told, earlier: list[Told], *, by_own_city: bool = False) -> int:
    """Count the sets of cells that a release makes and that fail, of the weaker promise of which most do."""
    worst = 0
    for other in earlier:
        least, most = min(new.least, other.least), max(new.most, other.most)
        held = [told for told in (*earlier, new) if told.least >= least and told.most <= most]
        of_all, before = (
            {
                cell: frozenset((told.number, told.regions[cell]) for told in some if cell in told.regions)
                for cell in range(CELLS)
            }
            for some in (held, [told for told in held if told is not new])
        )
        failing = 0
        for told_apart in {of_all[cell] for cell in new.regions if before[cell]}:
            cells = [cell for cell in range(CELLS) if of_all[cell] == told_apart]
            if len(cells) == sum(before[cell] == before[cells[0]] for cell in range(CELLS)):
                continue
            speaking = [told for told in held if cells[0] in told.regions]
            pairs = [(new, new)] if by_own_city else [(told, mix) for told in speaking for mix in (told, new)]
            mixes = [(city, sum((of.mix[cell] for cell in cells), Counter())) for city, of in pairs]
            failing += any(len(mix) < least or city.diverge(mix) > most + 1e-9 for city, mix in mixes)
        worst = max(worst, failing)
    return worst


def load_told(connection: psycopg.Connection, name: str, population: str | None, told: Told) -> object:
    """Make a dataset of the cells of a release, with the points of interest that it is to have."""
    dataset = add_dataset(connection, name, population)
    for cell, mix in told.mix.items():
        connection.execute(
            "INSERT INTO dbanon.cell (dataset_id, geom) VALUES (%s, ST_MakeEnvelope(%s, 0, %s, 100, 32610))",
            [dataset, cell * 100, cell * 100 + 100],
        )
        connection.execute(
            "INSERT INTO dbanon.poi (dataset_id, category, geom)"
            " SELECT %s, category, ST_SetSRID(ST_MakePoint(%s, 50), 32610) FROM unnest(%s::text[]) category",
            [dataset, cell * 100 + 50, list(mix.elements())],
        )
    return dataset


def draw_told(rng: np.random.Generator, number: int, city: dict[int, Counter[str]]) -> Told:
    """Draw some cells in a row, or all, some with another point of interest; and regions, which may overlap."""
    low = 0 if rng.random() < 0.4 else int(rng.integers(0, 4))
    high = CELLS if low == 0 and rng.random() < 0.6 else int(rng.integers(low + 4, CELLS + 1))
    mix = {cell: Counter(city[cell]) for cell in range(low, high)}
    if rng.random() < 0.3:
        mix[int(rng.integers(low, high))][str(rng.choice(["bar", "school"]))] += 3
    cuts = sorted(rng.choice(np.arange(low + 1, high), int(rng.integers(1, 3)), replace=False).tolist())
    regions: dict[int, frozenset[int]] = {}
    for n, (since, until) in enumerate(pairwise([low, *cuts, high])):
        for cell in range(since, until) if rng.random() < 0.9 or not n else []:
            regions[cell] = frozenset([n])
    return Told(number, int(rng.integers(1, 3)), float(rng.choice([0.15, 0.4, 0.8])), mix, regions)


def test_random_releases_are_held_against_the_cities_of_all_as_an_oracle_holds_them(own: psycopg.Connection) -> None:
    rng, outcomes = np.random.default_rng(51), Counter[str]()
    for history in range(8):
        city = {
            cell: Counter(rng.choice(["bar", "clinic"], 12, p=[0.2, 0.8] if cell > 3 else [0.6, 0.4]).tolist())
            for cell in range(CELLS)
        }
        earlier: list[Told] = []
        for number in range(4):
            told = draw_told(rng, number, city)
            dataset = load_told(own, f"d{history}_{number}", None if number else f"people{history}", told)
            own.execute(
                "UPDATE dbanon.dataset d SET population_id = p.population_id FROM dbanon.population p"
                " WHERE d.dataset_id = %s AND p.name = %s",
                [dataset, f"people{history}"],
            )
            first = min(told.mix)
            regions = [
                [cell - first for cell in told.regions if told.regions[cell] == one]
                for one in sorted(set(told.regions.values()), key=min)
            ]
            run = write(own, None, regions, dataset, l=told.least, t=told.most)
            name = publish(own, run, allow_overlap=True, reason="for this one test")
            found = read_value(own, "SELECT coalesce(overlap, '{}') FROM dbanon.release WHERE name = %s", name)
            assert isinstance(found, dict)
            expected = count_failing(told, earlier)
            larger = [one for one in earlier if set(one.mix) > set(told.mix)]
            assert found.get("classes", 0) == expected, (history, number)
            assert len(found.get("fewer_cells", [])) == len(larger)
            alone = count_failing(told, earlier, by_own_city=True)
            outcomes["failing by its own city" if alone else "kept" if not expected else "more"] += 1
            outcomes["failing by the city of another alone"] += expected > alone
            earlier.append(told)
    assert outcomes["kept"] > 0
    assert outcomes["failing by its own city"] > 0
    assert outcomes["failing by the city of another alone"] > 0


def forget_pois(connection: psycopg.Connection) -> None:
    """Make all releases those of a version that kept no points of interest of cells."""
    for table in ("published_cell", "release"):
        connection.execute(f"ALTER TABLE dbanon.{table} DISABLE TRIGGER USER")
    connection.execute("UPDATE dbanon.published_cell SET pois = NULL")
    connection.execute(
        "UPDATE dbanon.release rel SET cells_sum = dbanon_internal.compute_cells_sum(rel.release_id, run.dataset_id)"
        " FROM dbanon.run run WHERE run.run_id = rel.run_id"
    )
    for table in ("published_cell", "release"):
        connection.execute(f"ALTER TABLE dbanon.{table} ENABLE TRIGGER USER")


def test_an_upgrade_stores_the_points_of_interest_of_releases_whose_data_are_there(city: psycopg.Connection) -> None:
    twin, other = add_dataset(city, "twin"), add_dataset(city, "other")
    for dataset in (twin, other):
        add_cells(city, dataset)
        add_pois(city, dataset)
    publish(city, write(city, FOURS))
    publish(city, write(city, FOURS, dataset=twin))
    publish(city, write(city, FOURS, dataset=other))
    stored = "SELECT release_id, array_agg(pois ORDER BY shape) FROM dbanon.published_cell GROUP BY 1 ORDER BY 1"
    before = dict(city.execute(stored).fetchall())
    assert all(before[1])
    forget_pois(city)
    city.execute("DELETE FROM dbanon.cell WHERE dataset_id = %s", [twin])
    city.execute("UPDATE dbanon.release SET withdrawn_at = now(), withdrawn_by = 'x' WHERE release_id = 3")
    city.execute("ALTER TABLE dbanon.published_cell DISABLE TRIGGER USER")
    city.execute("UPDATE dbanon.published_cell SET class = class + 1 WHERE release_id = 3")
    city.execute("ALTER TABLE dbanon.published_cell ENABLE TRIGGER USER")
    schema.upgrade(make_url(city), share_roles=True)
    assert dict(city.execute(stored).fetchall()) == {1: before[1], 2: [None] * CELLS, 3: before[3]}
    kept = """
        SELECT rel.cells_sum = dbanon_internal.compute_cells_sum(rel.release_id, run.dataset_id)
        FROM dbanon.release rel JOIN dbanon.run run USING (run_id) ORDER BY rel.release_id
    """
    assert [row[0] for row in city.execute(kept).fetchall()] == [True, True, False]  # what was changed stays changed


def test_beside_a_release_whose_city_is_not_known_finer_sets_of_cells_need_a_reason(city: psycopg.Connection) -> None:
    publish(city, write(city, FOURS))
    forget_pois(city)
    publish(city, write(city, FOURS))
    run = write(city, PAIRS)  # which would be published beside releases whose city is known
    assert "4 sets of cells" in catch_refusal(city, run)
    assert publish_allowed(city, run) == {"classes": 4}

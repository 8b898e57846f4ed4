"""The card of a release as JSON-LD: valid by shapes, and in files no more than readers of the release may know."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pyogrio
import pyshacl
import pytest
from rdflib import RDF, BNode, Graph, Literal, URIRef
from rdflib.namespace import DCAT, DCTERMS, PROV

from dbanon.attacks import import_attacker, overlapping_records
from dbanon.database import open_database
from dbanon.methods import METHODS
from dbanon.pages import dcat
from dbanon.pages.words import insert_k
from dbanon.postgres.server import Target
from dbanon.results.described import Described
from dbanon.testing import cloned_database, logins
from tests.acceptance.commands import call, demand_done, read_json

pytestmark = pytest.mark.filterwarnings(
    "ignore:ConjunctiveGraph is deprecated:DeprecationWarning", "ignore:Dataset.:DeprecationWarning"
)

WHO = ("--publisher", "City of Graz", "--url", "https://example.org/graz")
# What DCAT-AP 3.0 and mobilityDCAT-AP 1.1 demand of the classes that a card has, written anew from their texts:
# class, property, whether it must be there, and what its values are.
DEMANDED = """
    dcat:Dataset dct:title 1 Literal, dct:description 1 Literal, dct:identifier 0 Literal, dct:issued 0 dateTime,
        dcat:distribution 1 dcat:Distribution, dct:publisher 1 foaf:Agent, dct:spatial 1 dct:Location,
        dct:temporal 0 dct:PeriodOfTime, dct:accessRights 0 dct:RightsStatement, dct:conformsTo 0 /def/crs/EPSG/0/,
        dct:accrualPeriodicity 1 /authority/frequency/, mobilitydcatap:mobilityTheme 1 /mobilitydcat-ap/mobility-theme/,
        mobilitydcatap:georeferencingMethod 0 /mobilitydcat-ap/georeferencing-method/,
        dqv:hasQualityAnnotation 0 dqv:QualityAnnotation, dqv:hasQualityMeasurement 0 dqv:QualityMeasurement,
        prov:wasGeneratedBy 0 prov:Activity
    dcat:Distribution dcat:accessURL 1 IRI, dct:format 1 /authority/file-type/, dct:rights 1 dct:RightsStatement,
        mobilitydcatap:mobilityDataStandard 1 /mobilitydcat-ap/mobility-data-standard/
    dct:RightsStatement dct:type 1 /mobilitydcat-ap/conditions-for-access-and-usage/
    foaf:Agent foaf:name 1 Literal
    dqv:QualityMeasurement dqv:isMeasurementOf 1 dqv:Metric, dqv:value 1 Literal
"""
NAMES = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "dqv": "http://www.w3.org/ns/dqv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "mobilitydcatap": "https://w3id.org/mobilitydcat-ap#",
    "prov": "http://www.w3.org/ns/prov#",
}
DEMANDS = [
    (kind, *rule.split())
    for kind, _, rules in (text.strip().partition(" ") for text in DEMANDED.replace(",\n", ",").strip().splitlines())
    for rule in rules.split(",")
]


def expand(name: str) -> URIRef:
    prefix, _, local = name.partition(":")
    return URIRef(NAMES[prefix] + local)


def make_shapes() -> Graph:
    """The demands as SHACL."""
    lines = [f"@prefix {prefix}: <{uri}> ." for prefix, uri in NAMES.items()]
    lines += ["@prefix sh: <http://www.w3.org/ns/shacl#> .", "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."]
    for number, (kind, path, least, values) in enumerate(DEMANDS):
        value = {
            "Literal": "sh:nodeKind sh:Literal",
            "IRI": "sh:nodeKind sh:IRI",
            "dateTime": "sh:datatype xsd:dateTime",
        }
        what = value.get(values) or (f'sh:pattern "{values}"' if values.startswith("/") else f"sh:class {values}")
        lines.append(
            f"<urn:shape:{number}> a sh:NodeShape ; sh:targetClass {kind} ;"
            f" sh:property [ sh:path {path} ; sh:minCount {least} ; {what} ] ."
        )
    return Graph().parse(data="\n".join(lines), format="turtle")


SHAPES = make_shapes()


def read_graph(document: object) -> Graph:
    return Graph().parse(data=json.dumps(document), format="json-ld")


def is_valid(graph: Graph, shapes: Graph = SHAPES) -> tuple[bool, str]:
    """Whether a graph keeps to shapes, and which it breaks; a shape without its class in the graph says nothing."""
    conforms, _, text = pyshacl.validate(graph, shacl_graph=shapes)
    return bool(conforms), str(text)


def list_leaves(value: object) -> Iterator[str]:
    """All texts and numbers of a document, without names of properties and links to vocabularies."""
    if isinstance(value, dict):
        for name, one in value.items():
            if not name.startswith("@"):
                yield from list_leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from list_leaves(one)
    elif value is not None:
        yield str(value)


def read_cards(url: str, name: str, folder: Path) -> list[dict[str, Any]]:
    """The cards in the metadata of all kinds of file that have one."""
    for suffix in (".parquet", ".fgb", ".gpkg"):
        demand_done(call(url, "export", name, str(folder / f"{name}{suffix}")))
    metadata = pq.read_schema(folder / f"{name}.parquet").metadata
    layers = [pyogrio.read_info(folder / f"{name}{suffix}")["layer_metadata"] for suffix in (".fgb", ".gpkg")]
    return [json.loads(one) for one in (metadata[b"dcat"], *(layer["dcat"] for layer in layers))]


@pytest.fixture(scope="module")
def card(city: str) -> dict[str, Any]:
    return read_json(demand_done(call(city, "card", "city_k5", "--json-ld", *WHO)))


def test_a_card_keeps_to_both_profiles(card: dict[str, Any]) -> None:
    valid, text = is_valid(read_graph(card))
    assert valid, text


def test_without_a_publisher_only_the_publisher_is_missing(city: str) -> None:
    valid, text = is_valid(read_graph(read_json(call(city, "card", "city_k5", "--json-ld"))))
    assert (valid, text.count("Focus Node"), "dct:publisher" in text) == (False, 1, True)


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, path, least, _ in DEMANDS if least == "1"])
def test_a_card_without_what_a_profile_demands_is_refused(card: dict[str, Any], kind: str, path: str) -> None:
    graph = read_graph(card)
    found = [
        (one, value) for one in graph.subjects(RDF.type, expand(kind)) for value in graph.objects(one, expand(path))
    ]
    assert found
    for one, value in found:
        graph.remove((one, expand(path), value))
    valid, text = is_valid(graph)
    assert not valid
    assert "MinCount" in text


@pytest.mark.parametrize(("kind", "path", "values"), [(kind, path, values) for kind, path, _, values in DEMANDS])
def test_a_card_with_a_value_of_another_kind_is_refused(
    card: dict[str, Any], kind: str, path: str, values: str
) -> None:
    graph = read_graph(card)
    one = next(iter(graph.subjects(RDF.type, expand(kind))))
    graph.remove((one, expand(path), None))
    graph.add((one, expand(path), BNode() if values in ("Literal", "IRI", "dateTime") else Literal("anything")))
    assert not is_valid(graph)[0]


def test_no_term_is_invented_under_the_names_of_others(card: dict[str, Any]) -> None:
    terms = {str(one) for triple in read_graph(card) for one in triple if isinstance(one, URIRef)}
    for vocabulary in (DCAT, DCTERMS, PROV):
        own = {term for term in terms if term.startswith(str(vocabulary))}
        assert own
        assert [term for term in own if URIRef(term) not in vocabulary] == []


def test_a_card_says_how_the_release_was_made_and_what_is_left_open(card: dict[str, Any], city: str) -> None:
    with open_database(city) as database:
        known = database.card("city_k5")
        assert dcat.make_document(Described.from_card(database.card("city_k5")), *WHO[1::2]) == card
    said = set(list_leaves(card))
    values = [value for value in known["parameters"].values() if not isinstance(value, list | dict)]
    assert {str(value) for value in values if value is not None} <= said
    assert {known["adversary"], known["attack"]["digest"], *known["attack"]["left_open"].values()} <= said
    assert {known["program_version"], *known["versions"].values()} <= said
    assert set(known["left_out"]["shares"]["requests"]["reasons"].values()) <= said
    found = {one["dqv:isMeasurementOf"]["@id"]: one["dqv:value"] for one in card["dqv:hasQualityMeasurement"]}
    assert found["urn:dbanon:clause:size"] == "holds"


def test_measured_errors_are_on_the_card_with_their_intervals(city: str) -> None:
    figure = {"name": "count_error", "value": 0.23, "low": 0.2, "high": 0.3, "side_m": 500.0, "asked": "moment"}
    with open_database(city) as database:
        measured = database.card("city_k5")
    measured["evaluation"] = {"figures": [figure, {"name": "usable_resolution_m", "value": "Infinity"}]}
    listed = dcat.make_document(Described.from_card(measured), "x")["dqv:hasQualityMeasurement"]
    found = {one["dqv:isMeasurementOf"]["@id"]: (one["dqv:value"], one["dct:description"]) for one in listed}
    assert found["urn:dbanon:figure:count_error:500.0:moment"] == (0.23, "90 % interval: 0.2 to 0.3")
    assert found["urn:dbanon:figure:usable_resolution_m"] == ("Infinity", None)


def test_a_card_of_a_withdrawn_release_says_so_and_names_no_login_run_or_dataset(
    dbanon_server: Target, city_template: tuple[str, int]
) -> None:
    with cloned_database(dbanon_server, city_template[0]) as url, logins(url) as login:
        owner = login("admin")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE dbanon.dataset SET name = 'fleet_of_graz'")
        with open_database(owner) as database:
            database.publish(city_template[1], "shown")
            database.unpublish("shown")
            known = database.card("shown")
        document = dcat.make_document(Described.from_card(known))
    assert known["published_by"] != known["dataset"] == "fleet_of_graz"
    assert "WITHDRAWN" in document["dcat:distribution"]["adms:status"]["@id"]
    said = json.dumps({**document, "@context": None})
    for secret in (known["published_by"], known["withdrawn_by"], "fleet_of_graz"):
        assert secret not in said


@pytest.mark.parametrize("name", ["city_k5", "city_sites"])
def test_a_file_says_no_more_than_its_readers_may_know(city: str, anna: str, tmp_path: Path, name: str) -> None:
    """Each text of the card in a file is one that an analyst reads in SQL, or one of the program about all releases."""
    first, *others = read_cards(anna, name, tmp_path)
    with psycopg.connect(anna, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        told = ""
        for view in ("releases", "parts", "left_out", "columns"):
            told += str(
                connection.execute(f"SELECT to_jsonb(v) FROM published.{view} v WHERE name = %s", [name]).fetchall()
            )
        told += str(connection.execute("SELECT ST_AsText(ST_Transform(ST_MakeEnvelope(extent[1], extent[2], extent[3],"
            " extent[4], srid), 4326), 5) FROM published.releases WHERE name = %s", [name]).fetchall())  # fmt: skip
    family = METHODS[first["prov:wasGeneratedBy"]["schema:name"]]
    attack = import_attacker(family.attack).attack
    program = repr((family, attack.left_open, attack.of_all, overlapping_records.CLAUSES)) + inspect.getsource(dcat)
    program += "not broken, or none, or not counted fewer than published. k window_s"
    k = next(one["prov:value"] for one in first["prov:wasGeneratedBy"]["prov:used"] if one["schema:name"] == "k")
    whole = (told + program + insert_k(told + program, k)).replace("'", "").replace('"', "").replace("\\", "")
    untold = set()
    for said in list_leaves(first):
        for sentence in said.replace("'", "").replace('"', "").replace(": ", ". ").split(". "):
            words = sentence.rstrip(".").removesuffix(" %").removeprefix("published.")
            if words not in whole:
                untold.add(words)
    assert untold == set()
    known = json.dumps(first)  # to show how two differ takes minutes
    assert all(known == json.dumps(one) for one in (*others, *read_cards(city, name, tmp_path)))


def test_a_file_has_nothing_private_in_it(
    dbanon_server: Target, city_template: tuple[str, int], tmp_path: Path
) -> None:
    with cloned_database(dbanon_server, city_template[0]) as url, logins(url) as login:
        owner = login("admin")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE dbanon.dataset SET name = 'fleet_of_graz'")
        with open_database(owner) as database:
            database.publish(city_template[1], "shown")
            known = database.card("shown")
        cards = read_cards(owner, "shown", tmp_path)
    attack, left_out = known["attack"], known["left_out"]
    assert left_out["in_all"]["subjects"]
    private = [known["dataset"], known["published_by"], known["algorithm"], attack["digest"], known["program_version"]]
    private += [
        known["published_at"][:16],
        attack["checked_at"][:16],
        *known["versions"].values(),
        *map(str, known["pages"]),
    ]
    counts = {str(count) for kind in left_out["in_all"].values() for count in kind.values()} - {"0"}
    counts |= {str(attack["figures"][name]) for name in ("seen", "published", "requests_of_few_subjects")} - {"5"}
    for document in cards:
        said = json.dumps({**document, "@context": None})
        assert [one for one in private if one in said] == []
        assert counts & set(list_leaves(document)) == set()
        given = {one["schema:name"] for one in document["prov:wasGeneratedBy"]["prov:used"]}
        assert given <= {"k", "window_s"}
        assert "figure:" not in said


def test_a_file_of_a_family_that_the_program_does_not_know_has_no_card(
    anna: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbanon.methods.METHODS", {})
    demand_done(call(anna, "export", "city_k5", str(tmp_path / "it.parquet")))
    assert b"dcat" not in pq.read_schema(tmp_path / "it.parquet").metadata

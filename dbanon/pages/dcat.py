"""Writes the record of a release as JSON-LD for catalogues: DCAT-AP 3, mobilityDCAT-AP, PROV and DQV.

It names no login, dataset or run, and tells nothing that is not in the record. JSON-LD takes null for nothing.
"""

from datetime import UTC
from typing import Any

from dbanon.pages import words
from dbanon.results.described import Described, name_verdict

_MAX_EPSG = 32_767  # greater numbers of reference systems are not of EPSG
_EU, _MOBILITY = "http://publications.europa.eu/resource/authority", "https://w3id.org/mobilitydcat-ap"
_CONTEXT = {
    "@language": "en",
    **{name: f"http://www.w3.org/ns/{name}#" for name in ("adms", "dcat", "dqv", "prov")},
    **{"dct": "http://purl.org/dc/terms/", "foaf": "http://xmlns.com/foaf/0.1/", "schema": "https://schema.org/"},
    **{"mobilitydcatap": f"{_MOBILITY}#", "xsd": "http://www.w3.org/2001/XMLSchema#"},
    **{name: {"@id": name, "@type": "xsd:dateTime"} for name in ("dct:issued", "dcat:startDate", "dcat:endDate")},
    "dcat:bbox": {"@id": "dcat:bbox", "@type": "http://www.opengis.net/ont/geosparql#wktLiteral"},
}


def make_document(record: Described, publisher: str | None = None, url: str | None = None) -> dict[str, Any]:
    """Make the document of a release; mobilityDCAT-AP demands a `publisher`, and a URN stands for a missing `url`."""
    own = {"@id": url or f"urn:dbanon:{record.name}"}
    terms = {"@id": f"{_MOBILITY}/conditions-for-access-and-usage/other"}
    rights = {"@id": f"{_EU}/access-right/RESTRICTED", "@type": "dct:RightsStatement", "dct:type": terms}
    crs = {"@id": f"http://www.opengis.net/def/crs/EPSG/0/{record.srid}", "@type": "dct:Standard"}
    often = f"{_EU}/frequency/{'IRREG' if len(record.parts) > 1 else 'UNKNOWN'}"
    times = (record.since, record.until, record.published_at)
    since, until, issued = (time.astimezone(UTC).isoformat() if time else None for time in times)
    return {
        "@context": _CONTEXT,
        **own,
        "@type": "dcat:Dataset",
        "dct:title": record.name,
        "dct:description": f"{words.insert_k(record.promise, record.k)} {record.rows_are}",
        "dct:identifier": record.name,
        "dct:issued": issued,
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": publisher} if publisher else None,
        "dct:accessRights": rights,
        "dct:accrualPeriodicity": {"@id": often, "@type": "dct:Frequency"},
        "dct:conformsTo": crs if record.srid <= _MAX_EPSG else None,
        "dct:spatial": {"@type": "dct:Location", "dcat:bbox": record.box},
        "dct:temporal": {"@type": "dct:PeriodOfTime", "dcat:startDate": since, "dcat:endDate": until},
        "mobilitydcatap:mobilityTheme": {"@id": f"{_MOBILITY}/mobility-theme/other"},
        "mobilitydcatap:georeferencingMethod": {"@id": f"{_MOBILITY}/georeferencing-method/geocoordinates"},
        "dcat:distribution": {
            "@type": "dcat:Distribution",
            "dcat:accessURL": own,
            "dct:format": {"@id": f"{_EU}/file-type/SQL", "@type": "dct:MediaTypeOrExtent"},
            "dct:rights": rights,
            "mobilitydcatap:mobilityDataStandard": {"@id": f"{_MOBILITY}/mobility-data-standard/other"},
            "adms:status": None if record.live else {"@id": f"{_EU}/distribution-status/WITHDRAWN"},
        },
        **_describe_making(record),
    }


def _describe_making(record: Described) -> dict[str, Any]:
    """Say how it was made and attacked: parameters, versions, gaps, and what was found or measured."""
    used = record.parameters or {"k": record.k, "window_s": record.window_s}
    run = {
        "@type": "prov:Activity",
        "schema:name": " ".join(filter(None, (record.method, record.algorithm))),
        "dct:bibliographicCitation": record.paper,
        "prov:used": [{"@type": "prov:Entity", "schema:name": one, "prov:value": value} for one, value in used.items()],
        "prov:wasAssociatedWith": [
            {"@type": "prov:SoftwareAgent", "schema:name": program, "schema:softwareVersion": version}
            for program, version in record.versions.items()
        ],
    }
    left_out, gaps = record.left_out, {"adversary": record.adversary, **record.left_open}
    found: dict[str, tuple[Any, str | None]] = {
        "left-out": (record.said_left_out, left_out.meaning),
        "digest": (record.digest, "SHA-256 of rows and data, as they were attacked"),
        **{f"clause:{one.name}": (name_verdict(one), f"{one.test}: {one.plain}") for one in record.clauses},
    }
    for kind, shares in left_out.shares.items():
        found |= {
            f"left-out:{kind}:{why}": (share, left_out.reasons.get(why)) for why, share in shares["reasons"].items()
        }
    for one in record.evaluation.get("figures", ()):
        name = ":".join(str(one[key]) for key in ("name", "side_m", "asked") if key in one)
        ends = f"90 % interval: {one['low']} to {one['high']}" if {"low", "high"} <= set(one) else None
        found[f"figure:{name}"] = (one.get("value"), ends)
    return {
        "prov:wasGeneratedBy": run,
        "dqv:hasQualityAnnotation": [
            {"@type": "dqv:QualityAnnotation", "dct:title": gap, "dct:description": text} for gap, text in gaps.items()
        ],
        "dqv:hasQualityMeasurement": [
            {
                "@type": "dqv:QualityMeasurement",
                "dqv:isMeasurementOf": {"@id": f"urn:dbanon:{name}", "@type": "dqv:Metric"},
                **{"dqv:value": value, "dct:description": meaning},
            }
            for name, (value, meaning) in found.items()
            if value is not None
        ],
    }

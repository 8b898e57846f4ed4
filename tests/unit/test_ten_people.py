"""The rows on the page about ten people are those that `tests.db.test_contracts` writes, publishes and takes back."""

import json
import re

import numpy as np
import pytest

from dbanon.base.cloaks import Cloaks
from tests.db.written import AT_S, CONTRACTS, find_own_cell
from tests.unit.test_docs import ROOT

PAGE = ROOT / "docs" / "understand" / "ten-people.md"
FAMILIES = {"tp-aware": "bundles", "sensitive-sites": "sites", "kte": "k-merge", "mob": "objects", "semantic": "areas"}


def read_shown(family: str) -> list[dict[str, str]]:
    """Return the rows of a table of the page, one for each record."""
    text = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    [below] = [part for part in text if part.startswith(f"{family}: ")]
    head, _, *lines = [line.strip("| ").split(" | ") for line in below.splitlines() if line.startswith("|")]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    return [{**row, "record_id": str(record)} for row in rows for record in _parse_range(row["record_id"])]


def _parse_range(numbers: str) -> range:
    first, _, last = numbers.partition(" to ")
    return range(int(first), int(last or first) + 1)


def format_minute(t: int) -> str:
    return f"{8 + (t - AT_S) // 3600}:{(t - AT_S) // 60 % 60:02}"


def format_region(cloaks: Cloaks, row: int) -> str:
    regions, number = cloaks.regions, cloaks.region[row]
    if regions.bounds is None:
        assert regions.cell is not None
        assert regions.cell_offset is not None
        cells = regions.cell[regions.cell_offset[number] : regions.cell_offset[number + 1]]
        return "cells " + ", ".join(map(str, cells))
    own = np.array(find_own_cell(int(cloaks.record_id[row]) - 1))
    step = [10 * (cloaks.seq[row] - 1), 0] * 2  # ten metres to the east in a minute
    bounds = regions.bounds[number]
    return "own cell" if (bounds == own + step).all() else " ".join(f"{side:.0f}" for side in bounds)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rows_of_a_family_are_those_that_are_written(family: str) -> None:
    contract = CONTRACTS[FAMILIES[family]]
    cloaks = contract.cloaks()
    own, _, default = contract.column or ("", "", "")
    written = []
    for row in range(cloaks.rows):
        extra = {} if cloaks.extra is None or cloaks.extra[row] < 0 else json.loads(cloaks.extras[cloaks.extra[row]])
        written.append(
            {
                "record_id": str(cloaks.record_id[row]),
                "seq": str(cloaks.seq[row]),
                "valid_from": format_minute(int(cloaks.start[row])),
                "valid_to": format_minute(int(cloaks.end[row])),
                "region": format_region(cloaks, row),
                "crowd": str(cloaks.crowd[row]),
                "subjects": str(cloaks.subjects[row]),
                **({own: json.dumps(extra[own]) if own in extra else default} if own else {}),
            }
        )

    def by_place(row: dict[str, str]) -> tuple[int, int]:
        return int(row["record_id"]), int(row["seq"])

    assert sorted(read_shown(family), key=by_place) == sorted(written, key=by_place)

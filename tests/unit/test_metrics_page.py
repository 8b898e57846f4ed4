"""The list of metrics is whole, and its page is made from it."""

import os
import re

import pytest

from dbanon.metrics import GROUPS, METRICS
from tests.golden.metrics_page import BETTER, PAGE, UNITS, page


def test_the_page_is_made_from_the_list() -> None:
    if os.environ.get("DBANON_WRITE_GOLDEN"):
        PAGE.write_text(page())
    assert page() == PAGE.read_text(), "write it with DBANON_WRITE_GOLDEN=1 pytest tests/unit/test_metrics_page.py"


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_all_that_is_shown_of_it(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]+", name)
    assert metric.group in GROUPS
    assert metric.unit in UNITS
    assert metric.better in BETTER
    assert metric.plain.endswith(".")
    assert len(metric.title) <= 30
    assert metric.formula
    assert metric.source


def test_no_two_metrics_have_one_title() -> None:
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)

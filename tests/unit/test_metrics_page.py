"""The list of metrics is whole, and its page is made from it."""

import re

import pytest

from dbanon.metrics import GROUPS, METRICS
from tests.golden.reference import BETTER, UNITS


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

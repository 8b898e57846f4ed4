"""Figures that are kept as JSON."""

import json
import math

import pytest

from dbanon.evaluation import evaluation_store
from dbanon.results.figures import Figure


@pytest.mark.parametrize("value", [0.25, None, math.inf])
def test_a_kept_figure_is_read_as_it_was(value: float | None) -> None:
    figure = Figure(name="count_error", value=value, side_m=500.0, asked="moment")
    assert evaluation_store._read_figure(json.loads(json.dumps(evaluation_store._write_figure(figure)))) == figure

"""What is read of stored rows in blocks, without a server."""

import numpy as np
import pyarrow as pa
import pytest

from dbanon.base.errors import DataError
from dbanon.postgres import arrow
from dbanon.runs import _blocks


def test_values_nested_more_deeply_than_can_be_read_are_refused_in_a_sentence():
    deep = f"[{'[' * 5000}{']' * 5000}]"
    with pytest.raises(DataError, match="deep"):
        _blocks.split_keys(pa.array([f'{{"requests": {deep}}}']).dictionary_encode())
    with pytest.raises(DataError, match="deep"):
        _blocks.split_elements(deep)
    assert _blocks.split_elements("[[1], {}]") == ["[1]", "{}"]


def test_the_last_years_that_the_server_knows_do_not_become_early_ones():
    end = 9_224_318_016_000_000 * 1000  # 294277-01-01 since 2000, in microseconds; the greatest time is before it
    sent = np.array([0, -946_684_800_000_000, end - 1, end - 8_000_000_000_000_000, 86_400_000_000])
    expected = [(int(one) + 946_684_800_000_000) / 1e6 for one in sent.tolist()]
    assert arrow.convert_to_unix_s(sent).tolist() == pytest.approx(expected, rel=1e-15)

"""What is read of stored rows in blocks, without a server."""

import pyarrow as pa
import pytest

from dbanon.base.errors import DataError
from dbanon.runs import _blocks


def test_values_nested_more_deeply_than_can_be_read_are_refused_in_a_sentence():
    deep = f"[{'[' * 5000}{']' * 5000}]"
    with pytest.raises(DataError, match="deep"):
        _blocks.keys(pa.array([f'{{"requests": {deep}}}']).dictionary_encode())
    with pytest.raises(DataError, match="deep"):
        _blocks.elements(deep)
    assert _blocks.elements("[[1], {}]") == ["[1]", "{}"]

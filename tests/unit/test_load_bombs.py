"""Files that make much of few bytes: they are read in little memory or refused in one sentence."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbanon.base.errors import DataError
from dbanon.load import _parse
from dbanon.load.formats import arrow, tabular
from tests.facts import demand_named, expect_refusal, is_named

NAMES = ["subject", "time", "x", "y"]
MOST_MB = 450
READ = f"""
import sys
from pathlib import Path
from dbanon.base import memory
from dbanon.base.errors import DataError
from dbanon.load.formats import tabular
from dbanon.load import _parse
rows = 0
try:
    for batch in tabular.read_batches(Path(sys.argv[1]), {NAMES}, option_names="--subject"):
        rows += len(batch)
        subject = _parse.parse_texts(batch.columns["subject"])
        assert _parse.is_too_long(subject).any()
        _parse.format_json(batch.columns)
except DataError as error:
    print(error)
print(rows, memory.measure_peak_mb())
"""


def _write(path: Path, subject: pa.Array, **options: Any) -> Path:
    numbers = pa.array(np.zeros(len(subject)))
    table = pa.table({"subject": subject, "time": numbers, "x": numbers, "y": numbers})
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def _make_shared(rows: int, value: str | bytes, kind: Any = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], kind))


def _make_repeated(rows: int, width: int) -> pa.Array:
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(b"0" * (rows * width)))


def _read(path: Path) -> tuple[list[str], float]:
    """Read a file in a process of its own: what it says, rows last, and its peak memory in MB."""
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = done.stdout.splitlines()
    rows, peak_mb = said.pop().split()
    return [*said, rows], float(peak_mb)


@pytest.mark.stress
@pytest.mark.parametrize("case", ["dictionary", "plain", "fixed width", "prefixes"])
def test_a_long_text_that_many_rows_have_takes_little_memory(tmp_path: Path, case: str) -> None:
    path, rows = tmp_path / "bomb.parquet", 65_536
    if case == "dictionary":
        _write(path, _make_shared(rows, "a" * 15_000))
    elif case == "plain":
        _write(path, _make_repeated(rows, 4_000), use_dictionary=False, max_rows_per_page=100)
    elif case == "fixed width":
        _write(path, _make_shared(rows, b"a" * 15_000, pa.binary(15_000)))
    else:
        encodings = {"subject": "DELTA_BYTE_ARRAY", "time": "PLAIN", "x": "PLAIN", "y": "PLAIN"}
        _write(path, _make_repeated(rows, 4_000), use_dictionary=False, column_encoding=encodings)
    said, peak_mb = _read(path)
    assert 40 * path.stat().st_size < rows * 4_000
    assert peak_mb < (MOST_MB if case != "prefixes" else 1000)
    assert said == [str(rows)] or is_named(said[0], "1,000 times")


@pytest.mark.stress
def test_a_page_that_would_not_fit_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "page.parquet",
        _make_repeated(20_000, 15_000),
        use_dictionary=False,
        data_page_size=2**30,
        write_batch_size=20_000,
    )
    said, peak_mb = _read(path)
    assert said[1:] == ["0"]
    assert re.search(r"page\.parquet.* 1,2\d\d MB", said[0])
    assert peak_mb < 150


@pytest.mark.stress
def test_texts_that_make_a_thousand_times_the_file_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "far.parquet", _make_shared(65_536, "a" * 1_000_000))
    said, peak_mb = _read(path)
    assert said[1:] == ["0"]
    demand_named(said[0], "far.parquet", "1,000 times")
    assert peak_mb < MOST_MB


def test_slices_hold_the_rows_of_the_file_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "SLICE_BYTES", 1000)
    names = [f"{i % 7}" * (i % 90) or None for i in range(5_000)]
    for dictionary in (True, False):
        path = _write(tmp_path / "slices.parquet", pa.array(names), use_dictionary=dictionary, row_group_size=1_777)
        read = list(tabular.read_batches(path, NAMES, option_names="--subject"))
        assert [name for batch in read for name in _parse.parse_texts(batch.columns["subject"]).to_pylist()] == names
        assert [line for batch in read for line in batch.line.to_pylist()] == list(range(2, 5_002))
        texts = [_parse.parse_texts(batch.columns["subject"]).drop_null().to_pylist() for batch in read]
        assert max(len("".join(part)) for part in texts) <= 1_000 + 90


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_texts_are_read_however_they_are_written(tmp_path: Path, encoding: str, version: Any, kind: Any) -> None:
    path, names = tmp_path / "any.parquet", ["b ", None, " e\u0301", ""] * 40
    shared = encoding == "RLE_DICTIONARY"
    options: dict[str, Any] = {} if shared else {"use_dictionary": False, "column_encoding": {"s": encoding}}
    cells = [name and name.encode() for name in names] if kind == pa.binary() else names
    pq.write_table(
        pa.table({"s": pa.array(cells, kind)}), path, data_page_version=version, row_group_size=50, **options
    )
    batches = tabular.read_batches(path, ["s"], option_names="--s")
    read = [_parse.parse_texts(batch.columns["s"]).to_pylist() for batch in batches]
    assert [name for names in read for name in names] == ["b", None, "\u00e9", None] * 40


def test_a_page_header_that_is_none_is_told_of_the_file(tmp_path: Path) -> None:
    path = _write(tmp_path / "nested.parquet", _make_shared(10, "a"))
    for filler in (b"\x1c" * 60, b"\xff" * 60, b"\x18\xff\xff\xff\x7f" + b"\0" * 60, b"\0" * 60):
        whole = path.read_bytes()
        (tmp_path / "bad.parquet").write_bytes(whole[:4] + filler + whole[4 + len(filler) :])
        with expect_refusal(DataError, "bad.parquet", "whole"):
            list(tabular.read_batches(tmp_path / "bad.parquet", NAMES, option_names="--subject"))

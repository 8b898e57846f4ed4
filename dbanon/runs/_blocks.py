"""Reads the large tables of a run in blocks, and digests them on the way: the very bytes that the server would hash.

A publication has the server hash them again (`dbanon_internal.compute_content_digest`). Both digests must agree, so
what is hashed here is what `read_region_blocks`, `read_membership_blocks` and `read_name_blocks` send, in that order.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.base.errors import DataError
from dbanon.base.trajectory import Float, Int
from dbanon.postgres import arrow

Bytes = NDArray[np.uint8]

_RECTANGLE_BYTES = 97  # bytes of EWKB: 17 before the points, five points of 16
_RECTANGLE_HEADER = np.frombuffer(
    b"\1\3\0\0\x20" + bytes(4) + b"\1\0\0\0\5\0\0\0", np.uint8
)  # of them 4 to 8 say the SRID
_EMPTY, _NO_LOWER, _NO_UPPER = 1, 8, 16  # flags of a range
_ID_BITS = 16  # bits of an id that do not tell which block it is in
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)  # Python makes no numbers of thousands of digits


@dataclass(frozen=True, kw_only=True)
class Regions:
    """The regions of a run by ascending number."""

    no: Int
    crowd: NDArray[np.int32]
    subjects: NDArray[np.int32]
    # float64[n, 4] and int32[n]: bounds and SRID, where all regions are rectangles
    rectangles: tuple[Float, NDArray[np.int32]] | None
    extra: pa.DictionaryArray  # the text of each; null where there is none
    digest: bytes


@dataclass(frozen=True, kw_only=True)
class Members:
    """The members of a run by record, trajectory and period."""

    record: Int
    trajectory: Int
    start_s: Float  # NaN where it is the whole record, like `end_s`
    end_s: Float
    digest: bytes


def read_regions(snapshot: arrow.Snapshot, run_id: int) -> Regions:
    whole = hashlib.sha256()
    numbers, found = [np.empty((3, 0), ">i4")], [(np.empty((0, 4)), np.empty(0, np.int32))]
    extras = [pa.array([], pa.string()).dictionary_encode()]
    for block in _read_blocks(snapshot, "read_region_blocks", run_id, whole):
        _, _, no, shape_size, shape, _, _, crowd, subjects, extra_size, extra = block
        numbers.append(np.stack([no, crowd, subjects]).view(">i4"))
        found += filter(None, [_find_rectangles(shape_size.view(">i4"), shape)])
        extras.append(arrow.decode_texts(extra_size.view(">i4"), extra).dictionary_encode())
    bounds, srid = zip(*found, strict=True)
    columns = np.concatenate(numbers, axis=1).astype(np.int32)
    if (np.diff(columns[0]) <= 0).any():
        raise DataError("Regions must come by ascending number. This is a defect of their reading.")
    return Regions(
        no=columns[0].astype(np.int64),
        crowd=columns[1],
        subjects=columns[2],
        rectangles=(np.concatenate(bounds), np.concatenate(srid)) if len(bounds) == len(numbers) else None,
        extra=pa.chunked_array(extras).unify_dictionaries().combine_chunks(),
        digest=whole.digest(),
    )


def read_members(snapshot: arrow.Snapshot, run_id: int) -> Members:
    whole = hashlib.sha256()
    numbers, ends = [np.empty((2, 0), ">i8")], [np.empty((0, 2))]
    for _, _, record, trajectory, size, period in _read_blocks(snapshot, "read_membership_blocks", run_id, whole):
        numbers.append(np.stack([record, trajectory]).view(">i8"))
        ends.append(_read_ends(size.view(">i4").astype(np.int64), period))
    records, trajectories = np.concatenate(numbers, axis=1).astype(np.int64)
    start_s, end_s = np.ascontiguousarray(np.concatenate(ends).T)
    return Members(record=records, trajectory=trajectories, start_s=start_s, end_s=end_s, digest=whole.digest())


def digest_names(member: Int, trajectory_id: Int, subject: Int, texts: pa.StringArray) -> bytes:
    """Digest the names of members as `read_name_blocks` does.

    `trajectory_id` ascends, and `subject` is each one's text.
    """
    ids = np.sort(member)  # `np.unique` hashes first, which takes ten times as long
    ids = ids[np.diff(ids, prepend=ids[:1] - 1) > 0]
    at = np.minimum(np.searchsorted(trajectory_id, ids), max(len(trajectory_id) - 1, 0))
    known = trajectory_id[at] == ids if len(trajectory_id) else np.zeros(len(ids), bool)
    ids, names = ids[known], texts.take(pa.array(subject[at[known]]))
    _, offsets, data = names.buffers()
    ends = np.frombuffer(offsets or b"", np.int32)[names.offset : names.offset + len(names) + 1]
    letters = np.frombuffer(data or b"", np.uint8)
    whole = hashlib.sha256()
    cuts = np.flatnonzero(np.diff(ids >> _ID_BITS)) + 1
    for low, high in zip([0, *cuts.tolist()], [*cuts.tolist(), len(ids)], strict=True):
        if high > low:
            own = hashlib.sha256(np.append([ids[low] >> _ID_BITS, high - low], ids[low:high]).astype(">i8").tobytes())
            own.update(np.diff(ends[low : high + 1]).astype(">i4").tobytes())
            own.update(letters[ends[low] : ends[high]].data)
            whole.update(own.digest())
    return whole.digest()


def _find_rectangles(size: NDArray[Any], shapes: Bytes) -> tuple[Float, NDArray[np.int32]] | None:
    """Give bounds and SRID of regions that all are exactly their own envelopes, counter-clockwise; None of others.

    `shapes`: their EWKB, one behind the other, of so many bytes each.
    """
    if (size != _RECTANGLE_BYTES).any():
        return None
    shape = shapes.reshape(-1, _RECTANGLE_BYTES)
    if not (shape[:, [*range(5), *range(9, 17)]] == _RECTANGLE_HEADER[[*range(5), *range(9, 17)]]).all():
        return None
    corner = np.ascontiguousarray(shape[:, 17:]).view("<f8").reshape(-1, 5, 2)
    (x0, y0), (x1, y1) = corner[:, 0].T, corner[:, 2].T
    ring = np.stack([x0, y0, x1, y0, x1, y1, x0, y1, x0, y0], axis=1).reshape(-1, 5, 2)
    # As bits: zero has two signs, and the server compares bytes.
    if not ((corner.view(np.int64) == ring.view(np.int64)).all() and ((x0 < x1) & (y0 < y1)).all()):
        return None
    return np.stack([x0, y0, x1, y1], axis=1), np.ascontiguousarray(shape[:, 5:9]).view("<i4")[:, 0].astype(np.int32)


def split_keys(extra: pa.DictionaryArray) -> tuple[Int, list[dict[str, str]]]:
    """Take JSON objects apart: of each row the index of its object, -1 where there is none; each object by its keys."""
    code = extra.indices.fill_null(-1).to_numpy().astype(np.int64)
    return code, [dict(_split_pairs(text)) for text in extra.dictionary.to_pylist()]


def split_elements(text: str) -> list[str]:
    """Cut the text of a JSON array, as the server writes one, into those of its elements.

    Anything else becomes an array, of which it is the only element, inside the list.
    """
    if not text.startswith("["):
        return [f"[{text}]"]
    elements, at = [], 1
    while text[at] != "]":
        _, end = _decode(text, at)
        elements.append(text[at:end])
        at = end + 2 if text[end] == "," else end
    return elements


def _split_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Cut the text of a JSON object, as the server writes one, into its keys and the texts of their values."""
    at = 1
    while text[at] != "}":
        key, at = _decode(text, at)
        _, end = _decode(text, at + 2)  # behind a colon and a space
        yield key, text[at + 2 : end]
        at = end + 2 if text[end] == "," else end


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Decode the JSON value that begins at a place; gives where it ends, too."""
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise DataError(
            "Values in `extra` of a stored row must be at most some hundred arrays or objects deep. One is deeper, "
            "which no method writes. Run the method again."
        ) from None


def _read_blocks(snapshot: arrow.Snapshot, function: str, run_id: int, whole: Any) -> Iterator[list[Bytes]]:
    # Right after rows were written nothing is known of them, and the planner would read all runs for each block.
    snapshot.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    before = None
    for block in arrow.read_rows_of_bytes(snapshot, f"SELECT * FROM dbanon_internal.{function}({int(run_id)})"):
        no = int.from_bytes(block[0].tobytes(), signed=True)
        if before is not None and no <= before:
            raise DataError("Blocks must come by ascending number. This is a defect of their reading.")
        before, own = no, hashlib.sha256()
        for values in block:
            own.update(values.data)
        whole.update(own.digest())
        yield block
    snapshot.connection.execute("SET LOCAL enable_seqscan = DEFAULT; SET LOCAL enable_bitmapscan = DEFAULT")


def _read_ends(size: Int, period: Bytes) -> Float:
    """Read the ends of ranges in unix seconds: float64[n, 2], infinite where one is open, NaN where none is stored."""
    ends = np.full((len(size), 2), np.nan)
    there = np.flatnonzero(size >= 0)
    begin = np.cumsum(size[there]) - size[there]
    flags = period[begin]
    lower, upper = (flags & (_EMPTY | side) == 0 for side in (_NO_LOWER, _NO_UPPER))
    ends[there] = -np.inf, np.inf
    # Behind the flags come the ends that there are, each after its length.
    ends[there[lower], 0] = _read_seconds(period, begin[lower] + 5)
    ends[there[upper], 1] = _read_seconds(period, (begin + 5 + 12 * lower)[upper])
    return ends


def _read_seconds(data: Bytes, at: Int) -> Float:
    """Read the timestamps that begin at each place as the server's date_part does."""
    sent = data[at[:, None] + np.arange(8)].view(">i8")[:, 0].astype(np.int64)
    last = np.iinfo(np.int64)
    endless = (sent == last.min) | (sent == last.max)
    return np.asarray(np.where(endless, np.copysign(np.inf, sent), arrow.convert_to_unix_s(sent)))

"""The text of MobilityDB's ``tgeompoint``: an instant, a set of instants, a sequence or a set of sequences.

``[POINT(1 1)@2000-01-01 08:00:00+00, POINT(2 2)@2000-01-01 08:05:00+00]``, with ``SRID=4326;`` and ``Interp=Step;``
before it where need be; the type's own output has points in hexadecimal WKB. Each instant is a fix, whatever lies
between them. A text with a mistake is no position at all. `dbanon_internal.read_moving_instants` reads columns
of tables so.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.load import _geometry, _parse

_SYSTEM = r"(?i)^\s*(?:SRID=(?P<srid>[0-9]+);)?"
_HEAD = r"(?i)^\s*(?:SRID=[0-9]+;)?\s*(?:Interp=(?:Discrete|Step|Stepwise|Linear);)?\s*"
_POINT = r"(?i)\bPOINT\s*(?:ZM|Z|M)?\s*\(([^()]*)\)"
_INSTANT = r"[^,;@\[\](){}]+@[^,;@\[\](){}]+"
_SEQUENCE = rf"[\[(]{_INSTANT}(?:,{_INSTANT})*[\])]\s*"
_WHOLE = (
    rf"^(?:{_INSTANT}|\{{{_INSTANT}(?:,{_INSTANT})*\}}\s*|{_SEQUENCE}|\{{\s*{_SEQUENCE}(?:,\s*{_SEQUENCE})*\}}\s*)$"
)
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:nan|inf|infinity)"
_PLACE = rf"^\s*(?P<x>{_NUMBER})\s+(?P<y>{_NUMBER})(?:\s+(?:{_NUMBER})){{0,2}}\s*$"


@dataclass(frozen=True)
class Instants:
    """Fixes in the order of their texts: number of the text, unix seconds, x, y, and the fix as it was written.

    A text that cannot be read is one fix without a place. `srids` are the reference systems that are named.
    """

    row: NDArray[np.int64]
    t: pa.Array
    x: pa.Array
    y: pa.Array
    text: pa.Array
    srids: frozenset[int]


def read_instants(texts: pa.Array, times: _parse.Times) -> Instants:
    """Read the fixes of texts, one a row; raises what `_parse.Times` does."""
    texts = texts.cast(pa.string())
    body = pc.replace_substring_regex(texts, _HEAD, "", max_replacements=1)
    body = pc.replace_substring_regex(body, _POINT, r"\1")
    whole = pc.fill_null(pc.match_substring_regex(body, _WHOLE), False)
    pieces = pc.split_pattern(pc.if_else(whole, body, pa.scalar(None, pa.string())), ",")
    row = np.asarray(pc.list_parent_indices(pieces).to_numpy(), np.int64)
    written = pc.utf8_trim(pc.list_flatten(pieces), "[](){} \t\r\n")
    parts = pc.extract_regex(written, r"^(?P<place>[^@]*)@(?P<t>.*)$")
    place, t = pc.struct_field(parts, "place"), times.convert_to_unix_s(pc.struct_field(parts, "t"))
    x, y, srids = _read_places(place)
    missing = np.asarray(pc.or_(pc.or_(x.is_null(), y.is_null()), t.is_null()).to_numpy(zero_copy_only=False))
    broken = np.ones(len(texts), np.bool_)
    broken[row] = False
    broken[row[missing]] = True
    head = pc.extract_regex(pc.utf8_slice_codeunits(texts, 0, 40), _SYSTEM)
    named = {int(one) for one in pc.unique(pc.struct_field(head, "srid")).to_pylist() if one}
    instants = Instants(row, t, x, y, written, frozenset(srids | named))
    return _leave_out(instants, broken, texts) if broken.any() else instants


def _read_places(place: pa.Array) -> tuple[pa.Array, pa.Array, set[int]]:
    """Read x and y of points, written as numbers or as hexadecimal WKB, and which systems the latter name."""
    read = pc.extract_regex(place, _PLACE)
    x, y = (_parse.parse_numbers(pc.struct_field(read, axis)) for axis in "xy")
    packed = pc.fill_null(pc.match_substring_regex(place, "^(?:[0-9A-Fa-f]{2}){21,}$"), False)
    if not pc.any(packed).as_py():
        return x, y, set()
    wkb = _geometry.decode_hex(place.filter(packed))
    axes = [pc.replace_with_mask(old, packed, new) for old, new in zip((x, y), _geometry.read_points(wkb), strict=True)]
    return axes[0], axes[1], _geometry.list_srids(wkb)


def _leave_out(instants: Instants, broken: NDArray[np.bool_], texts: pa.Array) -> Instants:
    """Put one fix without a place in the stead of each text that is broken."""
    keep, lost = pa.array(~broken[instants.row]), np.flatnonzero(broken)
    order = np.argsort(np.concatenate([instants.row[~broken[instants.row]], lost]), kind="stable")
    nowhere = pa.nulls(len(lost), pa.float64())

    def merge(old: pa.Array, new: pa.Array) -> pa.Array:
        return pa.concat_arrays([old.filter(keep), new]).take(pa.array(order))

    return Instants(
        np.concatenate([instants.row[~broken[instants.row]], lost])[order],
        merge(instants.t, pa.array(np.zeros(len(lost)))),
        merge(instants.x, nowhere),
        merge(instants.y, nowhere),
        merge(instants.text, texts.take(pa.array(lost))),
        instants.srids,
    )

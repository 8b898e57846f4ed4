"""What the attack on bundles looks at beside the rows: requests, published and sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source
from dbanon.attacks.shared.replay import join_ranges
from dbanon.base.trajectory import Float, Int, Requests


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestEvidence(Evidence):
    """What a run of requests leaves: beside the rows, the requests in them and those of the dataset.

    Attributes
    ----------
    published_request_record, published_request_seq : int[q]
        The row of ``cloak`` whose ``extra`` holds the request; the elements of one row in the order they are stored in.
    published_request_content : int64[q]
        Code of the content. Codes are shared with `request_content` and number the distinct contents of both in the
        order of their text (``jsonb::text``, by code point), so that sorted contents have ascending codes.
    request_subject : int64[r]
        The sender in the codes of `trajectories`; -1 where it has no trajectory.
    request_t : float64[r]
        Unix seconds.
    request_content : int64[r]
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "published_request": ("record", "seq", "content"),
        "request": ("subject", "t", "content"),
    }

    published_request_record: Int
    published_request_seq: NDArray[np.integer]
    published_request_content: Int
    request_subject: Int
    request_t: Float
    request_content: Int


def read(evidence: Evidence, source: Source) -> RequestEvidence:
    """Read the requests a run would publish beside those its dataset holds."""
    requests: Requests = source.read_inputs("requests")["requests"]
    of_region, lists = source.read_lists("requests")
    code, request_code = _number(requests.contents, lists)
    length, of_row = np.array([*map(len, lists), 0]), of_region[evidence.region]  # the last where there is none
    number = length[of_row]
    content = code[join_ranges((np.cumsum(length) - length)[of_row], number)]
    return evidence.extend(
        RequestEvidence,
        published_request_record=np.repeat(evidence.cloak_record, number),
        published_request_seq=np.repeat(evidence.cloak_seq, number),
        published_request_content=content,
        request_subject=requests.subject,
        request_t=requests.t,
        request_content=request_code[requests.content],
    )


def _number(contents: Sequence[str], lists: Sequence[Sequence[str]]) -> tuple[Int, Int]:
    """Number the distinct texts of both by code point: the code of each element of the lists, and of each content."""
    elements = [one for some in lists for one in some]
    known = dict(zip(contents, range(len(contents)), strict=True))
    if all(one in known for one in elements):
        return np.array([known[one] for one in elements], np.int64), np.arange(len(contents))
    code = {one: i for i, one in enumerate(sorted({*contents, *elements}))}
    return np.array([code[one] for one in elements], np.int64), np.array([code[one] for one in contents], np.int64)

"""What the attack on bundles looks at beside the rows: requests, published and sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.attacks import Evidence, Source
from dbanon.base.trajectory import Float, Int


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
    table = dict(source.table("request_evidence", "published"))
    shown = table.pop("published").astype(bool)
    # Each column of millions of requests goes when it is cut.
    columns = {name: table.pop(name)[~shown] for name in ("subject", "t")}
    content = table.pop("content")
    columns["content"], content = content[~shown], content[shown]
    request, row = evidence.showing(evidence.regions(table.pop("region_no")[shown]))
    return evidence.extended(
        RequestEvidence,
        published_request_record=evidence.cloak_record[row],
        published_request_seq=evidence.cloak_seq[row],
        published_request_content=content[request],
        **{f"request_{name}": column for name, column in columns.items()},
    )

"""What all blocks of a page about a release are made of."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from dbanon.base.described import Described
from dbanon.base.figures import Evaluation
from dbanon.pages.shown import Shown, Truth


class Blocks:
    """Blocks of pages about one release or run; `truth` and `evaluation` are for private pages alone."""

    def __init__(
        self,
        record: Described,
        shown: Shown,
        zone: ZoneInfo,
        *,
        truth: Truth | None,
        evaluation: Evaluation | None,
        unmeasured: str = "",
        chosen: Sequence[str] = (),
    ) -> None:
        self.record, self.shown, self.zone = record, shown, zone
        self.truth, self.evaluation, self.unmeasured, self.chosen = truth, evaluation, unmeasured, chosen


def localise(time: datetime | None, zone: ZoneInfo) -> datetime | None:
    """Bring a time into a zone; None stays None."""
    return None if time is None else time.astimezone(zone)

"""A plain adversary against kte-hide: every stretch of tau at every slot, every subject, every record, in loops.

It knows a subject's samples in the stretch and which of them are published, and counts whose records fit.
"""

from tests.unit.kte_evidence import GRID_S, Release


def find_broken_by_oracle(release: Release, *, beyond: bool = False) -> set[str]:
    """Give `hidden` and `silence` where fewer than k subjects' records fit a stretch with or without samples.

    Stretches begin before the data and end after them; within the epochs of the data where these are no more than a
    window has, unless `beyond` these as well.
    """
    rows = {release.subject(record): release.of(record) for record in release.records()}
    published = {
        subject: [s for s in own if any(row.holds(s) for row in rows[subject])]
        for subject, own in release.samples().items()
        if subject in rows
    }
    slots = [s[0] for own in release.samples().values() for s in own]
    tau, leak = (release.params[name] // GRID_S for name in ("tau_s", "leak_s"))
    low, high = min(slots) // leak * leak, (max(slots) // leak + 1) * leak
    beyond = beyond or high - low > tau + leak
    begins = range(low - tau, high + 1) if beyond else range(low, low + leak + 1)
    guilty = set()
    for begin in begins:
        stretch = range(begin, begin + tau)
        for subject, own in published.items():
            known = [s for s in own if s[0] in stretch]
            number = len(
                {other for other, theirs in rows.items() if other == subject or is_fitting(known, theirs, stretch)}
            )
            if number < release.params["k"]:
                guilty.add("hidden" if known else "silence")
    return guilty


def is_fitting(known, rows, stretch):
    """Whether each sample lies in a row, and each row wholly in the stretch holds one."""
    whole = [row for row in rows if row.first in stretch and row.last in stretch]
    return all(any(row.holds(s) for row in rows) for s in known) and all(
        any(row.holds(s) for s in known) for row in whole
    )

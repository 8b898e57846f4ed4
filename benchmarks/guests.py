"""What guests bring `tp-aware`, and how many of its regions are slivers, on a day of taxis.

Run with ``./dev bench benchmarks/guests.py``; in memory, from the taxis beside the repository: 2008-06-04 in San
Francisco, half hours. A pick-up is a request of its cab. A sliver is a region ten times as long as wide, or longer.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import senders
from dbanon.base.cloaks import Cloaks

KS = 2, 5, 20


def describe(cloaks: Cloaks) -> list[float]:
    """Give shares published of half hours and of requests, mean area, median longer side, and the share of slivers."""
    wide, high = (cloaks.bounds[:, 2:] - cloaks.bounds[:, :2]).T
    short, long = np.minimum(wide, high), np.maximum(wide, high)
    figures = cloaks.metrics
    return [
        100 * figures["published_share"],
        100 * figures["requests_published"] / figures["requests_total"],
        float((wide * high).mean()) / 1e6,
        float(np.median(long)),
        100 * float((long > 10 * short).mean()),
    ]


def main() -> None:
    if not senders.CABS.is_file():
        print("The taxi data do not lie beside the repository; there is nothing to measure.")
        return
    senders.BEGIN_S, senders.END_S = 1212562800, 1212562800 + 24 * 3600
    data, code = senders.read_taxis()
    requests = senders.read_sent(code)
    print(f"{len(data.t):,} fixes of {len(code)} cabs, {len(requests.t):,} requests")
    print(f"{'k':>2} {'guests':<6} {'half hours %':>12} {'requests %':>10} {'km²':>7} {'side m':>7} {'slivers %':>9}")
    for k in KS:
        for guests in (False, True):
            given: dict[str, Any] = {"guests": guests} if hasattr(senders.FAMILY.parse({}), "guests") else {}
            share, sent, area, side, slivers = describe(senders.run(data, requests, k=k, **given))
            print(f"{k:>2} {guests!s:<6} {share:>12.1f} {sent:>10.1f} {area:>7.2f} {side:>7,.0f} {slivers:>9.1f}")


if __name__ == "__main__":
    main()

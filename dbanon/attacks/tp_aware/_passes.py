"""Compiled passes over positions and requests: whether cloaks hold their members, and which rows members sent to."""

# ruff: noqa: PLR0917 - Numba kernels take arrays by position

from typing import Any

import numpy as np

from dbanon.base.kernels import compile_kernel


@compile_kernel
def count_unmasked(
    pair: Any, record: Any, there: Any, x: Any, y: Any, sound: Any, begin: Any, covering: Any, held: Any, cell_m: Any
) -> int:
    """Count positions whose cell is not held by the row that covers the instant.

    Parameters
    ----------
    pair, record : int64[m]
        Members: whose positions, and in which record; those of records that are not sound are left out.
    there, x, y : bool, float64[p, length]
        Positions at the instants of each pair's window.
    sound, begin, covering
        Of `_stored.Records`.
    held : float64[c, 4]
        First and behind-last cell of each sorted row.
    """
    count = 0
    for m in range(len(pair)):
        p, r = pair[m], record[m]
        if not sound[r]:
            continue
        for place in range(there.shape[1]):
            # Beyond the last instant of a shorter window some other row comes, and no position is there.
            if there[p, place]:
                row = covering[begin[r] + place]
                east, north = np.floor(x[p, place] / cell_m), np.floor(y[p, place] / cell_m)
                # The whole cell lies in the cloak; NaN compares false and is not held.
                inside = held[row, 0] <= east and east + 1 <= held[row, 2]
                count += not (inside and held[row, 1] <= north and north + 1 <= held[row, 3])
    return count


@compile_kernel
def find_addressed_rows(
    subject: Any, window: Any, place: Any, first: Any, member_window: Any, member_record: Any, sound: Any, begin: Any,
    covering: Any, row: Any,
) -> Any:  # fmt: skip
    """Find the rows that requests belong in: of each pair the index of the request, the record, and the row's place.

    Parameters
    ----------
    subject, window, place : int64[n]
        Of each request: its sender, or -1, and the instant it was sent at, or a window of -1.
    first : int64[codes + 1]
        Members by (subject, window): those of subject i are ``[first[i], first[i + 1])``.
    member_window, member_record : int64[p]
    sound, begin, covering
        Of `_stored.Records`.
    row : int64[n]
        First sorted row of each record.
    """
    # Twice: the pairs are counted, then written.
    result = np.empty((3, 0), np.int64)
    for writing in range(2):
        pairs = 0
        for r in range(len(subject)):
            if subject[r] < 0 or window[r] < 0 or subject[r] + 1 >= len(first):
                continue
            # The member's first entry of the window or of a later one lies in [low, high].
            low, end = first[subject[r]], first[subject[r] + 1]
            high = end
            while low < high:
                half = (low + high) // 2
                if member_window[half] < window[r]:
                    low = half + 1
                else:
                    high = half
            while low < end and member_window[low] == window[r]:
                n = member_record[low]
                if writing:
                    # Of records whose rows do not follow one another it is the row of that number.
                    due = covering[begin[n] + place[r]] - row[n] if sound[n] else place[r]
                    result[0, pairs], result[1, pairs], result[2, pairs] = r, n, due
                pairs += 1
                low += 1
        if not writing:
            result = np.empty((3, pairs), np.int64)
    return result

"""Compiled passes over positions and requests: whether cloaks hold their members, and which rows members sent to."""

from typing import NamedTuple

import numpy as np

from dbanon.attacks.shared.replay import Sighting
from dbanon.attacks.tp_aware._stored import Members, Records
from dbanon.base.kernels import compile_kernel
from dbanon.base.trajectory import Float, Int


class Sent(NamedTuple):
    """Requests."""

    subject: Int  # [n]: the sender; -1 where it has no trajectory
    window: Int  # [n]: -1 where it was sent at no instant
    place: Int  # [n]: the instant within the window


@compile_kernel
def count_unmasked(pair: Int, record: Int, sighting: Sighting, records: Records, held: Float, cell_m: float) -> int:
    """Count positions whose cell is not held by the row that covers the instant.

    Parameters
    ----------
    pair, record : int64[m]
        Members: whose positions, and in which record; those of records that are not sound are left out.
    held : float64[c, 4]
        First and behind-last cell of each sorted row.
    """
    there, x, y = sighting.there, sighting.x, sighting.y
    sound, begin, covering = records.sound, records.begin, records.covering
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
def find_addressed_rows(sent: Sent, members: Members, first: Int, windows: int, records: Records) -> Int:
    """Find the rows that requests belong in: of each pair the index of the request, the record, and the row's place.

    A guest's request belongs in none if it was sent at an instant at which the guest is not present; its place is -1.

    Parameters
    ----------
    first : int64[codes + 1]
        The members that are subject i are ``[first[i], first[i + 1])``.
    windows : int
        How many there are.
    """
    subject, window, place = sent
    key, record, guest, said = members.key, members.record, members.guest, members.said
    row, sound, covering, begin = records.first, records.sound, records.covering, records.begin
    # Twice: the pairs are counted, then written.
    result = np.empty((3, 0), np.int64)
    for writing in range(2):
        pairs = 0
        for r in range(len(subject)):
            if subject[r] < 0 or window[r] < 0 or subject[r] + 1 >= len(first):
                continue
            # The member's first entry of the window or of a later one lies in [low, high].
            sought = subject[r] * windows + window[r]
            low, end = first[subject[r]], first[subject[r] + 1]
            high = end
            while low < high:
                half = (low + high) // 2
                if key[half] < sought:
                    low = half + 1
                else:
                    high = half
            while low < end and key[low] == sought:
                n = record[low]
                if writing:
                    # Of records whose rows do not follow one another it is the row of that number.
                    due = covering[begin[n] + place[r]] - row[n] if sound[n] else place[r]
                    if guest[low] >= 0 and not said[guest[low], place[r]]:
                        due = np.int64(-1)
                    result[0, pairs], result[1, pairs], result[2, pairs] = r, n, due
                pairs += 1
                low += 1
        if not writing:
            result = np.empty((3, pairs), np.int64)
    return result

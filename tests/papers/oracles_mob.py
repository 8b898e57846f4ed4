"""A plain statement of GenAG's threshold, for `mob`: lists of cells or None, sets of instants, no arrays."""

from tests.unit.oracles_mob_gen_ag import compute_deviation, is_present_both_ways


class Walk:
    """The lists of a subject, and in each the stretch around it that has been seen without a gap."""

    def __init__(self, data, subject):
        self.place, self.own, self.rank = data
        self.subject, self.instants, self.seen = subject, sorted(self.own[subject]), {subject}
        there = {t: [i for i in range(len(self.place)) if self.place[i][t] is not None] for t in self.instants}
        self.lists = {t: sorted(there[t], key=lambda i, t=t: (self.place[i][t], self.rank[i])) for t in self.instants}
        self.best = {t: [self.lists[t].index(subject)] * 2 for t in self.instants}  # above, below
        self.last = dict.fromkeys(self.instants, 0)  # which of the two was seen last

    def away(self, t, position):
        """The local score; infinite past the ends of a list."""
        if not 0 <= position < len(self.lists[t]):
            return float("inf")
        return abs(self.place[self.lists[t][position]][t] - self.place[self.subject][t])

    def next(self, t):
        """The nearer of the next unseen above and below; None where there is neither."""
        position = min(self.best[t][0] - 1, self.best[t][1] + 1, key=lambda at: self.away(t, at))
        return None if self.away(t, position) == float("inf") else position

    def see(self, other):
        """In all lists: by sorted access to one, and random access to the others."""
        self.seen.add(other)
        for t in self.instants:
            for end, step in ((0, -1), (1, 1)):
                beyond = self.best[t][end] + step
                while 0 <= beyond < len(self.lists[t]) and self.lists[t][beyond] in self.seen:
                    self.best[t][end], self.last[t], beyond = beyond, end, beyond + step


def find_by_threshold(data, subject, number, *, printed):
    """Algorithm 1: with the threshold as printed, or with that of the nearer of the next unseen.

    As printed, a list's worst local score is that at the end which was seen last, and the search stops where the
    furthest taken is at most as far as the sum of these.
    """
    walk, found = Walk(data, subject), []
    while True:
        for t in walk.instants:
            position = walk.next(t)
            if position is None:  # whom presence allows is in every list, and was seen
                return [other for _, _, other in sorted(found)[:number]]
            other = walk.lists[t][position]
            walk.see(other)
            if is_present_both_ways(walk.place, walk.own, subject, other):
                found.append((compute_deviation(walk.place, walk.own, subject, other), walk.rank[other], other))
        best = sorted(found)[:number]
        if printed:
            threshold = sum(walk.away(t, walk.best[t][walk.last[t]]) for t in walk.instants)
            enough = len(best) == number and best[-1][0] <= threshold
        else:
            nearer = [walk.next(t) for t in walk.instants]
            threshold = sum(
                float("inf") if at is None else walk.away(t, at) for t, at in zip(walk.instants, nearer, strict=True)
            )
            enough = len(best) == number and best[-1][0] < threshold
        if enough:
            return [other for _, _, other in best]

"""Plain Python statements of the paper: slow, small, and sharing nothing with `dbanon.methods`.

Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity, INFOCOM 2017. An input is a list of samples (slot, x, y);
a partition is a list of lists of (input, slot, x, y), in order of time.
"""

from itertools import combinations, pairwise


def compute_span(values):
    """Equation (6)."""
    values = list(values)
    return max(values) - min(values) + 1


def compute_cost(part):
    """Equations (1), (4) and (5): of one generalised sample."""
    _, t, x, y = zip(*part, strict=True)
    return compute_span(t) * (compute_span(x) + compute_span(y))


def iter_partitions(inputs):
    """All time-coherent partitions of the samples whose parts hold a sample of every input: conditions i) and ii)."""
    every = sorted((t, number, x, y) for number, samples in enumerate(inputs) for t, x, y in samples)
    slots = sorted({t for t, *_ in every})
    for cuts in range(len(slots)):
        for chosen in combinations(slots[1:], cuts):
            edges = [slots[0], *chosen, slots[-1] + 1]
            parts = [
                [(number, t, x, y) for t, number, x, y in every if low <= t < high] for low, high in pairwise(edges)
            ]
            if all(len({number for number, *_ in part}) == len(inputs) for part in parts):
                yield parts


def find_least_cost(inputs):
    """The cost of condition iii) by trying everything."""
    return min(sum(compute_cost(part) for part in parts) for parts in iter_partitions(inputs))


def merge_as_printed(inputs):
    """Algorithm 1 as printed but for samples of one slot, which it would part: (cost, list of (first, last, box))."""
    every = sorted((t, number, x, y) for number, samples in enumerate(inputs) for t, x, y in samples)
    slots = sorted({t for t, *_ in every})
    at = [[(number, t, x, y) for t, number, x, y in every if t == slot] for slot in slots]
    best, partition = [0] + [float("inf")] * len(slots), [None] * (len(slots) + 1)

    def complete(low, high):
        return len({number for row in at[low:high] for number, *_ in row}) == len(inputs)

    def elementary(low, high):
        return not any(complete(low, cut) and complete(cut, high) for cut in range(low + 1, high))

    for end in range(1, len(slots) + 1):
        start = end - 1
        while start >= 0 and not complete(start, end):  # line 8
            start -= 1
        while start >= 0 and elementary(start, end):  # line 10
            part = [sample for row in at[start:end] for sample in row]
            if best[start] + compute_cost(part) < best[end]:
                best[end], partition[end] = best[start] + compute_cost(part), (start, part)
            start -= 1
    rows, end = [], len(slots)
    while end:
        end, part = partition[end]
        _, t, x, y = zip(*part, strict=True)
        rows.insert(0, (min(t), max(t), min(x), min(y), max(x), max(y)))
    return best[-1], rows


def find_least_cost_of_many(inputs):
    """The cost of condition iii) by Proposition 2 alone: every complete last part, elementary or not; any length."""
    rows = {}
    for number, samples in enumerate(inputs):
        for t, x, y in samples:
            rows.setdefault(t, []).append((number, t, x, y))
    rows = [rows[t] for t in sorted(rows)]
    best = [0] + [float("inf")] * len(rows)
    for end in range(1, len(rows) + 1):
        seen, x0, y0, x1, y1 = set(), float("inf"), float("inf"), -float("inf"), -float("inf")
        for start in range(end - 1, -1, -1):
            for number, _, x, y in rows[start]:
                seen.add(number)
                x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
            if len(seen) == len(inputs):
                spans = x1 - x0 + y1 - y0 + 2
                best[end] = min(best[end], best[start] + (rows[end - 1][0][1] - rows[start][0][1] + 1) * spans)
    return best[-1]

"""Random subjects and sites for the tests of the algorithms of `sensitive-sites`."""

from tests.unit import oracles_sensitive_sites as oracle

ORDER = 6
"""Of the curve; the cells of every instance are on it."""


def sort_along_curve(boxes):
    """Sort boxes by the place of their middle on the curve, then as they are."""
    return sorted(boxes, key=lambda b: (oracle.locate_on_curve((b[0] + b[2]) // 2, (b[1] + b[3]) // 2, ORDER), b))


def draw_instance(rng, *, subjects, sites, k=None, shapes=False):
    """Subjects and sites in the order of the curve, and k; at least k subjects a site.

    `subjects` and `sites` are least and greatest numbers. Many share a row, a column or a cell, which makes ties.
    """
    n = max(rng.randint(*subjects), rng.randint(*subjects))
    m = rng.randint(sites[0], max(sites[0], min(sites[1], n // (k or 1))))
    k = k or rng.randint(1, min(5, n // m))
    side, high = rng.choice([(1, 1), (2, 2), (5, 5), (30, 1), (16, 16), (60, 60)])
    longest = rng.choice([1, 3]) if shapes else 0

    def box():
        x, y = rng.randrange(side), rng.randrange(high)
        return (x, y, x + rng.randint(0, longest), y + rng.randint(0, longest))

    return sort_along_curve(box() for _ in range(n)), sort_along_curve(box() for _ in range(m)), k

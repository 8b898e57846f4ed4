"""Plain Python statements of KNN and Local: slow, small, and sharing nothing with `benchmarks.papers`.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
2008, sections 2.3 and 5. Subjects and sites are written as in `tests.unit.oracles_sensitive_sites`.
"""

from fractions import Fraction
from itertools import product

from tests.unit.oracles_sensitive_sites import measure_area


def compute_squared_distance(a, b):
    """Squared distance between the cell indices of two rectangles."""
    dx = max(a[0] - b[2], b[0] - a[2], 0)
    dy = max(a[1] - b[3], b[1] - a[3], 0)
    return dx * dx + dy * dy


def assign_by_knn(subjects, sites, k, order):
    """Section 5's KNN: sites in order take the k nearest subjects left; the site of each subject, -1 for none."""
    site_of = [-1] * len(subjects)
    for s in order:
        left = [u for u in range(len(subjects)) if site_of[u] < 0]
        for u in sorted(left, key=lambda u, s=s: (compute_squared_distance(subjects[u], sites[s]), u))[:k]:
            site_of[u] = s
    return site_of


def cover_by_local(subjects, sites, k):
    """Section 2.3's Local: (site, subject) pairs in order, and (subject, box) as they are output."""
    count = dict.fromkeys(range(len(sites)), 0)  # the coverage counters of the sites that remain
    omega = {u: find_candidate_box(subjects[u], sites, count) for u in range(len(subjects))}
    pairs, output = [], []
    while count and omega:
        u0 = min(omega, key=lambda u: (omega[u][0], u))
        box = omega.pop(u0)[2]
        output.append((u0, box))
        covered = [s for s in count if is_enclosing(box, sites[s])]
        for s in covered:
            pairs.append((s, u0))
            count[s] += 1
        full = [s for s in covered if count[s] == k]
        for s in full:
            del count[s]
        for u in omega if count else ():
            if any(is_enclosing(omega[u][2], sites[s]) for s in full):
                omega[u] = find_candidate_box(subjects[u], sites, count)
    return sorted(pairs), output


def find_candidate_box(subject, sites, remaining):
    """Four nested sweeps: (coverage, area, box) of the least coverage; then the smaller area, then the lowest box."""
    west = {subject[0], *(sites[s][0] for s in remaining if sites[s][0] < subject[0])}
    south = {subject[1], *(sites[s][1] for s in remaining if sites[s][1] < subject[1])}
    east = {subject[2], *(sites[s][2] for s in remaining if sites[s][2] > subject[2])}
    north = {subject[3], *(sites[s][3] for s in remaining if sites[s][3] > subject[3])}
    found = []
    for box in product(west, south, east, north):
        number = sum(is_enclosing(box, sites[s]) for s in remaining)
        if number:
            found.append((Fraction(measure_area([box]), number), measure_area([box]), box))
    return min(found)


def is_enclosing(box, other):
    return box[0] <= other[0] and box[1] <= other[1] and box[2] >= other[2] and box[3] >= other[3]

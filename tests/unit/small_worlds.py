"""What a reader concludes who knows everything but the order of the run: every small world, weighed exactly.

All placements of a few people are equally likely beforehand, and so are all orders of the run. The reader knows the
algorithm, what the family's adversary knows of the people, and what is published, and compares all worlds that look the
same.
"""

import itertools
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np

from dbanon.base.trajectory import Trajectories


def list_placements(people, places):
    """List all worlds of some people: of each the place at each instant, of ``places[t]`` places at instant t."""
    at = [itertools.product(range(number), repeat=people) for number in places]
    return [tuple(zip(*instants, strict=True)) for instants in itertools.product(*at)]


def make_trajectories(tracks, step_s=60):
    """Make trajectories of people on a line of cells of a metre, a fix each at each instant."""
    n, instants = len(tracks), len(tracks[0])
    return Trajectories(
        trajectory_id=np.arange(n), subject=np.arange(n), offset=np.arange(n + 1) * instants,
        t=np.tile(np.arange(instants) * float(step_s), n), x=np.array(tracks, np.float64).ravel(),
        y=np.zeros(n * instants), srid=32610, grid_m=1.0, grid_s=60,
    )  # fmt: skip


def list_records(cloaks, people):
    """Give the record of each person: (start, end, from, to, crowd) of each row. None for those left out."""
    rows = defaultdict(list)
    columns = cloaks.record_id, cloaks.start, cloaks.end, cloaks.bounds[:, 0], cloaks.bounds[:, 2], cloaks.crowd
    for record, *row in zip(*(column.tolist() for column in columns), strict=True):
        rows[record].append(tuple(row))
    whose = {}
    for record, person in zip(cloaks.member_record.tolist(), cloaks.member_trajectory.tolist(), strict=True):
        whose.setdefault(person, tuple(rows[record]))
    return tuple(whose.get(person) for person in range(people))


def publish_in_every_order(publish, people):
    """Give what is published of each of `people`, once for each order of the run.

    `publish` takes people in the run's order: nothing but this order and what is given of them distinguishes people.
    """
    for order in itertools.permutations(range(len(people))):
        told = publish(tuple(people[i] for i in order))
        yield tuple(told[order.index(i)] for i in range(len(people)))


def describe_world(known, told):
    """Describe a world to a reader who asks which record is whose; `told` has the record of each person.

    Returns what the reader sees, and how likely each pair of a record and a person is to one who knows the world:
    records with the same content cannot be told apart.
    """
    number = Counter(told)
    whose = {(record, person): Fraction(1, number[record]) for person, record in enumerate(told) if record is not None}
    return (known, frozenset(number.items())), whose


def compute_posteriors(worlds):
    """Give how likely each conclusion is to who sees what, {seen: {conclusion: Fraction}}, and how often that is seen.

    `worlds` are equally likely: what is seen in each, and how likely each conclusion is to one who knows the world.
    """
    often, likely = Counter(), defaultdict(Counter)
    for seen, conclusions in worlds:
        often[seen] += 1
        likely[seen].update(conclusions)
    return {seen: {what: share / often[seen] for what, share in likely[seen].items()} for seen in often}, often


def find_greatest(worlds, promised=Fraction(1, 2)):
    """Give the greatest posterior, and in which share of all worlds there is one above the promised."""
    found, often = compute_posteriors(worlds)
    most = {seen: max(conclusions.values(), default=0) for seen, conclusions in found.items()}
    return max(most.values()), Fraction(sum(often[seen] for seen in most if most[seen] > promised), often.total())

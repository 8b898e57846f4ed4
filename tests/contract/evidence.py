"""Small worlds for every family, and the one place that turns cloaks and inputs into what an attack reads."""

import dataclasses
import json
import random

import numpy as np

from dbanon.attacks import Evidence, import_attacker, overlapping_records
from dbanon.base.trajectory import Cells, QuasiIdentifiers, Requests, Sites, Trajectories

CONTENTS = ('{"poi": "bank"}', '{"poi": "rest"}', '{"q": "x"}')
GRID_M = 5.0


def make_people(n, *, seed=5, instants=8, step_s=60, side=400.0):
    """Walk n subjects; every fifth has its path in two trajectories, so rows, trajectories and people differ."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, side, (n, 1, 2)) + rng.normal(0, 10, (n, instants, 2)).cumsum(axis=1)
    parts = [(i, p) for i in range(n) for p in (np.array_split(np.arange(instants), 2 if i % 5 == 0 else 1))]
    return Trajectories(
        trajectory_id=np.arange(len(parts)) * 2 + 1, subject=np.array([i for i, _ in parts], np.int64),
        offset=np.cumsum([0, *(len(p) for _, p in parts)]),
        t=np.concatenate([p * float(step_s) for _, p in parts] or [np.empty(0)]),
        x=np.concatenate([xy[i, p, 0] for i, p in parts] or [np.empty(0)]),
        y=np.concatenate([xy[i, p, 1] for i, p in parts] or [np.empty(0)]),
        srid=32610, grid_m=GRID_M, grid_s=1,
    )  # fmt: skip


def make_sites(data):
    """Put sites where some of the people are: one for few of them, five for many."""
    at = np.arange(min(5, max(1, data.subjects // 8))) * 7 if data.fixes else np.empty(0, np.int64)
    return Sites(
        site_id=at * 3 + 1, site_bounds=np.column_stack([data.x[at], data.y[at]] * 2),
        shape_trajectory=np.empty(0, np.int64), shape_bounds=np.empty((0, 4)),
    )  # fmt: skip


def make_requests(data):
    """Let people, and somebody without a trajectory, ask now and then."""
    rng, count = random.Random(1), 3 * data.subjects
    return Requests(
        subject=np.array([rng.randint(-1, data.subjects - 1) for _ in range(count)], np.int64),
        t=np.array([rng.uniform(-60, 600) for _ in range(count)]),
        content=np.array([rng.randrange(3) for _ in range(count)], np.int64),
        contents=CONTENTS,
    )


def make_quasi_identifiers(data):
    """Give every other subject the time of one fix of its first trajectory, another for the next."""
    _, first = np.unique(data.subject, return_index=True)
    which = data.offset[first] + np.arange(len(first)) // 2 % np.diff(data.offset)[first]
    return QuasiIdentifiers(subject=data.subject[first][::2], t=data.t[which][::2])


def make_cells(data):
    """Lay squares of 100 m over everybody, two or more each way, with a point of interest in each."""
    edge = 100.0
    column, row = (np.floor((c - c.min(initial=np.inf)) / edge).astype(np.int64) for c in (data.x, data.y))
    wide, high = (max(2, along.max(initial=0) + 1) for along in (column, row))
    index = np.arange(wide * high).reshape(high, wide)
    pairs = [*zip(index[:, :-1].ravel(), index[:, 1:].ravel(), strict=True)]
    pairs += [*zip(index[:-1].ravel(), index[1:].ravel(), strict=True)]
    return Cells(
        cell_id=index.ravel() + 1, area_m2=np.full(index.size, edge**2), categories=("bank", "shop"),
        pois=np.stack([index.ravel() % 2, 1 - index.ravel() % 2], axis=1),
        neighbours=np.array(sorted(pairs), np.int64).reshape(-1, 2), fix_cell=row * wide + column,
        bounds=edge * np.stack([index.ravel() % wide + corner % 2 if along == 0 else index.ravel() // wide + corner // 2
                                for corner in (0, 3) for along in (0, 1)], axis=1),
    )  # fmt: skip


INPUTS = {
    "requests": make_requests,
    "sites": make_sites,
    "quasi_identifiers": make_quasi_identifiers,
    "cells": make_cells,
}


def make_inputs(names, data):
    """Make the inputs that a family names."""
    return {name: INPUTS[name](data) for name in names}


def run(family, algorithm, data, seed=3, **changed):
    """Compute and join what the family's example asks for."""
    params = family.parse({**family.example, **changed}, algorithm)
    cloaks = family.anonymise(data, algorithm, params, np.random.default_rng(seed), **make_inputs(family.reads, data))
    return family.attach(cloaks, data, params, **make_inputs(family.joins, data)) if family.joins else cloaks


def attack_cloaks(family, algorithm, params, data, cloaks, *, given=None):
    """Attack cloaks as if they were stored; `given` are inputs by name, by default those `run` takes."""
    given = make_inputs((*family.reads, *family.joins), data) if given is None else given
    rows, attack = store_cloaks(family, algorithm, params, data, cloaks), import_attacker(family.attack)
    return attack.attack(attack.read(rows, Stored(rows, cloaks, given)))


def verify_cloaks(family, algorithm, params, data, cloaks, *, given=None):
    """Judge cloaks as a verification does: by the attack, then by the clauses of core."""
    verdict = attack_cloaks(family, algorithm, params, data, cloaks, given=given)
    return overlapping_records.add_clauses(
        verdict, store_cloaks(family, algorithm, params, data, cloaks), counts_days=family.has_days,
        has_guests=family.has_guests,
    )  # fmt: skip


def store_cloaks(family, algorithm, params, data, cloaks):
    """Say of cloaks what the database says of them when they are stored."""
    regions, count, nothing = cloaks.regions, len(cloaks.regions), np.empty(0)
    hidden = cloaks.hiding
    begins = [
        (cloaks.member_start, len(cloaks.member_record)),
        (hidden and hidden.start, len(hidden.record) if hidden else 0),
    ]
    ends = [(cloaks.member_end, begins[0][1]), (hidden and hidden.end, begins[1][1])]
    (member_start, hiding_start), (member_end, hiding_end) = (
        [np.full(n, np.nan) if at is None else at.astype(float) for at, n in side] for side in (begins, ends)
    )
    for start, end in ((member_start, member_end), (hiding_start, hiding_end)):
        start[start == end] = end[start == end] = np.nan
    return Evidence(
        method=family.name, algorithm=algorithm, params=json.loads(json.dumps(convert_to_json(params))),
        suppressed=json.loads(json.dumps(cloaks.suppressed)), trajectories=data,
        record_id=np.arange(1, len(cloaks.offset)), offset=cloaks.offset,
        region=cloaks.region, period=cloaks.period, place=None,
        region_no=np.arange(1, count + 1), region_rectangle=np.full(count, regions.bounds is not None),
        region_bounds=np.zeros((count, 4)) if regions.bounds is None else regions.bounds,
        region_srid=np.full(count, data.srid), region_crowd=regions.crowd, region_subjects=regions.subjects,
        region_other_keys=np.zeros(count, np.int64),
        period_start_s=cloaks.periods[:, 0].astype(float), period_end_s=cloaks.periods[:, 1].astype(float),
        member_record=cloaks.member_record, member_trajectory=cloaks.member_trajectory,
        member_start_s=member_start, member_end_s=member_end,
        hiding_record=hidden.record if hidden else nothing.astype(np.int64),
        hiding_start_s=hiding_start, hiding_end_s=hiding_end,
        hiding_offset=hidden.offset if hidden else np.zeros(1, np.int64),
        hiding_other=hidden.other if hidden else nothing.astype(np.int64),
    )  # fmt: skip


def convert_to_json(params):
    """Parameters as they are stored: infinity is a text."""
    return {name: "inf" if value == np.inf else value for name, value in dataclasses.asdict(params).items()}


class Stored:
    """What a database that holds cloaks answers an attack: `dbanon.attacks.Source`."""

    def __init__(self, rows, cloaks, given):
        self.rows, self.cloaks, self.given = rows, cloaks, given

    def read_inputs(self, *names):
        return {name: self.given[name] for name in names}

    def read_table(self, function, *_):
        return getattr(self, function)()

    read_table_in_parts = read_table

    def read_batches(self, function):
        yield getattr(self, function)()

    def extra(self, key):
        """Give the value of a key of ``extra`` by region; None where there is none."""
        regions = self.cloaks.regions
        extra = regions.extra if regions.extra is not None else np.full(len(regions), -1)
        return [json.loads(regions.extras[e]).get(key) if e >= 0 else None for e in extra.tolist()]

    def gather_cloaked_evidence(self):
        said = [(number, value is True) for number, value in enumerate(self.extra("cloaked"), 1) if value is not None]
        number, cloaked = np.array(said, np.int64).reshape(-1, 2).T
        return {"region_no": number, "cloaked": cloaked.astype(np.int8)}

    def gather_polygon_evidence(self):
        regions, cells = self.cloaks.regions, self.given["cells"]
        area = cells.area_m2[np.searchsorted(cells.cell_id, regions.cell)]
        number = len(regions)
        return {
            "region_no": np.arange(1, number + 1), "several": np.ones(number, bool), "valid": np.ones(number, bool),
            "area_m2": np.add.reduceat(area, regions.cell_offset[:-1]), "parts": np.ones(number, np.int32),
            "holes": np.zeros(number, np.int32), "least_m2": np.full(number, 1e4),
            "categories": np.array(self.extra("categories"), np.int32),
        }  # fmt: skip

    def gather_cell_evidence(self):
        return {"cell_id": self.given["cells"].cell_id, "outline": np.empty(0, object)}

    def gather_outline_evidence(self):
        """Give none: what lies in the regions is said by `gather_held_evidence`."""
        return {"region_no": np.empty(0, np.int32), "outline": np.empty(0, object), "cells": np.empty(0, object)}

    def gather_held_evidence(self):
        regions = self.cloaks.regions
        region = np.repeat(np.arange(1, len(regions) + 1), np.diff(regions.cell_offset))
        return {"region_no": region, "cell_id": regions.cell, "split": np.zeros(len(region), bool)}

    def gather_atom_evidence(self):
        atoms = self.cloaks.atoms
        return (
            {"cell_id": atoms.cell, "atom": atoms.atom}
            if atoms
            else {name: np.empty(0, int) for name in ("cell_id", "atom")}
        )

    def read_lists(self, key):
        held = self.extra(key)
        lists = [[json.dumps(one) for one in value] for value in held if value is not None]
        has = np.array([value is not None for value in held], bool)
        return np.where(has, np.cumsum(has) - 1, -1), lists

"""Counts what breaks each clause of the attack, and its figures."""

from dataclasses import dataclass

import numpy as np

from dbanon.attacks.semantic._atoms import (
    CellSets,
    mark_loose,
    mark_torn,
    mark_unlike,
    measure_atoms,
    measure_sets,
    number_classes,
)
from dbanon.attacks.semantic._fixes import Fixes, count_misstated, trace_fixes
from dbanon.attacks.semantic._groups import Groups, find_groups
from dbanon.attacks.semantic._regions import Regions, is_far, mark_revealing, measure_divergence, measure_regions
from dbanon.attacks.semantic._run_statements import Rules, read_rules, read_stated
from dbanon.attacks.semantic._units import Units, find_units
from dbanon.attacks.semantic.evidence import RegionEvidence
from dbanon.attacks.shared.clauses import Counts
from dbanon.attacks.shared.keys import sort_distinct
from dbanon.attacks.shared.run_statements import LARGEST_NUMBER, demand
from dbanon.base.trajectory import Bool, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Inputs:
    """What the clauses and figures are counted from: regions, groups, and where each fix of a member went."""

    units: Units
    places: Regions
    grouped: Groups
    region: Int  # [c]: of the rows of `grouped`
    fate: Fixes
    classes: CellSets
    atoms: CellSets  # as they are stored: one of all cells where none is


def count_clauses(evidence: RegionEvidence) -> Counts:
    """Count what breaks each clause: O((fixes + rows + cells of regions) log) time."""
    rules, stated = read_rules(evidence), read_stated(evidence.suppressed)
    data = evidence.trajectories
    start, end, timely = _find_slots(evidence, rules)
    cells, stored = evidence.cells, np.unique(evidence.atom, return_inverse=True)[1].reshape(-1)
    units, places = find_units(evidence, stored, rules), measure_regions(evidence, rules)
    grouped = find_groups(evidence, units, start, end, rules)
    region = evidence.region[grouped.row].astype(np.int64)
    fate = trace_fixes(units, grouped, places, region, rules)
    classes, atoms = (measure_sets(sets, places, cells, rules) for sets in (number_classes(places), stored))
    inputs = _Inputs(
        units=units, places=places, grouped=grouped, region=region, fate=fate, classes=classes, atoms=atoms
    )
    broken = {
        "period": int((~timely).sum()),
        "region": int((~places.sound)[evidence.region].sum()),
        "columns": int((~places.told)[evidence.region].sum()),
        "members": grouped.faults,
        "crowd": grouped.miscounted,
        "size": int((grouped.crowd < rules.k).sum()),
        "covers": int((~fate.covered).sum()),
        "complete": fate.missing,
        "left-out": count_misstated(data, units, fate.state, stated),
        "truth": fate.empty,
        "diversity": int((places.categories < rules.l)[evidence.region].sum()),
        "closeness": int(is_far(places.kl, rules.t)[evidence.region].sum()),
        "classes": int(classes.weak.sum()),
        "tight": int(_mark_free(inputs, rules).sum()),
    }
    return broken, _compute_figures(evidence, inputs, rules)


def _mark_free(inputs: _Inputs, rules: Rules) -> Bool:
    """Say which rows of `Groups` have regions that do not follow from the atoms of their fixes: bool[c]."""
    atoms, classes, rows = inputs.atoms, inputs.classes, (inputs.region, inputs.places)
    # Where regions grow, what one has besides the atoms of its fixes must be the same wherever these are the same.
    free = mark_unlike(atoms, *rows, inputs.fate) if rules.grows else mark_loose(classes, *rows, inputs.fate)
    if rules.asks_atoms:
        free |= mark_torn(atoms, classes, *rows)
    return free


def _find_slots(evidence: RegionEvidence, rules: Rules) -> tuple[Int, Int, Bool]:
    """Give the slots in which each row begins and ends, and whether it may: after the row before it, in whole slots."""
    start_s, end_s, grid_s = evidence.cloak_start_s, evidence.cloak_end_s, evidence.trajectories.grid_s
    are_unix_s = bool((np.abs(start_s) <= LARGEST_NUMBER).all() and (np.abs(end_s) <= LARGEST_NUMBER).all())
    demand(are_unix_s, "Every period must be in unix seconds. Some are too large to be.")
    start, end = (np.floor(side / grid_s).astype(np.int64) for side in (start_s, end_s))
    timely = (start * grid_s == start_s) & (end * grid_s == end_s) & (start < end)
    timely &= end_s - start_s <= rules.longest_s
    if rules.since is not None:
        timely &= start >= rules.since
    if rules.until is not None:
        timely &= end <= rules.until
    follows = np.ones(len(start), bool)
    follows[1:] = start[1:] >= end[:-1]
    follows[evidence.offset[:-1]] = True
    if evidence.place is not None:
        length = np.diff(evidence.offset)
        follows &= evidence.place == np.arange(1, len(start) + 1) - np.repeat(evidence.offset[:-1], length)
    return start, end, timely & follows


def _compute_figures(evidence: RegionEvidence, inputs: _Inputs, rules: Rules) -> dict[str, int | float]:
    units, places, cells = inputs.units, inputs.places, evidence.cells
    kl = places.kl[evidence.region]
    some = kl[np.isfinite(kl)]
    quarters = np.quantile(some, [0.25, 0.5, 0.75]) if len(some) else np.zeros(3)
    of_cell = mark_revealing(
        (cells.pois > 0).sum(axis=1), measure_divergence(cells.pois, cells.pois.sum(axis=0)), rules.l, rules.t
    )
    raw = of_cell[units.fix_cell[units.fix_cell >= 0]]
    shown = mark_revealing(places.categories, places.kl, rules.l, rules.t)[evidence.region]
    return {
        "subjects": len(sort_distinct(units.subject)),
        "published": len(sort_distinct(units.subject[inputs.grouped.unit])),
        "records": len(evidence.record_id),
        "rows": evidence.rows,
        "fixes": len(units.fix_t),
        "groups": len(inputs.grouped.first),
        "regions": len(evidence.region_no),
        "smallest_crowd": int(inputs.grouped.crowd.min()),
        "least_categories": int(places.categories.min()),
        "greatest_kl": float(some.max(initial=0.0)),
        "rows_without_pois": int((~np.isfinite(kl)).sum()),
        "kl_quarter": float(quarters[0]),
        "kl_median": float(quarters[1]),
        "kl_three_quarters": float(quarters[2]),
        "raw_fixes_revealing_percent": 100 * float(raw.mean()) if len(raw) else 0.0,
        "revealing_percent": 100 * float(shown.mean()),
        **measure_atoms(inputs.atoms if rules.grows else inputs.classes, inputs.grouped, inputs.fate, cells, rules),
    }

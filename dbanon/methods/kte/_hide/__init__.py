"""kte-hide: everyone hidden in each window of tau + leak among k - 1 others, who are not the same in other windows.

Decides which samples are suppressed and whose are merged in whose record. Invariant: in every window, a subject who
publishes samples in it has k - 1 distinct others with samples in exactly the same epochs, is an other of k - 1
distinct subjects, and in every epoch its record merges its own samples with those of all its others whose windows hold
the epoch.

Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of Spatiotemporal
Trajectory Data, INFOCOM 2017, Algorithm 2. Departures: costs of candidates instead of all pairs; cycle covers instead
of Hamiltonian cycles; suppression closed over all windows and silences.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.base.progress import Progress, report_nothing
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Bool, Int, freeze
from dbanon.methods.kte import Parameters, _k_merge
from dbanon.methods.kte._hide import _clusters, _epochs
from dbanon.methods.kte._hide._draw import Drawing, Rules
from dbanon.methods.kte._hide._epochs import EpochSamples
from dbanon.methods.kte._hide._improve import improve, list_inputs, make_ragged
from dbanon.methods.kte._hide._windows import REASONS, Presence, close
from dbanon.methods.kte._samples import Merged, Samples


@dataclass(frozen=True, kw_only=True, eq=False)
class Hidden:
    """What is published of everyone, what is not, and in whose records they are hidden.

    All subjects are positions in the samples. A run is the samples of one subject in one epoch; runs are ordered by
    subject and epoch.
    """

    run_subject: Int  # [r]; run_subject, run_epoch: epochs as whole `leak_s` since 1970
    run_epoch: Int  # [r]
    run_begin: Int  # [r]; run_begin, run_end: samples of each run
    run_end: Int  # [r]
    kept: Bool  # [r]: whether they are published
    reason: NDArray[np.int8]  # [r]: index into `REASONS` of why not, or -1
    owner: Int  # [h]: whose hiding set each is; sorted by owner and window
    # start_s, end_s: its window in unix seconds: `tau_s + leak_s`, or all epochs where they are fewer.
    start_s: Int  # [h]
    end_s: Int  # [h]
    other_offset: Int  # [h + 1]
    # The others of set i are ``other[other_offset[i]:other_offset[i + 1]]``: k - 1; in groups k - 1 to 2 k - 2.
    other: Int  # []
    merged: Merged  # ragged by subject; none for a subject of whom nothing is published. Each lies in one epoch

    def __post_init__(self) -> None:
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sets:
    """Hiding sets of all windows, with no subject left to suppress."""

    presence: Presence
    others: NDArray[np.int32]


def hide(
    samples: Samples,
    params: Parameters,
    rank: Int,
    rng: np.random.Generator,
    *,
    tasks: Tasks = SERIAL_TASKS,
    progress: Progress = report_nothing,
) -> Hidden:
    """Hide everyone in each window of tau + leak among k - 1 others.

    Parameters
    ----------
    params : Parameters
        `tau_s` is a multiple of `leak_s`, and that of the samples' `grid_s`.
    rank : int64[]
        By code of a subject: the order in which the choice between people is made where it is free.
    rng : numpy.random.Generator
        Starts the clustering, nothing else.
    tasks : Tasks
        Does the clusters of each epoch, and the merges of records.

    Notes
    -----
    In each epoch the costs of all pairs of up to 1,000 people, or of near ones; then in each window those of all pairs
    within parts of at most 300. Memory for one index a subject and epoch or window, and the costs within parts.
    """
    # Algorithm 2, lines 1-5: epochs, what each person has in them, and clusters by the costs of pairs.
    runs = _epochs.cut(samples, params.leak_s, params.tau_s)
    places = np.argsort(np.argsort(rank[samples.subject], kind="stable"), kind="stable")
    label = _clusters.cluster(runs, places, rng, tasks, progress=progress)
    # What line 8 splits by: the cluster of each subject in each epoch, -1 where it has no samples.
    history = np.full(runs.at.shape, -1, np.int64)
    history[runs.subject, runs.epoch] = label
    rules = Rules(k=params.k, may_return=params.reuse == "apart", joins_leftovers=False, rank=places)
    sets = find(runs, history, rules, better=params.improve, progress=progress)
    return _make_hidden(runs, sets, params, tasks)


def find(runs: EpochSamples, history: Int, rules: Rules, *, better: bool, progress: Progress = report_nothing) -> _Sets:
    """Find hiding sets of all windows.

    With `better`, no more samples are left out than without, and a published sample costs no more.
    """
    plain = _draw_until_closed(runs, history, rules, progress)
    if not better:
        return plain
    # Clusters would only cut the parts, of near people each, in which sets are drawn.
    anyone = np.where(history < 0, history, 0)
    across = _draw_until_closed(runs, anyone, replace(rules, joins_leftovers=True), progress)
    if across.presence.count_suppressed() <= plain.presence.count_suppressed():
        improve(runs, across.presence, across.others, rules, progress)
        if _compute_mean_cost(runs, across) <= _compute_mean_cost(runs, plain):
            return across
    improve(runs, plain.presence, plain.others, rules, progress)
    return plain


def _draw_until_closed(runs: EpochSamples, history: Int, rules: Rules, progress: Progress) -> _Sets:
    """Draw until each subject has a hiding set; those left without are suppressed, and all windows are drawn again."""
    presence, costs = Presence(runs), dict[bytes, NDArray[np.float32]]()
    # Lines 6-16, until no subject fails. The paper forms windows once; but a subject left out (line 16) may be the one
    # that others need. Presence only shrinks, so this ends.
    while True:
        close(presence, runs.windows, rules.k, rules.rank)
        drawing = Drawing(runs, rules, costs)
        failed = drawing.draw(presence, history, progress)
        if not failed:
            return _Sets(presence=presence, others=drawing.others)
        for window, some in failed:
            presence.suppress(some, window, 0)


def _gather_inputs(runs: EpochSamples, sets: _Sets) -> tuple[Int, Int, Int]:
    """Give the runs that are published, and offsets and runs of what is merged in them."""
    kept = np.flatnonzero(sets.presence.kept[runs.subject, runs.epoch])
    order = kept[np.argsort(runs.epoch[kept], kind="stable")]
    bounds = np.searchsorted(runs.epoch[order], np.arange(runs.epochs + 1))
    # Line 19: an epoch lies in as many windows as a window has epochs. With k - 1 others in each, and the owner, this
    # makes the chi inputs of Section III-E.
    width = 1 + runs.window * sets.others.shape[2]
    table = np.full((len(runs.subject), width), -1, np.int64)
    for epoch in range(runs.epochs):
        some = order[bounds[epoch] : bounds[epoch + 1]]
        rows = list_inputs(runs, sets.others, runs.subject[some], epoch)
        table[some] = rows
    return kept, *make_ragged(table[kept])


def _compute_mean_cost(runs: EpochSamples, sets: _Sets) -> float:
    """Cost of what is published, for each sample that is."""
    kept, offset, run = _gather_inputs(runs, sets)
    cost = _k_merge.compute_costs(runs.samples, offset, runs.begin[run], runs.end[run])
    return float(cost.sum()) / max(1, int((runs.end - runs.begin)[kept].sum()))


def _make_hidden(runs: EpochSamples, sets: _Sets, params: Parameters, tasks: Tasks) -> Hidden:
    kept, offset, run = _gather_inputs(runs, sets)
    # Lines 17-20: a record for each person, merged epoch by epoch, so no row crosses the border of an epoch.
    merged = _k_merge.merge(runs.samples, offset, runs.begin[run], runs.end[run], tasks)
    # Runs are in order of subject and time, so their rows are.
    last = np.searchsorted(runs.subject[kept], np.arange(runs.subjects + 1))
    owner, window = np.nonzero((sets.others >= 0).any(axis=2))
    some = sets.others[owner, window].astype(np.int64)
    other_offset, other = make_ragged(some)
    start = runs.started[window] * params.leak_s if len(window) else window
    return Hidden(
        run_subject=runs.subject,
        run_epoch=runs.started[runs.epoch],
        run_begin=runs.begin,
        run_end=runs.end,
        kept=sets.presence.kept[runs.subject, runs.epoch],
        reason=sets.presence.reason[runs.subject, runs.epoch],
        owner=owner,
        start_s=start,
        end_s=start + params.tau_s + params.leak_s,
        other_offset=other_offset,
        other=other,
        merged=Merged(offset=merged.offset[last], first=merged.first, last=merged.last, box=merged.box),
    )


__all__ = ["REASONS", "Hidden", "hide"]

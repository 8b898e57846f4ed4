"""Compares the settings of a sweep: finds the front, chooses a setting, and describes the effect of each parameter.

Only settings with the same promise are compared, because hiding more is not worse. Differences are those of a paired
bootstrap: all settings were asked the same questions, and their figures are drawn again from the same of these
(`draw_replicates`), so that the difficulty of a question cancels out in the difference.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dbanon.base.errors import format_count
from dbanon.metrics.questions import choose_compared_side
from dbanon.results.figures import Evaluation, format_percent
from dbanon.results.sweep import SIDE_M, Setting, Sweep, Want, find_lines

REPLICATES = 400
_INTERVAL_PERCENT = 5, 95
"""Ends of a 90 % interval."""
_SAME_SHARE = 0.005


def compute_strength(promise: Mapping[str, Any], described: Iterable[Mapping[str, Any]]) -> tuple[float, ...]:
    """Order promises, with the greatest the strongest, by the most important parameter first.

    Parameters
    ----------
    promise : mapping
        Values by parameter. None stands for the strictest value.
    described : iterable of mapping
        The method's parameters, as `dbanon.methods.describe` gives them.
    """
    sign = {"more": 1, "less": -1}
    ordered = [(one["name"], sign[one["promises"]]) for one in described if one["promises"] in sign]
    return tuple(math.inf if promise[name] is None else by * float(promise[name]) for name, by in ordered)


def draw_replicates(evaluation: Evaluation) -> dict[str, Any]:
    """Draw replicates of the error of counts from the questions that were asked; empty if there are none.

    Returns
    -------
    dict
        ``side_m`` of the squares; ``values``; and ``questions``, a digest of the places and times: values are pairs
        only if it is equal.
    """
    questions, true, answers = evaluation.questions, evaluation.true, evaluation.answers
    if questions is None or true is None or answers is None:
        return {}
    side = choose_compared_side(questions)
    for moment in (True, False):
        asked = (questions.side_m == side) & (questions.moment == moment)
        a, e = true[asked], answers.expected[asked]
        if not a.sum():
            continue
        digest = hashlib.sha256()
        for column in (questions.x, questions.y, questions.since, questions.until):
            digest.update(np.ascontiguousarray(column[asked], np.float64).tobytes())
        drawn = np.random.default_rng([evaluation.seed, 1]).integers(0, len(a), (REPLICATES, len(a)))
        sums = a[drawn].sum(axis=1)
        values = np.divide(np.abs(e - a)[drawn].sum(axis=1), sums, out=np.zeros(REPLICATES), where=sums > 0)
        return {"side_m": side, "questions": digest.hexdigest()[:16], "values": np.round(values, 5).tolist()}
    return {}


def measure_difference(one: Setting, other: Setting) -> tuple[float, float] | None:
    """Measure by how much the count error of another setting is greater, as a 90 % interval."""
    mine, theirs = one.run.get("replicates") or {}, other.run.get("replicates") or {}
    if not mine or not theirs or mine["side_m"] != theirs["side_m"]:
        return None
    a, b = np.array(mine["values"]), np.array(theirs["values"])
    if mine["questions"] != theirs["questions"]:  # as if they had nothing in common
        b = np.random.default_rng(2).permutation(b)
    low, high = np.percentile(b - a, _INTERVAL_PERCENT)
    return float(low), float(high)


def judge(settings: Iterable[Setting], wants: Sequence[Want]) -> tuple[Setting, ...]:
    """Mark the settings on the front of their promise, the settings that meet all wants, and the chosen setting.

    A setting is on the front if no other of its promise publishes as much and errs less, or publishes more and errs as
    little. The choice is among settings that meet all wants and that earlier releases let be published. It falls on the
    strongest promise, since the sweep weakens none unasked. Among these settings, it is the one on the front with the
    least upper end of the count error's interval, so that lucky questions do not decide.
    """
    settings = list(settings)
    side = min((one.run["replicates"]["side_m"] for one in settings if one.run.get("replicates")), default=SIDE_M)
    settings = [replace(one, side_m=side) for one in settings]
    marked = [replace(one, meets=_meets(one, wants)) for one in settings]
    front = {id(one) for group in _group_by_promise(marked).values() for one in _find_front(group)}
    marked = [replace(one, is_on_front=id(one) in front) for one in marked]
    eligible = [one for one in marked if one.meets and _is_comparable(one) and one.publishable is not False]
    if not eligible:
        return tuple(marked)
    strongest = max(one.strength for one in eligible)
    best = min(_find_front([one for one in eligible if one.strength == strongest]), key=_find_upper_end)
    return tuple(replace(one, chosen=one is best) for one in marked)


def _meets(setting: Setting, wants: Sequence[Want]) -> bool:
    return setting.outcome == "verified" and all(want.is_met(setting.find_value(want.name)) for want in wants)


def _is_comparable(setting: Setting) -> bool:
    return setting.outcome == "verified" and setting.share is not None and setting.error is not None


def _group_by_promise(settings: Iterable[Setting]) -> dict[tuple[Any, ...], list[Setting]]:
    groups: dict[tuple[Any, ...], list[Setting]] = {}
    for one in settings:
        if _is_comparable(one):
            groups.setdefault(tuple(sorted(one.promise.items())), []).append(one)
    return groups


def _find_front(group: Sequence[Setting]) -> list[Setting]:
    def is_beaten(one: Setting) -> bool:
        mine = _locate(one)
        return any(
            _locate(o)[0] >= mine[0] and _locate(o)[1] <= mine[1] and _locate(o) != mine for o in group if o is not one
        )

    return [one for one in group if not is_beaten(one)]


def _locate(setting: Setting) -> tuple[float, float]:
    share, error = setting.share, setting.error
    assert share is not None and error is not None and error.value is not None  # noqa: S101, PT018 - _is_comparable
    return round(share, 4), error.value


def _find_upper_end(setting: Setting) -> float:
    error = setting.error
    if error is None or error.value is None:
        return float("inf")
    return error.value if error.high is None else error.high


# ---- in words --------------------------------------------------------------------------------------------------------


def describe_parameters(sweep: Sweep) -> tuple[str, ...]:
    """Describe each parameter in two sentences: its own effect, and whether that is so everywhere."""
    compared = [one for one in sweep.settings if _is_comparable(one)]
    names = list(compared[0].varied) if compared else []
    said: list[str] = []
    for name in names:
        if lines := find_lines(compared, name):
            reference = sweep.chosen
            shown = next((line for line in lines if reference is not None and reference in line), lines[0])
            others = [n for n in names if n != name]
            at = f", at every value of {' and '.join(others)}" if others else ""
            if len(compared) < len(sweep.settings):
                at = ", wherever settings can be compared" if others else ""
            said += [_describe_effect(sweep, name, shown), _describe_everywhere(sweep, name, lines, at)]
    return tuple(said)


def _describe_effect(sweep: Sweep, name: str, line: Sequence[Setting]) -> str:
    first, last = line[0], line[-1]
    others = ", ".join(f"{n} = {v}" for n, v in first.varied.items() if n != name)
    where = f"From {name} = {first.varied[name]} to {last.varied[name]}" + (f" (with {others})" if others else "")
    changed = _compare(first, last)
    if changed:
        counts = f"counts {sweep.when} in {sweep.squares} go from {_format_error(first)} off to {_format_error(last)}"
    else:
        counts = (
            f"counts {sweep.when} in {sweep.squares} show no difference that {_format_questions(sweep)} can show "
            f"({_format_error(first)} and {_format_error(last)} off)"
        )
    one, other = first.share or 0, last.share or 0
    if abs(one - other) < _SAME_SHARE:
        return f"{where} {counts}, while the same {format_percent(one)} are published."
    return f"{where} {counts}, and instead of {format_percent(one)} there are {format_percent(other)} published."


def _describe_everywhere(sweep: Sweep, name: str, lines: Sequence[Sequence[Setting]], at: str) -> str:
    for value in dict.fromkeys(one.varied[name] for line in lines for one in line):
        if all(_is_best(name, value, line) for line in lines):
            return (
                f"{name} = {value} publishes more and errs less {sweep.when} than every other value{at}"
                f"{_note_spans(name, value, lines)}."
            )
    signs = [_compare(line[0], line[-1]) for line in lines]
    if len(lines) == 1:
        values = ", ".join(f"{one.varied[name]}: {_format_error(one)}" for one in lines[0])
        return f"Counts {sweep.when} in {sweep.squares} are off by {name}: {values}."
    if len(set(signs)) == 1:
        how = {1: "counts get worse", -1: "counts get better", 0: f"no difference shows in {_format_questions(sweep)}"}[
            signs[0]
        ]
        return f"It is so everywhere: with more {name}, {how}{at}."
    worse, better = format_count(signs.count(1), "case"), format_count(signs.count(-1), "case")
    return (
        f"The effect depends on the other parameters. With more {name}, counts get worse in {worse} and "
        f"better in {better}. In {format_count(signs.count(0), 'case')} there is no difference that "
        f"{_format_questions(sweep)} can show."
    )


def _format_questions(sweep: Sweep) -> str:
    return format_count(sweep.queries, "question")


def _is_best(name: str, value: Any, line: Sequence[Setting]) -> bool:
    """Whether a value publishes more than all others of a line, and errs less by more than chance."""
    own = next((one for one in line if one.varied[name] == value), None)
    others = [one for one in line if one is not own]
    return (
        own is not None
        and bool(others)
        and all((own.share or 0) > (o.share or 0) + _SAME_SHARE and _compare(own, o) > 0 for o in others)
    )


def _note_spans(name: str, value: Any, lines: Sequence[Sequence[Setting]]) -> str:
    """Note the cases in which the best value at moments is not the best over ten minutes."""

    def measure_error(one: Setting) -> float:
        figure = one.find_figure("count_error", side_m=one.side_m, asked="span")
        return float("inf") if figure is None or figure.value is None else figure.value

    worse = sum(
        measure_error(one) > min(map(measure_error, line))
        for line in lines
        for one in line
        if one.varied[name] == value
    )
    return (
        f". Over ten minutes another value errs less in {format_count(worse, 'case')} of {len(lines)}" if worse else ""
    )


def _compare(one: Setting, other: Setting) -> int:
    """Compare the count errors of two settings: 1 if the other's is greater, -1 if less, 0 if neither is certain."""
    difference = measure_difference(one, other)
    if difference is None:
        return 0
    return 1 if difference[0] > 0 else -1 if difference[1] < 0 else 0


def _format_error(setting: Setting) -> str:
    error = setting.error
    if error is None or error.value is None:
        return "unknown"
    ends = "" if error.low is None or error.high is None else f" [{error.low * 100:.0f} to {error.high * 100:.0f}]"
    return f"{error.value * 100:.0f} %{ends}"

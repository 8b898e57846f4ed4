"""Measures how far answers are off, each figure with its 90 % interval, and how large regions are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

from dbanon.base.trajectory import Bool, Float
from dbanon.results.figures import Answers, Asked, Figure, Questions

REPLICATES = 1000
INTERVAL_QUANTILES = (0.05, 0.95)
USABLE_ERROR_SHARE = 0.2
TOLERANCE_PEOPLE = 1e-6
_QUANTILES_PERCENT = 10, 50, 90
FACTORS = (0.7, 1.0, 1.5, 2.0, 3.0, 6.0)
NINE_IN_TEN = 1.645
_KINDS: tuple[Asked, ...] = ("moment", "span")


def measure_counts(
    questions: Questions,
    true: Float,
    answers: Answers,
    *,
    rng: np.random.Generator,
    covered: Bool | None = None,
    noise: Float | None = None,
) -> tuple[Figure, ...]:
    """Measure answers by side, at moments and in spans; then the usable resolution of both.

    If answers and bounds are estimates from a sample, `covered` says whether the bounds of the sample hold, and `noise`
    how far off the sample puts each answer. Errors that are independent add up in squares, so that what is left of the
    error without the noise is ``sqrt((sum |e - a|)^2 - (sum |noise|)^2)``. It is at least ``|sum (e - a)|``: noise adds
    little to errors that all have one sign.

    With a the true answer, e the expected one, l and u the bounds, all of one side::

        count_error         sum |e - a| / sum a
        bias                sum (e - a) / sum a
        bounds_width        mean (u - l)
        coverage            share of questions with l <= a <= u
        usable_resolution_m least side from which on count_error <= 0.2

    Intervals are percentiles of a bootstrap over questions (Efron and Tibshirani: An Introduction to the Bootstrap,
    1993, section 13.3); that of the coverage is exact (Clopper and Pearson, Biometrika 26(4), 1934), since a bootstrap
    of hits alone has no width. Questions are resampled one by one, not by moment: each has a moment drawn from
    all there are, so they are independent. On taxis both ways held the truth equally often (88 % of 300 evaluations),
    and neither does if all questions share five moments (77 and 78 %).
    """
    figures: list[Figure] = []
    errors: dict[Asked, dict[float, tuple[float, Float]]] = {"moment": {}, "span": {}}
    inside = is_within(true, answers) if covered is None else covered
    noise = np.zeros(len(true)) if noise is None else np.abs(noise)
    off = answers.expected - true
    terms = np.stack([np.ones(len(true)), true, np.abs(off), off, answers.at_most - answers.at_least, noise])
    for side, asked, chosen in _group_questions(questions):
        sums, resampled = terms[:, chosen].sum(axis=1), _resample(terms[:, chosen], rng)
        for name, of in _RATIOS.items():
            figures.append(_make_figure(name, of(sums), of(resampled), side, asked))
        figures.append(_measure_coverage(inside[chosen], side, asked))
        errors[asked][side] = (float(_RATIOS["count_error"](sums)), _RATIOS["count_error"](resampled))
    return *figures, *(find_usable_resolution(of, asked) for asked, of in errors.items() if of)


def measure_intervals(questions: Questions, true: Float, answers: Answers) -> tuple[Figure, ...]:
    """Choose the factor of the intervals of answers, and measure how many true counts lie within, of each kind.

    It is the least of `FACTORS` that holds nine in ten of all, and no fewer than 85 % of a kind.
    """
    if answers.deviation is None or not len(true):
        return ()
    off = np.abs(answers.expected - true) / (NINE_IN_TEN * answers.deviation)
    kinds = {asked: off[questions.moment == (asked == "moment")] for asked in _KINDS}
    kinds = {asked: some for asked, some in kinds.items() if len(some)}

    def holds(factor: float) -> bool:
        return bool((off <= factor).mean() >= 0.9 and all((some <= factor).mean() >= 0.85 for some in kinds.values()))

    factor = next((factor for factor in FACTORS if holds(factor)), FACTORS[-1])
    return (
        Figure(name="interval_factor", value=factor),
        *(_measure_coverage(some <= factor, None, asked, "interval_coverage") for asked, some in kinds.items()),
    )


def find_usable_resolution(errors: dict[float, tuple[float, Float]], asked: Asked) -> Figure:
    """Find the least side from which on the count error is at most 0.2.

    Between the last side that is worse and the next one the error is taken to be linear in log(side). The least side
    that was asked about stands for itself and all smaller ones. The value is infinite if the greatest side is not
    enough, and None if no square had people.

    Parameters
    ----------
    errors : dict of float and (float, float64[b])
        The count error by side, and that of each replicate.
    """
    sides = sorted(errors)
    measured = np.array([[errors[side][0]] for side in sides])
    replicates = np.array([errors[side][1] for side in sides])
    if np.isnan(measured).all():
        return Figure(name="usable_resolution_m", value=None, asked=asked)
    low, high = np.quantile(_find_resolutions(sides, replicates), INTERVAL_QUANTILES, method="inverted_cdf").tolist()
    value = float(_find_resolutions(sides, measured)[0])
    return Figure(name="usable_resolution_m", value=value, low=low, high=high, asked=asked)


def is_within(true: Float, answers: Answers) -> Bool:
    """Test which true counts lie within their bounds; NaN is no bound."""
    inside: Bool = (answers.at_least <= true + TOLERANCE_PEOPLE) & (true <= answers.at_most + TOLERANCE_PEOPLE)
    return inside


def compute_exact_interval(successes: float, n: int) -> tuple[float, float]:
    """Bound a share by its exact binomial 90 % interval (Clopper and Pearson, Biometrika 26(4), 1934)."""
    low = special.betaincinv(successes, n - successes + 1, INTERVAL_QUANTILES[0]) if successes > 0 else 0.0
    high = special.betaincinv(successes + 1, n - successes, INTERVAL_QUANTILES[1]) if successes < n else 1.0
    return float(low), float(high)


def _resample(terms: Float, rng: np.random.Generator) -> Float:
    """Sum terms, float64[terms, n], over questions drawn again with replacement: float64[terms, replicates]."""
    n = terms.shape[1]
    drawn = rng.integers(n, size=(REPLICATES, n)) + n * np.arange(REPLICATES)[:, None]
    sums: Float = terms @ np.bincount(drawn.ravel(), minlength=REPLICATES * n).reshape(REPLICATES, n).T
    return sums


def _make_ratio(above: int, below: int, noise: int | None = None) -> Any:
    def divide(sums: Float) -> Float:
        off = np.abs(sums[3])  # the bias
        left = sums[above] if noise is None else np.sqrt(np.maximum(sums[above] ** 2 - sums[noise] ** 2, off**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sums[below] > 0, left / sums[below], np.nan)

    return divide


# Of sums of: questions, true answers, absolute errors, signed errors, widths, and noise.
_RATIOS: dict[str, Any] = {
    "count_error": _make_ratio(2, 1, noise=5),
    "bias": _make_ratio(3, 1),
    "bounds_width": _make_ratio(4, 0),
}


def measure_noise(questions: Questions, true: Float, noise: Float) -> tuple[float, float]:
    """Measure the least and the greatest noise of all sides and kinds, as shares of the true answers."""
    groups = [
        (float(np.abs(noise[chosen]).sum()), float(true[chosen].sum())) for *_, chosen in _group_questions(questions)
    ]
    shares = [off / people for off, people in groups if people]
    return min(shares, default=0.0), max(shares, default=0.0)


def _group_questions(questions: Questions) -> Iterator[tuple[float, Asked, Bool]]:
    kinds: tuple[tuple[Asked, Bool], ...] = (("moment", questions.moment), ("span", ~questions.moment))
    for side in np.unique(questions.side_m).tolist():
        for asked, of_kind in kinds:
            chosen = of_kind & (questions.side_m == side)
            if chosen.any():
                yield side, asked, chosen


def _make_figure(name: str, value: Float, replicates: Float, side: float, asked: Asked) -> Figure:
    if np.isnan(value):
        return Figure(name=name, value=None, side_m=side, asked=asked)
    low, high = np.nanquantile(replicates, INTERVAL_QUANTILES).tolist()
    return Figure(name=name, value=float(value), low=low, high=high, side_m=side, asked=asked)


def _measure_coverage(covered: Bool, side: float | None, asked: Asked, name: str = "coverage") -> Figure:
    hits, n = int(covered.sum()), len(covered)
    low, high = compute_exact_interval(hits, n)
    return Figure(name=name, value=hits / n, low=low, high=high, side_m=side, asked=asked)


def _find_resolutions(sides: list[float], errors: Float) -> Float:
    """Find the resolution of each column of float64[sides, b]; NaN counts as too large."""
    side = np.array(sides)
    bad = ~(errors <= USABLE_ERROR_SHARE)
    worst = len(sides) - 1 - np.argmax(bad[::-1], axis=0)  # the last side that is too bad
    following = np.minimum(worst + 1, len(sides) - 1)
    column = np.arange(errors.shape[1])
    worse, better = errors[worst, column], errors[following, column]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num((worse - USABLE_ERROR_SHARE) / (worse - better), nan=1.0)
    between = side[worst] * (side[following] / side[worst]) ** part
    resolutions = np.where(bad[-1], np.inf, between)
    return np.where(bad.any(axis=0), resolutions, sides[0])


def measure_regions(side_m: Float, time_s: Float, people: Float) -> Iterator[Figure]:
    """Give the 10, 50 and 90 % quantiles of the longer sides and the times of rows, weighted by people and time.

    All are float64[c]: metres, seconds, and the people that each row stands for.
    """
    for name, values in (("region_side_m", side_m), ("region_time_s", time_s)):
        for share, value in find_weighted_quantiles(values, people * time_s).items():
            yield Figure(name=f"{name}_{share}", value=value)


def find_weighted_quantiles(values: Float, weights: Float) -> dict[int, float | None]:
    """Find the least values with at least 10, 50 and 90 % of the weight at or below them; None without any weight."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    if not len(below) or below[-1] <= 0:
        return dict.fromkeys(_QUANTILES_PERCENT)
    # Slightly less, so that rounding of the sum does not skip a value that is just enough.
    index = np.searchsorted(below, np.array(_QUANTILES_PERCENT) / 100 * below[-1] * (1 - 1e-12))
    index = np.minimum(index, len(below) - 1)
    return dict(zip(_QUANTILES_PERCENT, values[order][index].tolist(), strict=True))

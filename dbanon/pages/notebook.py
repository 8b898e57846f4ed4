"""Makes small views of runs, releases and sweeps for notebooks, without private data.

A notebook is kept and shared, so a view shows neither true positions nor errors that were computed from them. Its
style applies to the view alone, and its ids are unique in the notebook.
"""

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from dbanon.base.described import count_verdicts, read_clause
from dbanon.base.figures import format_percent, round_percent
from dbanon.pages import charts
from dbanon.pages.charts import Bar, format_metres
from dbanon.pages.svg import STYLE

_VIEW_STYLE = """
:root{color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:6px;padding:10px 14px;
max-width:820px;font:13px/1.4 Arial,Helvetica,sans-serif}
p{margin:2px 0 8px}b.title{font-size:15px}.good{color:var(--good)}.warn{color:var(--warn)}
span.fact{margin-right:16px;color:var(--soft)}span.fact b{color:var(--ink)}
div.figures{display:flex;flex-wrap:wrap;gap:14px;align-items:flex-start}
div.figures svg{width:360px;max-width:100%;height:auto}
"""
TENTHS = range(10, 100, 10)

Fact = tuple[str, str]
"""A value in words, and its name."""


def compute_sizes(figures: Mapping[str, Any], bins: int) -> list[tuple[float, float, float]]:
    """Give the longer sides of a run's regions: (metres, up to, share of 1), by equal factors.

    They range from the tenth to the ninetieth percentile; empty if the run has none, or all regions have one size.
    """
    named = [(share / 100, figures.get(f"longer_side_{share}_m")) for share in TENTHS]
    tenths = [(share, float(side_m)) for share, side_m in named if side_m is not None]
    if len(tenths) < len(TENTHS) or not 0 < tenths[0][1] < tenths[-1][1]:
        return []
    least, most = tenths[0][1], tenths[-1][1]
    edges = [least * (most / least) ** (edge / bins) for edge in range(bins)] + [most]
    below = [_find_share_below(tenths, edge) for edge in edges]
    return [(low, high, b - a) for (low, high), (a, b) in zip(pairwise(edges), pairwise(below), strict=True)]


def _find_share_below(tenths: Sequence[tuple[float, float]], side_m: float) -> float:
    """Interpolate the share of regions below a size between the tenths, on a scale of logarithms."""
    for (low, from_m), (high, to_m) in pairwise(tenths):
        if from_m <= side_m < to_m:
            return low + (high - low) * math.log(side_m / from_m) / math.log(to_m / from_m)
    return tenths[-1][0]


def make_run_view(
    title: str,
    clauses: Sequence[Any],
    metrics: Mapping[str, Any],
    left_out: Sequence[tuple[str, int, int | None]],
    *,
    k: int | None,
) -> str:
    """Make the view of a run.

    Parameters
    ----------
    title : str
    clauses : sequence
        Those of the attack.
    metrics : mapping
        Its figures.
    left_out : sequence of (str, int, int or None)
        The reason, the number left out, and the number in all. The view shows it as readers of a release see it: in
        whole percent, or as fewer than `k`.
    """
    name = _make_name()
    facts = [(format_percent(metrics["published_share"]), "published")] if "published_share" in metrics else []
    if "longer_side_50_m" in metrics:
        half, most = (format_metres(metrics[f"longer_side_{share}_m"]) for share in (50, 90))
        facts.append((half, f"half of the regions under, nine tenths under {most}"))
    figures = []
    if shares := compute_sizes(metrics, 16):
        said = f"A tenth is under {format_metres(shares[0][0])}, half under {half}, nine tenths under {most}."
        figures.append(
            charts.draw_histogram(
                f"{name}-sizes", "Longer sides of the regions", said, shares,
                axis="longer side of the regions, without the least and the greatest tenth",
                mark=(metrics["longer_side_50_m"], f"half are under {half}"),
            )
        )  # fmt: skip
    if bars := [
        Bar(label=what.replace("_", " "), value=percent / 100, text=said, kind="gone")
        for what, n, total in left_out
        for percent, said in [_describe_share(n, total, k or 2)]
    ]:
        words = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
        facts.append(("", "grey: left out, by reason"))
        figures.append(charts.draw_bars(f"{name}-left-out", "Left out, by reason", words, bars, most=1.0))
    return make_view(title, facts, *figures, verdict=_describe_verdict(clauses))


def make_release_view(card: Mapping[str, Any]) -> str:
    """Make the view of a release from its card: its promise and its verification."""
    state = "" if card["live"] else ", withdrawn"
    facts = [(f"k = {card['k']}", "")] if card["k"] else []
    facts += [(f"{card['rows']:,}", "rows"), (f"{card['method']}, {card['algorithm']}", "")]
    facts += [(f"{_write_day(card['period']['since'])} to {_write_day(card['period']['until'])}", "")]
    return make_view(
        f"Release published.{card['release']}{state}",
        facts,
        text=card["promise"],
        verdict=_describe_verdict([read_clause(one) for one in card["attack"]["clauses"] or ()]),
    )


def make_sweep_view(title: str, settings: Sequence[tuple[str, float | None, str]]) -> str:
    """Make the view of a sweep: for each setting the share published, or its outcome, and a word on it."""
    bars = [
        Bar(
            label=label,
            value=share or 0,
            text=", ".join(filter(None, [format_percent(share) if share is not None else "", said])),
            kind="published" if share is not None else "gone",
        )
        for label, share, said in settings
    ]
    words = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    drawn = charts.draw_bars(f"{_make_name()}-settings", "Share published by setting", words, bars, most=1.0)
    return make_view(
        title, [(str(len(bars)), "settings"), ("", "shares of people and times that are published")], drawn
    )


def make_view(
    title: str, facts: Sequence[Fact], *figures: Markup, text: str = "", verdict: tuple[str, bool] | None = None
) -> str:
    """Put a view together: a title with a verdict, facts in a line, a text, figures side by side."""
    name = _make_name()
    judged = Markup(' · <b class="{}">{}</b>').format("good" if verdict[1] else "warn", verdict[0]) if verdict else ""
    listed = Markup("").join(Markup('<span class="fact"><b>{}</b> {}</span>').format(*fact) for fact in facts)
    return str(
        Markup(
            '<div class="{}" role="group"><style>{}</style><p><b class="title">{}</b>{}</p><p>{}</p>{}'
            '<div class="figures">{}</div></div>'
        ).format(
            name,
            Markup(scope_style(STYLE + _VIEW_STYLE, name)),  # noqa: S704 - our own style
            title,
            judged,
            listed,
            Markup("<p>{}</p>").format(text) if text else "",
            Markup("").join(figures),
        )
    )


def scope_style(style: str, name: str) -> str:
    """Limit a style sheet to the element with the class `name`, which ``:root`` becomes, and its content."""

    def limit_rule(found: re.Match[str]) -> str:
        selectors = [one.strip() for one in found[2].split(",")]
        inside = [f".{name}" if one == ":root" else f".{name} {one}" for one in selectors]
        return f"{found[1]}{','.join(inside)}{{"

    return re.sub(r"(^|[{}])\s*([^{}@]+)\{", limit_rule, style.strip())


def _make_name() -> str:
    """Make a name that is unique in the notebook."""
    return f"dbanon-{secrets.token_hex(5)}"


def _describe_verdict(clauses: Sequence[Any]) -> tuple[str, bool]:
    if not clauses:
        return "✗ not attacked", False
    passed, said = all(clause.passed for clause in clauses), " clauses ".join(count_verdicts(clauses))
    return f"✓ verified, {said}" if passed else f"✗ refused, {said}", passed


def _describe_share(n: int, total: int | None, k: int) -> tuple[int, str]:
    """Give a share left out in percent and in words, as ``describe_share`` of SQL does."""
    if n < k or not total:
        return 0, f"fewer than {k}, or none" if n < k else "not known"
    percent = round_percent(n / total)
    return percent, f"{percent} %"


def _write_day(text: str | None) -> str:
    return (text or "?")[:16].replace("T", " ")

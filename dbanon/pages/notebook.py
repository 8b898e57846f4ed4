"""Says of a run or a release in a notebook what a page says of it in a few words.

A notebook is kept and shared, so a view shows neither true positions nor errors that were computed from them, and no
count of people below k.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dbanon.base.described import count_verdicts, read_clause
from dbanon.base.figures import format_percent, round_percent
from dbanon.pages.charts import format_metres


def make_run_view(
    title: str,
    clauses: Sequence[Any],
    metrics: Mapping[str, Any],
    left_out: Iterable[tuple[str, int, int | None]],
    *,
    k: int | None,
) -> str:
    """Make the view of a run, with what was left out: the reason, the number, and the number in all."""
    facts = {"published": format_percent(metrics["published_share"])} if "published_share" in metrics else {}
    for share in (50, 90) if "longer_side_50_m" in metrics else ():
        facts[f"{share} % of the regions under"] = format_metres(metrics[f"longer_side_{share}_m"])
    for reason, n, total in left_out:
        few = n < (k or 2)
        known = f"{round_percent(n / total)} %" if total else "not known"
        facts[f"left out, {reason.replace('_', ' ')}"] = f"fewer than {k or 2}, or none" if few else known
    return _make_view(title, clauses, facts)


def make_release_view(card: Mapping[str, Any]) -> str:
    """Make the view of a release from its card: its promise and its verification."""
    facts = {"promise": card["promise"], "k": card["k"], "rows": f"{card['rows']:,}"}
    facts |= {end: (card["period"][end] or "?")[:16].replace("T", " ") for end in ("since", "until")}
    title = f"Release published.{card['release']}{'' if card['live'] else ', withdrawn'}"
    return _make_view(title, [read_clause(one) for one in card["attack"]["clauses"] or ()], facts)


def _make_view(title: str, clauses: Sequence[Any], facts: Mapping[str, Any]) -> str:
    word = "verified" if all(clause.passed for clause in clauses) else "refused"
    verdict = f"{word}, {' clauses '.join(count_verdicts(clauses))}" if clauses else "not attacked"
    row = Markup("<tr><th>{}</th><td>{}</td></tr>")
    rows = Markup("").join(row.format(*fact) for fact in facts.items())
    return str(Markup("<div><p><b>{}</b> · {}</p><table>{}</table></div>").format(title, verdict, rows))

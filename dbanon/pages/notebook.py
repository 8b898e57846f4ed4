"""Says of a run or a release in a notebook a few words of its page.

A notebook is kept and shared, so a view shows no true position, no error, and no count of people who are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dbanon.results.described import count_verdicts


def make_view(title: str, clauses: Sequence[Any], facts: Mapping[str, Any]) -> str:
    """Make a table of facts below what was found of the clauses."""
    word = "verified" if all(clause.passed for clause in clauses) else "refused"
    verdict = f"{word}, {' clauses '.join(count_verdicts(clauses))}" if clauses else "not attacked"
    row = Markup("<tr><th>{}</th><td>{}</td></tr>")
    rows = Markup("").join(row.format(*fact) for fact in facts.items())
    return str(Markup("<div><p><b>{}</b> · {}</p><table>{}</table></div>").format(title, verdict, rows))

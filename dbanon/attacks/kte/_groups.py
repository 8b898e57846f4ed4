"""Groups whose members share one record: how large they are, and whether the rows say so."""

import numpy as np

from dbanon.attacks import Evidence
from dbanon.attacks.kte._rows import Members
from dbanon.attacks.kte._run_statements import Rules
from dbanon.attacks.shared.keys import find, sort_distinct


def count_group_clauses(
    evidence: Evidence, who: Members, rules: Rules
) -> tuple[dict[str, int], dict[str, int | float]]:
    """Count what of groups is smaller than promised or not what it says: violations by clause, and figures."""
    crowd = who.shared[find(sort_distinct(evidence.record_id), evidence.cloak_record)]
    wrong = (evidence.cloak_crowd != crowd) | (evidence.cloak_subjects != 1)
    broken = {"crowd": int(wrong.sum()), "size": int((who.crowd < rules.k).sum()), "sets": len(evidence.hiding_record)}
    figures = {
        "smallest_crowd": int(who.crowd.min()),
        "largest_crowd": int(who.crowd.max()),
        "mean_crowd": float(np.mean(who.crowd)),
    }
    return broken, figures

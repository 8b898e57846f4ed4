"""What the paper compares k-merge with: GLOVE, static generalisation and W4M, as algorithms of the family kte.

`glove`: fewer than k subjects at the end join the group that they cost least, where the public program publishes them
alone. `static`: the paper has levels of 2 hours and 4 km, 4 and 10, 8 and 20, and `anonymise` takes the first. `w4m`:
discs of 1,000 m. The paper takes settings that it does not name, and the matching of W4M is not written down. Here
samples are matched in order, as many as can be, which deletes and makes up about as many as the paper counts.
"""

import numpy as np

from benchmarks.papers.kte import glove, static, w4m
from dbanon.base.tasks import Tasks
from dbanon.base.trajectory import Int
from dbanon.methods.kte import Parameters, _rows
from dbanon.methods.kte._rows import Published, count_people, describe_groups, select_records
from dbanon.methods.kte._samples import Samples


def _group_by_glove(
    known: Samples, params: Parameters, rank: Int, _rng: np.random.Generator, _tasks: Tasks
) -> Published:
    return describe_groups(known, *glove.group_by_glove(known, params.k, rank))


def _group_statically(
    known: Samples, params: Parameters, _rank: Int, _rng: np.random.Generator, _tasks: Tasks
) -> Published:
    group, merged, _ = static.group_statically(known, params.k, *static.LEVELS["2h-4km"])
    return describe_groups(known, group, merged)


def _cluster_by_w4m(
    known: Samples, params: Parameters, rank: Int, rng: np.random.Generator, _tasks: Tasks
) -> Published:
    group, edited = w4m.cluster_by_w4m(known, params.k, w4m.DELTA_M, rank, rng)
    published = np.flatnonzero(np.diff(edited.rows.offset) > 0)
    published = published[np.argsort(rank[known.subject[published]])]
    record = np.full(len(group), -1, np.int64)
    record[published] = np.arange(len(published))
    size = np.bincount(group[group >= 0], minlength=1)
    out = len(group) - len(published)
    suppressed = {
        "samples": {
            "few_alike": int(np.diff(known.offset)[record < 0].sum()),
            "deleted": int(edited.deleted[record >= 0].sum()),
        },
        "subjects": {"few_alike": out},
        "by_hour": count_people(known, record < 0, "few_alike"),
    }
    return Published(
        group=record,
        merged=select_records(edited.rows, published),
        crowd=size[group[published]],
        records=np.ones(len(published), np.int64),
        suppressed=suppressed,
    )


_rows.ALGORITHMS.update({"glove": _group_by_glove, "static": _group_statically, "w4m": _cluster_by_w4m})

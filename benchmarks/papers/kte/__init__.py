"""What the paper compares k-merge with: GLOVE, static generalisation and W4M, as algorithms of the family kte."""

import numpy as np

from benchmarks.papers.kte import glove, static, w4m
from dbanon.base.trajectory import Int
from dbanon.methods.kte import Parameters, _rows
from dbanon.methods.kte._rows import Published, of_groups, people_at_once, select_records
from dbanon.methods.kte._samples import Samples


def _glove_groups(known: Samples, params: Parameters, rank: Int, _rng: np.random.Generator) -> Published:
    return of_groups(known, *glove.glove(known, params.k, rank))


def _static_groups(known: Samples, params: Parameters, _rank: Int, _rng: np.random.Generator) -> Published:
    group, merged, _ = static.static(known, params.k, *static.LEVELS["2h-4km"])
    return of_groups(known, group, merged)


def _w4m_people(known: Samples, params: Parameters, rank: Int, rng: np.random.Generator) -> Published:
    group, edited = w4m.w4m(known, params.k, w4m.DELTA_M, rank, rng)
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
        "by_hour": people_at_once(known, out),
    }
    return Published(
        group=record,
        merged=select_records(edited.rows, published),
        crowd=size[group[published]],
        records=np.ones(len(published), np.int64),
        suppressed=suppressed,
    )


_rows.ALGORITHMS.update({"glove": _glove_groups, "static": _static_groups, "w4m": _w4m_people})

"""The paper's own algorithm, as one of the family semantic: regions that grow while trajectories are merged.

Tu, Zhao, Xu, Li, Su, Jin: Beyond K-Anonymity: Protect Your Trajectory from Semantic Attack, SECON 2017: the loss of
section III-B, Algorithms 1 and 2, and the reshaping of section IV-B.

The attack refuses its releases by two clauses. The regions of a release distinguish nearly all cells (`classes`).
An adversary that grows regions from one cell or two finds where the published one began (`tight`).

The paper leaves choices open:

- The numbers m_i and m_j are those of the points of two trajectories. At equal length the sum is over the second.
- Of cells that are as good, the smaller is taken, then the first. A category that the city lacks is left out.
- Where two rows overlap, one region holds both, so a cut never costs more than a merge. Every row holds a fix of each
  member, where the paper's may be of one.
- A group with fewer than k people at the end joins the group with which it loses least.
- Beyond 50 records, each is compared with 16 candidates. Of 493 records, all pairs took 25 times as long for sides that
  were 0.8 % shorter.
- All cells must be connected. Tables of pairs of cells take 16 bytes a pair, so there may be 15,000 cells.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from benchmarks.papers.semantic import greedy
from benchmarks.papers.semantic.greedy import Group
from dbanon.base.errors import DataError, format_count
from dbanon.base.tasks import Tasks
from dbanon.base.trajectory import Cells, Int, Trajectories
from dbanon.methods.semantic import Parameters, _graph, _losses, _rows
from dbanon.methods.semantic._rows import Made, Rows

_MAX_CELLS = 15_000  # tables of all pairs of cells take 16 bytes a pair: 3.6 GB


def merge(data: Trajectories, cell: Int, rank: Int, params: Parameters, cells: Cells, tasks: Tasks) -> Made:  # noqa: PLR0917
    """Merge the pair of trajectories that loses least, again and again: Algorithm 2.

    Raises
    ------
    DataError
        If there are too many cells, or they make several parts that do not touch.
    """
    del tasks  # one process does all
    count, ends = len(cells.cell_id), cells.neighbours.T
    if count > _MAX_CELLS:
        raise DataError(f"The paper's algorithm must have at most {_MAX_CELLS} cells. Got {count}; load fewer.")
    parts, _ = connected_components(coo_array((np.ones(ends.shape[1], np.int8), ends), shape=(count, count)))
    if parts > 1:
        raise DataError(
            "For the paper's algorithm cells must be connected by shared edges. They make "
            f"{format_count(int(parts), 'separate part')}; load cells without gaps between them."
        )
    units = _rows.collapse_fixes(data, cell, rank, params)
    groups = greedy.merge_groups(
        units, _graph.build_graph(cells, params), _losses.make_scale(params, data.grid_s), params.k
    )
    return Made(units=units, groups=groups, rows=_flatten_groups(groups), atom=None, figures={})


def _flatten_groups(groups: list[Group]) -> Rows:
    """Put the rows of all groups in one place, each distinct region once."""
    number: dict[bytes, int] = {}
    region: list[int] = []
    cells: list[NDArray[np.int32]] = []
    for track in (group.track for group in groups):
        for own in np.split(track.cell, track.offset[1:-1]):
            at = number.setdefault(own.tobytes(), len(number))
            if at == len(cells):
                cells.append(own)
            region.append(at)
    return Rows(
        offset=np.concatenate([[0], np.cumsum([len(group.track) for group in groups])]).astype(np.int64),
        start=np.concatenate([group.track.start for group in groups]),
        end=np.concatenate([group.track.end for group in groups]),
        region=np.array(region, np.int64),
        cell_offset=np.concatenate([[0], np.cumsum([len(own) for own in cells])]).astype(np.int64),
        cell=np.concatenate(cells).astype(np.int64),
    )


_rows.ALGORITHMS["merge"] = merge

"""The algorithms that the paper compares BK and MK with: `knn`, and `local` in both of its formats.

Krishnamachari, Ghinita, Kalnis: Privacy-Preserving Publication of User Locations in the Proximity of Sensitive Sites,
SSDBM 2008, sections 2.3 and 5. `knn` gives each site in turn the k nearest subjects that are left. `local` grows boxes
around subjects, and sites share subjects, so it gives no guarantee: `local` publishes one rectangle a site,
`local-2-by-2` one for each subject and site. Guards go with `knn` as with BK; `local` has none.
"""

import numpy as np

from benchmarks.papers.sensitive_sites import local, nearest_subjects
from dbanon.base.errors import InfeasibleError, format_count
from dbanon.base.trajectory import Int
from dbanon.methods.sensitive_sites import Parameters, _guards, _rows
from dbanon.methods.sensitive_sites._boxes import Boxes
from dbanon.methods.sensitive_sites._rows import Rows
from dbanon.methods.sensitive_sites._snapshot import Scene


def _run_knn(scene: Scene, params: Parameters, rng: np.random.Generator) -> Rows:
    _rows.demand_subjects(scene, params.k, "knn")
    order = rng.permutation(len(scene.sites.x0))
    site = np.empty(len(scene.subjects.x0), np.int32)
    site[scene.by_rank] = nearest_subjects.take(scene.subjects.take(scene.by_rank), scene.sites, params.k, order)
    return _rows.make_rows(scene, params, site)


def _run_local(scene: Scene, params: Parameters, _rng: np.random.Generator) -> Rows:
    site, subject = _cover_sites(scene, params.k)
    box = _guards.bound_sites(scene.subjects.take(subject), scene.sites, site.astype(np.int32))
    return _make_rows(scene, subject, box, _rows.stack_cells(box)[site], np.bincount(site, minlength=len(box.x0))[site])


def _run_local_2_by_2(scene: Scene, params: Parameters, _rng: np.random.Generator) -> Rows:
    site, subject = _cover_sites(scene, params.k)
    box = scene.subjects.take(subject).join(scene.sites.take(site))
    return _make_rows(scene, subject, box, _rows.stack_cells(box), np.ones(len(subject), np.int64))


def _cover_sites(scene: Scene, k: int) -> tuple[Int, Int]:
    """Find the pairs of sites and subjects, k of each site."""
    n, m = len(scene.subjects.x0), len(scene.sites.x0)
    site, subject = local.cover(scene.subjects.take(scene.by_rank), scene.sites, k)
    covered = int((np.bincount(site, minlength=m) >= k).sum())
    if covered < m:
        raise InfeasibleError(
            f"local must find k = {k} subjects for each of {format_count(m, 'site')}. It did for {covered}, with "
            f"{format_count(n, 'subject')}. Lower k, leave out sites, or load more subjects."
        )
    return site, scene.by_rank[subject]


def _make_rows(scene: Scene, subject: Int, box: Boxes, shown: Int, crowd: Int) -> Rows:
    """Write a row for each pair of a site and a subject, and one for each subject without a site."""
    n = len(scene.subjects.x0)
    exact = np.setdiff1d(np.arange(n), subject)
    metrics = _rows.compute_metrics(scene, box, np.isin(np.arange(n), subject))
    metrics["shared_subjects"] = int((np.bincount(subject, minlength=n) > 1).sum())
    return Rows(
        subject=np.concatenate([subject, exact]),
        region=np.concatenate([shown, _rows.stack_cells(scene.subjects)[exact]]),
        crowd=np.concatenate([crowd, np.ones(len(exact), np.int64)]),
        hidden=np.arange(len(subject) + len(exact)) < len(subject),
        metrics=metrics,
    )


_rows.ALGORITHMS.update({"knn": _run_knn, "local": _run_local, "local-2-by-2": _run_local_2_by_2})

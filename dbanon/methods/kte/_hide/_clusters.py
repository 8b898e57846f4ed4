"""Clusters of subjects whose samples of an epoch are cheap to merge: spectral clustering of a sparse graph of costs."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.spatial import cKDTree

from dbanon.base.progress import Progress
from dbanon.base.tasks import Tasks
from dbanon.base.trajectory import Float, Int, freeze_arrays
from dbanon.methods.kte import _k_merge
from dbanon.methods.kte._hide._epochs import EpochSamples
from dbanon.methods.kte._samples import Stretches, select_stretches

MEAN_CLUSTER_PEOPLE = 50
MAX_ALL_PAIRS_SUBJECTS = 1000  # subjects of an epoch up to which the costs of all pairs are computed
CANDIDATES_PER_SUBJECT = 60  # near ones of each, where they are more
_MAX_EIGENVECTORS = 16  # more tell clusters apart no better, and take much longer
_MAX_DENSE_ROWS = 300  # rows of a matrix of which all eigenvectors are computed
_MIN_AFFINITY = 1e-6  # costs of 14 times the median tell no more than that two are far apart


def cluster(runs: EpochSamples, rank: Int, rng: np.random.Generator, tasks: Tasks, *, progress: Progress) -> Int:
    """Label the run of every subject in every epoch with a cluster: int64[r], from 0 in each epoch.

    Parameters
    ----------
    rank : int64[s]
        By position in samples: the order in which people enter, so that nothing depends on their ids.
    rng : numpy.random.Generator
        Gives each epoch a seed, which starts its eigenvectors and k-means.
    tasks : Tasks
        Does the epochs.
    """
    label = np.zeros(len(runs.subject), np.int64)
    order = np.lexsort((rank[runs.subject], runs.epoch))
    bounds = np.searchsorted(runs.epoch[order], np.arange(runs.epochs + 1))
    nodes = [order[bounds[epoch] : bounds[epoch + 1]] for epoch in range(runs.epochs)]
    wanted = [min(max(1, round(len(some) / MEAN_CLUSTER_PEOPLE)), len(some)) for some in nodes]
    seeds = rng.integers(1 << 62, size=runs.epochs).tolist()
    parted = [epoch for epoch in range(runs.epochs) if wanted[epoch] > 1 and len(nodes[epoch]) > 2]

    def iter_work() -> Iterator[tuple[Any, ...]]:
        for number, epoch in enumerate(parted):
            some = nodes[epoch]
            progress("clusters", number, len(parted))
            yield (
                select_stretches(runs.samples, runs.begin[some], runs.end[some]),
                runs.place[some],
                wanted[epoch],
                seeds[epoch],
            )

    for epoch, labels in zip(parted, tasks.map(_cluster, iter_work()), strict=True):
        label[nodes[epoch]] = labels
    return label


def _cluster(samples: Stretches, place: Float, wanted: int, seed: int) -> Int:
    """Label what each person does in an epoch: a task (Algorithm 2, lines 3-5)."""
    # Where people are many, only pairs of near ones get a cost.
    affinity = _compute_affinity(*_find_candidates(place), freeze_arrays(samples))
    return _cluster_components(affinity, wanted, np.random.default_rng(seed))


def _find_candidates(place: Float) -> tuple[Int, Int]:
    """Pairs i < j that are near each other in place and time; all of them where they are few."""
    n = len(place)
    if n <= MAX_ALL_PAIRS_SUBJECTS:
        first, second = np.triu_indices(n, 1)
        return first, second
    _, near = cKDTree(place).query(place, CANDIDATES_PER_SUBJECT + 1)
    one, other = np.repeat(np.arange(n), CANDIDATES_PER_SUBJECT + 1), near.ravel()
    pair = np.unique((np.minimum(one, other) * n + np.maximum(one, other))[one != other])
    return pair // n, pair % n


def _compute_affinity(first: Int, second: Int, samples: Stretches) -> Any:
    """Make a symmetric sparse matrix of exp(-cost / median)."""
    n, begin, end = len(samples.offset) - 1, samples.offset[:-1], samples.offset[1:]
    cost = _k_merge.compute_pair_costs(samples, begin[first], end[first], begin[second], end[second])
    value = np.maximum(_MIN_AFFINITY, np.exp(-cost / np.median(cost)))
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    return csr_array((np.concatenate([value, value]), (rows, columns)), shape=(n, n))


def _cluster_components(affinity: Any, clusters: int, rng: np.random.Generator) -> Int:
    """Cluster each component of the graph, into parts of the clusters in proportion to its size."""
    n, (components, component) = affinity.shape[0], connected_components(affinity, directed=False)
    label, used = np.zeros(n, np.int64), 0
    # Without an edge between them, components share no cluster: costs of pairs in different ones were not computed.
    for number in range(components):
        members = np.flatnonzero(component == number)
        wanted = max(1, round(clusters * len(members) / n))
        if wanted > 1 and len(members) > 2:
            label[members] = used + _cluster_connected(
                affinity[members][:, members], min(wanted, len(members) - 1), rng
            )
        else:
            label[members] = used
        used += wanted
    return label


def _cluster_connected(affinity: Any, clusters: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cluster a connected graph (Ng, Jordan, Weiss: On Spectral Clustering, NIPS 2001)."""
    scale = 1 / np.sqrt(affinity.sum(axis=1))
    laplacian = diags_array(scale) @ affinity @ diags_array(scale)
    n, dimensions = affinity.shape[0], min(clusters, _MAX_EIGENVECTORS)
    start = rng.random(n) + 0.5
    vectors = (
        _compute_dense_vectors(laplacian, dimensions)
        if n <= _MAX_DENSE_ROWS
        else _compute_sparse_vectors(laplacian, dimensions, start)
    )
    vectors = vectors / np.maximum(1e-12, np.linalg.norm(vectors, axis=1))[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cluster that stays empty is none
        _, label = kmeans2(vectors, clusters, iter=20, minit="++", rng=rng)
    return np.asarray(label, np.int64)


def _compute_dense_vectors(laplacian: Any, dimensions: int) -> Float:
    vectors: Float = np.linalg.eigh(laplacian.toarray())[1][:, -dimensions:]
    return vectors


def _compute_sparse_vectors(laplacian: Any, dimensions: int, start: Float) -> Float:
    try:
        vectors: Float = eigsh(laplacian, dimensions, which="LA", v0=start, tol=1e-3, ncv=4 * dimensions, maxiter=40)[1]
    except ArpackNoConvergence as error:  # what has converged separates the larger clusters
        vectors = error.eigenvectors if error.eigenvectors.shape[1] else start[:, None]
    return vectors

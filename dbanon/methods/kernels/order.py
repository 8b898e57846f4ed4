"""The order in which a run comes to people where it is free to choose between them."""

from hashlib import blake2b

import numpy as np

from dbanon.base.trajectory import Int, Trajectories


def rank_subjects(data: Trajectories, rng: np.random.Generator) -> Int:
    """Rank the subjects of a dataset by a keyed hash of their names.

    An adversary without the seed can predict nothing of this order, so a tie that is broken by it says nothing about
    where a person is. By ids or names, which the adversary knows, ties have shown who stood at a site.

    Parameters
    ----------
    rng : numpy.random.Generator
        The run's, from which nothing has been drawn: the key of the hash is its first 32 bytes.

    Returns
    -------
    int64[s]
        Place of each subject, by its code. One subject more or less, or other codes, leave the order of the others.
    """
    key, codes = rng.bytes(32), int(data.subject.max(initial=-1)) + 1
    names = data.subject_names.to_pylist() if data.subject_names is not None else map(str, range(codes))
    hashed = b"".join(blake2b(name.encode(), digest_size=8, key=key).digest() for name in names)
    # Each hash depends on the key and one name: without other people's names in it, one person more moves nobody else.
    order = np.argsort(np.frombuffer(hashed, np.uint64), kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank

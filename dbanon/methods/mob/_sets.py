"""Which objects hide each object, and at which instants it is generalised with them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.methods.mob._positions import Words
from dbanon.trajectory import Int, _freeze

REASONS = ("few_partners",)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sets:
    """The hiding set of each object, in rows of `Positions`.

    Attributes
    ----------
    offset : int64[n + 1]
    other : int32[m]
        Who hides object i: ``other[offset[i]:offset[i + 1]]``, i itself not among them, in the run's order. None of
        objects without own instants and of suppressed ones.
    when : uint64[n, W]
        At which instants each is generalised with its set, T(O) in the paper, as bits like ``Positions.own``.
    kept : bool[n]
        Who is published.
    """

    offset: Int
    other: NDArray[np.int32]
    when: Words
    kept: NDArray[np.bool_]

    def __post_init__(self) -> None:
        _freeze(self)

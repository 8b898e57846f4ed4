"""What a dataset is, beside what it holds; without NumPy, which would slow every start."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DatasetRow:
    """A row of ``dbanon.dataset``."""

    dataset_id: int
    name: str
    srid: int
    grid_m: float
    grid_s: int
    revision: int

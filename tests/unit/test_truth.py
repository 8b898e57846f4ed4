"""Groups of records whose people cannot be told apart."""

import numpy as np

from dbanon.evaluation.truth import number_groups


def test_records_with_the_same_members_have_one_number_and_others_their_own() -> None:
    """Five records: two of trajectories 3 and 4, one of 7, then two of 3 and 8 in a later window."""
    record = np.array([1, 1, 2, 2, 3, 5, 5, 6, 6])
    trajectory = np.array([3, 4, 3, 4, 7, 3, 8, 3, 8])
    records, groups = number_groups(record, trajectory)
    assert records.tolist() == [1, 2, 3, 5, 6]
    assert groups.tolist() == [1, 1, 2, 3, 3]

import random

import pytest

from tests.unit.mob_evidence import (
    attack,
    extreme,
    fitting,
    publish,
    random_tracks,
    surviving,
    symmetric,
)

GROUPS = {"hidden", "elimination"}


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("algorithm", ["symmetric", "extreme-union"])
def test_an_honest_run_passes_and_keeps_as_many_records_as_all_matchings_say(seed: int, algorithm: str) -> None:
    rng = random.Random(seed)
    k, presence = rng.choice([2, 3]), rng.choice([1.0, 0.8])
    tracks, own = random_tracks(rng, subjects=rng.randint(3, 7), instants=rng.randint(1, 5), presence=presence)
    hidden, kept = (symmetric if algorithm == "symmetric" else extreme)(tracks, own, k, rng)
    if not kept:
        return
    if len(kept) < k:
        return
    release = publish(tracks, own, hidden, kept, rng, k=k, union=algorithm != "symmetric")
    verdict = attack(release.evidence())
    assert [clause.sentence for clause in verdict.clauses if not clause.passed] == []
    # Unless all edges were looked for, there may be more.
    number = surviving(fitting(release, tracks, own, kept))
    assert k <= verdict.figures["least_surviving"] <= min(number.values())

"""The check of Lifeguard at small size; the benchmark `lifeguard` gives the figures over sixty seeds."""

from statistics import median

from tests.benchmarks.lifeguard import detection, false_deaths


def test_slow_members_no_longer_condemn_healthy_ones() -> None:
    """With a quarter of the members slow, false deaths of healthy members drop at least 50 times, to none at healthy ones."""
    plain, guarded = (false_deaths(range(4), 65, guarded=on) for on in (False, True))
    assert plain.anywhere >= 50 * max(1, guarded.anywhere)  # measured: 185 and 0
    assert guarded.at_healthy == 0


def test_a_death_in_a_calm_cluster_is_detected_as_fast() -> None:
    """What is really dead is confirmed by enough others before the shortest timeout is over: the median does not change."""
    plain, guarded = (detection(range(2), guarded=on, sick=False) for on in (False, True))
    assert guarded.first <= 1.02 * plain.first
    assert guarded.everyone <= 1.02 * plain.everyone


def test_a_death_amid_slow_members_is_detected_somewhat_later() -> None:
    """Every healthy member still detects it; what waiting for slow witnesses costs stays below a suspicion timeout of 5 s."""
    costs = []
    for seed in range(3):
        plain, guarded = (detection([seed], guarded=on, sick=True) for on in (False, True))
        costs.append(guarded.everyone - plain.everyone)
    assert median(costs) < 5

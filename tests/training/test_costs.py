"""Assumed and simulated step times: the published figures, what explains their difference, and that nothing stays unexplained."""

import msgspec
import pytest

from simharness.core.errors import InputError
from simharness.hosts.kinds import Kinds
from simharness.training import costs
from simharness.training.bench import check_explained
from simharness.training.document import Disagreement

LINK = costs.Link()
KINDS = Kinds()

FIGURES = [  # milliseconds by the textbook (training design, section 19)
    (1_000, 2, 4.21, 4.21, 4.24),
    (1_000, 16, 7.01, 4.21, 4.42),
    (100_000, 8, 6.52, 5.48, 15.7),
    (1_000_000, 2, 10.6, 17.0, 42.6),
    (1_000_000, 16, 19.0, 17.0, 221.8),
]


@pytest.mark.parametrize(("parameters", "workers", "ring", "server", "nic"), FIGURES)
def test_the_textbook(parameters: int, workers: int, ring: float, server: float, nic: float) -> None:
    """The closed forms give the design's figures."""
    for layout, figure in zip(costs.LAYOUTS, (ring, server, nic), strict=True):
        value = float(costs.assumed_ns(layout, workers, parameters, LINK)) / 1e6
        assert value == pytest.approx(figure, rel=0.003)


@pytest.mark.parametrize("layout", costs.LAYOUTS)
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_the_virtual_clock_agrees_with_the_explanation(layout: costs.Layout, workers: int) -> None:
    """A run takes what the form with commit and overlap says, to 1 %; headers are the rest."""
    simulated = costs.simulated_ns(layout, workers, 20_000, LINK, KINDS)
    assert float(simulated) == pytest.approx(float(costs.explained_ns(layout, workers, 20_000, LINK)), rel=0.01)


def test_the_ring_pays_for_its_commit() -> None:
    """Simulated less assumed is two latencies at any size, headers aside."""
    for workers, parameters in ((2, 1_000), (4, 50_000)):
        simulated = costs.simulated_ns("ring", workers, parameters, LINK, KINDS)
        apart = simulated - costs.assumed_ns("ring", workers, parameters, LINK)
        assert float(apart) == pytest.approx(2 * LINK.alpha_ns, rel=0.02)


def test_the_crossover() -> None:
    """The formula gives the design's figures, tends to 2 alpha B, and is where two runs cross."""
    found = [int(costs.crossover_explained(workers, LINK)) for workers in (2, 4, 8, 16)]
    assert found == [7_812, 17_045, 23_648, 27_372]
    limit = 2 * LINK.alpha_ns * LINK.bandwidth_bps / 8e9
    assert float(costs.crossover_explained(100_000, LINK)) == pytest.approx(limit, rel=0.001)
    assert costs.simulated_crossover(2, LINK, KINDS) == pytest.approx(found[0], rel=0.01)


def test_the_textbook_crosses_elsewhere() -> None:
    """Where commit and overlap are left out, the two forms themselves cross where `crossover_textbook` says."""
    for workers in (4, 9):
        at = int(costs.crossover_textbook(workers, LINK))
        below, above = (
            costs.assumed_ns("ring", workers, p, LINK) < costs.assumed_ns("server_nic", workers, p, LINK)
            for p in (at - 1, at + 1)
        )
        assert (below, above) == (False, True)


DISAGREEMENT = Disagreement(
    what="x",
    workers=2,
    parameters=10,
    one=1.0,
    one_tag="assumed",
    other=1.011,
    other_tag="simulated",
    unit="ms",
    explanation="",
)


def test_no_disagreement_stays_silent() -> None:
    """Above 1 %, either way, a document needs an explanation; up to it, none."""
    check_explained([msgspec.structs.replace(DISAGREEMENT, other=other) for other in (0.991, 1.0, 1.009)])
    check_explained([msgspec.structs.replace(DISAGREEMENT, explanation="because")])
    for other in (0.989, 1.011):
        with pytest.raises(InputError, match="nothing explains it"):
            check_explained([msgspec.structs.replace(DISAGREEMENT, other=other)])


def test_an_explanation_that_does_not_hold_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What explains a difference is a form of its own: where the run does not follow it, the words are not used."""
    from simharness.training import bench

    monkeypatch.setitem(bench._SIZES, True, (1_000,))
    monkeypatch.setitem(bench._WORKERS, True, (2,))
    cells, disagreements = bench._steps(LINK, KINDS, quick=True, told=lambda _: None)
    assert {(each.what, bool(each.explanation)) for each in disagreements} == {("ring", True)}
    assert [cell.tag for cell in cells] == ["assumed", "simulated"] * 3
    monkeypatch.setattr(costs, "explained_ns", costs.assumed_ns)
    _, disagreements = bench._steps(LINK, KINDS, quick=True, told=lambda _: None)
    with pytest.raises(InputError, match="nothing explains it"):
        check_explained(disagreements)

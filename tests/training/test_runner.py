"""Runs as step tables: what happened between steps, faults on the axis of steps, when a run broke, what is no violation."""

import pytest

from simharness.assertions.training_oracle.problem import problem_of
from simharness.core.errors import InputError
from simharness.training.breaking import INVARIANTS
from simharness.training.document import Pair
from simharness.training.losses import Losses
from simharness.training.runner import File, pair_names
from simharness.training.sights import NOT_VIOLATIONS, sightings
from tests.training.reports import SCENARIOS, file, pair, run

HEADER = "# reproduces: x\n# expected: pass-now\n# extends: {}\n"


def test_the_sawtooth() -> None:
    """Shards of 9, 15, 21 and 12 with batches of 4: the effective batch repeats with the epoch and falls to its end."""
    for found in pair("clean_own").runs:
        assert [step.batch for step in found.steps] == [16, 16, 13, 7, 4, 1] * 10
        assert all(step.batch == sum(step.counts) for step in found.steps)
        assert [mark.step for mark in found.marks if mark.kind == "epoch_end"] == list(range(5, 54, 6))
        assert found.outcome == "Pass"
        assert found.broken is None


def test_a_death() -> None:
    """The batch falls at the death and stays low; the shaded part of the axis begins at the step before which it was."""
    for found in pair("one_death").runs:
        (window,) = found.windows
        assert window.kind == "peer_kill"
        before = [step for step in found.steps if step.at_ns < window.from_ns]
        assert before[-1].step <= window.from_step <= before[-1].step + 1
        after = [step.batch for step in found.steps if step.step > window.from_step + 1]
        assert max(after) < max(step.batch for step in before)
        assert [mark.kind for mark in found.marks if mark.kind == "view"] == ["view"]


def test_when_it_broke() -> None:
    """With the unweighted mean: the first uneven step, by the reference, at the first who applied it; no other invariant."""
    for found in pair("clean_own", "UNWEIGHTED_MEAN").runs:
        assert found.broken is not None
        assert (found.broken.step, found.broken.invariant) == (2, INVARIANTS[0])
        assert found.broken.worker == ("hub" if found.strategy == "ps" else "w0")
        assert found.broken.at_ns == found.steps[2].at_ns
        assert [judged.kind for judged in found.verdicts if judged.outcome == "Fail"] == [INVARIANTS[0]]
        assert found.steps[2].ratio > 1 > found.steps[1].ratio


@pytest.mark.parametrize("name", [*dict.fromkeys(sight.scenario for sight in NOT_VIOLATIONS)])
def test_what_is_no_violation(name: str) -> None:
    """Whatever the list says a schedule shows is seen in its runs, and all six invariants pass (design, section 15)."""
    ring = name if SCENARIOS.joinpath(f"{name}.toml").exists() else "straggler"
    found = pair(name, ring=ring)
    for each in found.runs:
        passed = {judged.kind: judged.outcome for judged in each.verdicts}
        assert [passed[kind] for kind in INVARIANTS] == ["Pass"] * 6
    for sight in NOT_VIOLATIONS:
        if sight.scenario == name:
            assert sightings(sight, {name: found}), sight.says


def test_a_sight_that_is_not_there_is_not_counted() -> None:
    """Where nothing happened a counter stays at zero, and a schedule that was not run has none."""
    quiet = pair("clean_own")
    told = {sight.says: sightings(sight, {sight.scenario: quiet}) for sight in NOT_VIOLATIONS}
    nothing = [says for says, count in told.items() if not count]
    assert len(nothing) == len(NOT_VIOLATIONS) - 3  # last bits, times, empty contributions
    assert sightings(NOT_VIOLATIONS[0], {}) is None


def test_pairs() -> None:
    """Twins by name; a server file without a twin stands beside the ring of the file that it extends."""

    def files(**texts: str) -> dict[str, File]:
        return {name: file("clean_own")._replace(name=name, text=text) for name, text in texts.items()}

    own = HEADER.format("none")
    assert pair_names(files(a=own, a_ps=own, b_ps=HEADER.format("a_ps.toml"))) == [
        ("a", "a", "a_ps"),
        ("b", "a", "b_ps"),
    ]
    with pytest.raises(InputError, match=r"a_ps.toml, its twin, is missing"):
        pair_names(files(a=own))
    with pytest.raises(InputError, match=r"c.toml is no scenario at hand"):
        pair_names(files(b_ps=HEADER.format("c.toml")))
    with pytest.raises(InputError, match=r"b.toml, its twin, is missing"):
        pair_names(files(b_ps="name = 'without a header'"))


@pytest.mark.parametrize("model", ["linear", "sqhinge", "mlp"])
def test_the_loss_at_the_start(model: str) -> None:
    """At the first parameters the loss is what the definition gives, sample by sample."""
    config = {
        "model": model,
        "features": 3,
        "hidden": 2,
        "samples": 9,
        "learning_rate": [1, 16],
        "momentum": [0, 1],
        "init": "grid",
    }
    problem = problem_of(config, 5)
    from simharness.assertions.training_oracle.ieee import encode

    w = [value / 65536 for value in problem.start]
    total = 0.0
    for row, target in zip(problem.rows, problem.targets, strict=True):
        x, y = [value / 1024 for value in row], target / 65536
        if model == "mlp":
            z = [sum(x[j] * w[k * 3 + j] for j in range(3)) + w[6 + k] for k in range(2)]
            out = sum(value / (1 + abs(value)) * w[8 + k] for k, value in enumerate(z)) + w[10]
        else:
            out = sum(a * b for a, b in zip(x, w, strict=False)) + w[3]
        total += max(0.0, 1 - y * out) ** 2 / 2 if model == "sqhinge" else (out - y) ** 2 / 2
    assert Losses(problem).at(encode(problem.start, 16)) == pytest.approx(total / 9, rel=1e-12)


def test_a_run_is_a_function_of_its_file() -> None:
    """Twice the same digest; the document says which file and strategy it was."""
    from simharness.training.runner import run_file
    from tests.training.reports import KINDS

    once = run("clean_own_ps")
    assert run_file(file("clean_own_ps"), KINDS) == once
    assert (once.file, once.strategy, once.workers) == ("training/clean_own_ps.toml", "ps", 4)
    assert Pair(name="x", ring=once, ps=once).runs == (once, once)

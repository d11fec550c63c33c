"""Shows each finding again: with what was wrong (`on`), and without it. A finding's file is named like its demonstration.

What was wrong in a check is built here a second time, the way it was, since the checks themselves have been put right.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from simharness.assertions.catalog.training_order import TrainStepOrderFold
from simharness.assertions.fold import Board
from simharness.assertions.setting import from_scenario
from simharness.contracts.assertions import TRAINING_INVARIANTS, TrainStepOrder
from simharness.contracts.host import KindRegistry
from simharness.contracts.records import EventRecord
from simharness.scenario.loader import loads
from simharness.stateful.playing import Played, play
from simharness.training import costs, crosscheck
from simharness.training.coverage import covered
from simharness.training.document import STRATEGIES

_SILENT: Final = 0.01
_RECENT: Final = 8
_COARSE_BITS: Final = 0


class Shown(NamedTuple):
    """Whether the effect is there, and how it shows."""

    effect: bool
    words: str


Demonstration = Callable[[KindRegistry, bool], Shown]


def even_shards(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001  # the one switch of every demonstration
    """Judge the unweighted mean on shards of one size, or on uneven ones."""
    sizes = "[12, 12, 12, 12]" if on else "[9, 15, 21, 12]"
    lines = [f"shard_sizes = {sizes}", "allow_even = true", 'defects = ["UNWEIGHTED_MEAN"]', "guards = false"]
    found = {
        strategy: [verdict.outcome for verdict in _played(kinds, strategy, lines).verdicts()] for strategy in STRATEGIES
    }
    failures = sum(outcomes.count("Fail") for outcomes in found.values())
    return Shown(not failures, f"shards {sizes}, weighting wrong in both strategies: {failures} invariants fail")


def coarse_tolerance(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Ask the cross-check about a result that is a part in 10**12 off, its bounds rounded up to coarse or to fine units."""
    del kinds
    bits = _COARSE_BITS if on else crosscheck.FINE
    exact, bound = crosscheck.exact_of("sum", crosscheck.inputs().weights, crosscheck.FIRST, fine=bits)
    accepted = all(abs(value) / 10**12 <= limit for value, limit in zip(exact, bound, strict=True))
    return Shown(
        accepted, f"tolerances from {float(min(bound)):.1e}; a relative error of 1e-12 is {'in' if accepted else 'out'}"
    )


def needless_rollback(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Let a hub go back to the oldest state that it is offered, and ask the invariants with and without the justification."""
    lines = ['defects = ["EAGER_ROLLBACK"]', "guards = false", "checkpoint_every = 30"]
    faults = [(350, "peer_kill", "w0"), (380, "peer_resurrect", "w0")]
    played = _played(kinds, "ring", lines, faults)
    others = [verdict for verdict in played.verdicts() if verdict.kind != "train_step_order"]
    order = _order_fold(played, _Unjustified if on else TrainStepOrderFold)
    failed = [verdict.kind for verdict in others if verdict.outcome == "Fail"]
    failed += ["train_step_order"] if order.outcome == "Fail" else []
    rollbacks = sum(record.event["kind"] == "TrainRollback" for record in _events(played))
    return Shown(
        bool(rollbacks) and not failed, f"{rollbacks} needless rollback, objections: {', '.join(failed) or 'none'}"
    )


class _Unjustified(TrainStepOrderFold):
    """Invariant 4 as it was: a rollback lands on the lineage, and nobody asks whether it had to be."""

    def _need(self, at_ns: int, step: int, mark: object) -> None:
        del at_ns, step, mark


def _order_fold(played: Played, of: type[TrainStepOrderFold]) -> TrainStepOrderFold:
    fold = of(TrainStepOrder(), from_scenario(played.scenario), Board(), 0)
    handlers = fold.handlers()
    for line, record in enumerate(played.ordered.events):
        event = record.event  # type: ignore[union-attr]  # no snapshot
        if event["kind"] in handlers:
            handlers[event["kind"]](record.virtual_time_ns, record.host_id, event, line)
    return fold


def current_lineage(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Compare the weights that are reported for a step, by step alone or by generation and step, over a rollback of the server."""
    faults = [*_kills(333, "hub", "w3"), (400, "peer_resurrect", "hub")]
    played = _played(kinds, "ps", ["checkpoint_every = 8"], faults)
    first: dict[tuple[int, ...], str] = {}
    accused = 0
    for record in _events(played):
        event = record.event
        if event["kind"] in ("TrainApply", "TrainAdopt"):
            digest = event["post" if event["kind"] == "TrainApply" else "digests"][0]
            name = (event["step"],) if on else (event["generation"], event["step"])
            accused += first.setdefault(name, digest) != digest
    return Shown(bool(accused), f"{accused} states accused in a run without a fault of the protocol")


def recent_commits(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Look up the commit of an apply among the last few, or by generation and step, while a worker sleeps for long."""
    played = _played(kinds, "ring", ["pace_ns = 10_000_000"], [(209, "peer_pause", "w3")])
    commits: list[tuple[int, int]] = []
    accused = 0
    for record in _events(played):
        event = record.event
        if event["kind"] == "TrainCommit":
            commits.append((event["generation"], event["step"]))
        elif event["kind"] == "TrainApply":
            known = commits[-_RECENT:] if on else commits
            accused += (event["generation"], event["step"] - 1) not in known
    return Shown(bool(accused), f"{accused} applies without a commit in a run without a fault of the protocol")


def state_zero(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Kill everybody before the first checkpoint, with and without state 0 as a thing to go back to."""
    lines = ["checkpoint_every = 50", "guards = false", *(['defects = ["STATE0_LOST"]'] if on else [])]
    played = _played(kinds, "ring", lines, [*_kills(105), *_returns(155)])
    back_ns = max(mutation.at_ns for mutation in played.scenario.mutations)
    after = sum(record.event["kind"] == "TrainCommit" for record in _events(played) if record.virtual_time_ns > back_ns)
    return Shown(not after, f"{after} steps are committed after everybody is back")


def textbook_costs(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Compare the virtual clock with the textbook's forms, or with those that have the commit and the overlap."""
    link, apart = costs.Link(), []
    for layout in ("ring", "server_nic"):
        form = costs.assumed_ns if on else costs.explained_ns
        run = costs.simulated_ns(layout, 8, 100_000, link, kinds)
        apart.append(float(run / form(layout, 8, 100_000, link)) - 1)
    words = f"ring {100 * apart[0]:+.1f} %, server behind one NIC {100 * apart[1]:+.1f} %"
    return Shown(max(map(abs, apart)) > _SILENT, words)


def half_the_records(kinds: KindRegistry, on: bool) -> Shown:  # noqa: FBT001
    """Count the parts of the dead in commits, over host records alone or over all."""
    played = _played(kinds, "ps", ["pace_ns = 40_000_000"], [(150, "peer_slow", "w2"), (255, "peer_kill", "w1")])
    facts = from_scenario(played.scenario).training
    assert facts is not None
    found = covered(facts, _events(played) if on else played.ordered.events)["death after READY or PUSH"]
    return Shown(not found, f"contributions of a dead worker: {found}")


DEMONSTRATIONS: Final[dict[str, Demonstration]] = {
    each.__name__: each
    for each in (
        even_shards,
        coarse_tolerance,
        needless_rollback,
        half_the_records,
        current_lineage,
        recent_commits,
        state_zero,
        textbook_costs,
    )
}


def _events(played: Played) -> list[EventRecord]:
    return [record for record in played.ordered.events if isinstance(record, EventRecord)]


_Fault = tuple[int, str, str]
"""Milliseconds, kind, peer."""

_WORKERS: Final = ("w0", "w1", "w2", "w3")
_MORE: Final = {
    "peer_pause": "duration_ns = 300_000_000\n",
    "peer_slow": "factor_x100 = 800\nduration_ns = 100_000_000\n",
}


def _kills(at_ms: int, *workers: str) -> list[_Fault]:
    return [(at_ms, "peer_kill", worker) for worker in workers or _WORKERS]


def _returns(at_ms: int) -> list[_Fault]:
    """Return them, one after another, so that one of them is heard before the others."""
    return [(at_ms + 5 * place, "peer_resurrect", worker) for place, worker in enumerate(_WORKERS)]


def _played(kinds: KindRegistry, strategy: str, lines: Sequence[str], faults: Sequence[_Fault] = ()) -> Played:
    """Run a small job of four workers for 1.2 s."""
    text = _HEAD + "\n".join(["[training]", f'strategy = "{strategy}"', *lines]) + "\n"
    for name, kind in (("hub", "train_hub"), *((worker, "train_worker") for worker in _WORKERS)):
        text += f'[[peers]]\nid = "{name}"\nkind = "{kind}"\ninitial_state = "alive"\nkind_config = {{}}\n'
    text += '[[meshes]]\nshape = "full"\n'
    for at_ms, kind, peer in faults:
        text += f'[[mutations]]\nat_ns = {at_ms}_000_000\nkind = "{kind}"\npeer = "{peer}"\n{_MORE.get(kind, "")}'
    text += "".join(f'[[assertions]]\nkind = "{kind.__struct_config__.tag}"\n' for kind in TRAINING_INVARIANTS)
    return play(loads(text, kinds, name="demonstration"), kinds)


_HEAD: Final = """\
name = "demonstration"
seed = 7
duration_ns = 1_200_000_000
[default_tick]
period_ns = 10_000_000
[default_link]
latency_ns = 500_000
jitter_stddev_ns = 50_000
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 100_000_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 30_000_000_000
occupancy = "wire"
"""

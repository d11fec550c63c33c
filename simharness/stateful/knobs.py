"""The kill table: every defect is switched on in turn, and the property that exists for it must find it (ruling K1).

A property that has never been seen to fail says nothing. Here each is made to: within its own budget of examples, shrunk to a few
mutations, with a file that replays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from hypothesis import seed as with_seed
from hypothesis import settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from simharness.core.errors import InputError
from simharness.scenario.loader import loads
from simharness.stateful import session
from simharness.stateful.concluding import Conclusion
from simharness.stateful.failures import Failure, PropertyFailedError
from simharness.stateful.laws import judged_by
from simharness.stateful.machine import SimulationMachine, machine_settings
from simharness.stateful.playing import Played, play
from simharness.stateful.registry import KNOBS, law_named, property_named, resolve
from simharness.stateful.session import KINDS, Options

_SEED: Final = 0
MOST_EXEMPTIONS: Final = 2
"""Survivors that one system may have, each with a written argument."""

_LEAST_WORDS: Final = 20


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One defect, the property that must find it, and what must be left of the scenario after shrinking."""

    system: str = "swim"
    defect: str
    hunter: str
    """The property's name in the registry."""
    by: str
    """The assertion, law or other failure kind that must fire."""
    most_mutations: int = 0
    most_peers: int = 4


SWIM: Final = (
    Knob(defect="REFUTE_STALE_CLAIM", hunter="gossip_flap", by="self_incarnation_bounded"),
    Knob(defect="HEARSAY_OVER_EVIDENCE", hunter="gossip_flap", by="no_flap_while_probes_ok"),
    Knob(
        defect="TIMER_SURVIVES_REFUTATION",
        hunter="suspicion_timers",
        by="suspicion_runs_its_time",
        most_mutations=1,
    ),
    Knob(defect="ONE_STEP_REFUTE", hunter="restart_rejoin", by="dead_peer_resurrects_within", most_mutations=2),
    Knob(defect="FALSE_DEATH_ERASES_NAMES", hunter="names_survive", by="name_resolves_within", most_mutations=2),
    Knob(defect="DEMAND_QUEUE_STUCK", hunter="demand_served", by="demand_is_served"),
    Knob(defect="PROBE_KEY_SHARED", hunter="probes_join", by="acks_answer_their_probe", most_peers=5),
    Knob(defect="COMBINED_PIGGYBACK", hunter="message_size", by="message_size_bounded"),
    Knob(defect="ACK_DISPATCHED_AS_PING", hunter="healthy_cluster", by="healthy_cluster"),
    Knob(defect="UNORDERED_MEMBERS", hunter="mesh_under_faults", by="nondeterminism"),
    Knob(defect="OWN_PAUSE_COUNTED", hunter="pause_excused", by="pause_is_excused", most_mutations=2),
    Knob(defect="TIMER_SURVIVES_PAUSE", hunter="pause_excused", by="pause_is_excused", most_mutations=3),
    Knob(defect="TIMER_SURVIVES_ACK", hunter="suspicion_timers", by="answered_is_not_buried", most_mutations=1),
    Knob(defect="CLAIM_SURVIVES_ACK", hunter="rumours_settled", by="answered_is_not_accused", most_mutations=3),
)
"""`design/swim.md`'s table, column "must be caught by", and what was planted since."""


class Hunt(msgspec.Struct, frozen=True, kw_only=True):
    """What one hunt came to."""

    knob: Knob
    budget: int
    tries: int
    """Examples up to and including the first that failed; the whole budget if none did."""
    failure: Failure | None = None

    @property
    def killed(self) -> bool:
        """Whether the property found the defect."""
        return self.failure is not None

    @property
    def size(self) -> int:
        """Mutations that are left after shrinking."""
        return 0 if self.failure is None else len(self.failure.scenario.mutations)

    def shortcomings(self) -> tuple[str, ...]:
        """Return why this is not the kill that the table promises; empty if it is."""
        knob, failure = self.knob, self.failure
        if failure is None:
            return (f"{knob.hunter} did not find {knob.defect} in {self.budget} examples",)
        found = []
        if failure.kind != knob.by:
            found.append(f"{knob.defect} was caught by {failure.kind} and not by {knob.by}")
        peers = len(failure.scenario.peers)
        if self.size > knob.most_mutations or peers > knob.most_peers:
            allowed = f"{knob.most_mutations} mutations and {knob.most_peers} peers"
            found.append(f"{knob.defect} shrank to {self.size} mutations and {peers} peers; {allowed} are allowed")
        wrong = replay_fault(failure)
        return (*found, *([wrong] if wrong is not None else []))


def hunt(knob: Knob) -> Hunt:
    """Run the knob's property with its defect switched on, and shrink what it finds. The same hunt every time."""
    machine = property_named(knob.hunter)
    reports: list[bool] = []
    again = knob.by == "nondeterminism"
    with session.using(Options(seed=_SEED, swim_defects=(knob.defect,), twice=again)) as now:
        hunter = _watched(machine, reports)
        failure = _first_failure(hunter)
        ledger = now.ledger(machine.name)
        if failure is None and ledger.failures:
            failure = list(ledger.failures.values())[-1]
    tries = reports.index(True) + 1 if True in reports else len(reports)  # looks a value up
    return Hunt(knob=knob, budget=machine.budget, tries=tries, failure=failure)


def _watched(machine: type[SimulationMachine], reports: list[bool]) -> type[SimulationMachine]:
    """Return a class of its own for one hunt, since seeding a machine writes to its class; it notes which examples fail."""

    def report(self: SimulationMachine, conclusion: Conclusion) -> None:
        reports.append(conclusion.failure is not None)
        machine._report(self, conclusion)  # noqa: SLF001  # the same class but for this method

    hunter = type(machine.__name__, (machine,), {"__doc__": machine.__doc__, "_report": report})
    with_seed(_SEED)(hunter)
    return hunter


def _first_failure(hunter: type[SimulationMachine]) -> Failure | None:
    """Run Hypothesis; return the minimal failure that it raises.

    A nondeterministic system may pass when Hypothesis shows its minimal example; that is a failure of its own kind.
    """
    try:
        run_state_machine_as_test(hunter, settings=settings(machine_settings(hunter), database=None))
    except PropertyFailedError as error:
        return error.failure
    except (Flaky, ExceptionGroup):
        return None
    return None


def replay_fault(failure: Failure) -> str | None:
    """Run the failure's file from its text; return how the run differs from what was found, or None."""
    first = _replay(failure)
    if failure.kind == "nondeterminism":
        runs = {first.digest(), *(_replay(failure).digest() for _ in range(_RUNS))}
        return None if len(runs) > 1 else "runs of the file give one digest"
    if failure.digest and first.digest() != failure.digest:
        return "the file's run has another digest than the run that was found"
    law = law_named(failure.kind)
    if law is not None:
        verdicts = judged_by((law,), first.scenario, first.records)
    else:
        verdicts = tuple(verdict for verdict in first.verdicts() if verdict.kind == failure.kind)
    return (
        None if any(verdict.outcome == "Fail" for verdict in verdicts) else f"{failure.kind} does not fail on the file"
    )


_RUNS: Final = 8
"""More runs of a file that must differ: with two members an order of chance repeats every second time."""


def _replay(failure: Failure) -> Played:
    return play(loads(failure.toml(), KINDS, name=failure.scenario.name), KINDS)


class Exemption(msgspec.Struct, frozen=True, kw_only=True):
    """A defect that no property finds, and the argument why none can."""

    system: str
    defect: str
    argument: str


def exemptions_from(table: Mapping[str, Any], file: str) -> tuple[Exemption, ...]:
    """Read the exemptions file's table.

    Raises:
        InputError: If an entry is malformed, names no defect, argues too little, or a system has more than two.
    """
    try:
        entries = msgspec.convert(table.get("exempt", []), list[Exemption])
    except msgspec.ValidationError as error:
        raise InputError(file=file, field="exempt", rule=str(error)) from None
    for place, entry in enumerate(entries):
        known = [knob.defect for knob in resolve(KNOBS[entry.system])] if entry.system in KNOBS else []
        if entry.defect not in known:
            rule = f"unknown defect {entry.defect!r} of system {entry.system!r}; choose from {', '.join(known)}"
            raise InputError(file=file, field=f"exempt[{place}].defect", rule=rule)
        if len(entry.argument.split()) < _LEAST_WORDS:
            rule = f"an argument has at least {_LEAST_WORDS} words"
            raise InputError(file=file, field=f"exempt[{place}].argument", rule=rule)
        if sum(other.system == entry.system for other in entries) > MOST_EXEMPTIONS:
            rule = f"a system has at most {MOST_EXEMPTIONS} exemptions (ruling K1)"
            raise InputError(file=file, field=f"exempt[{place}].system", rule=rule)
    return tuple(entries)


def row(found: Hunt, exemptions: Sequence[Exemption], *, seconds: int) -> dict[str, Any]:
    """Return a hunt as a row of `simharness knobs --json` (ruling K1)."""
    knob = found.knob
    exempt = any((one.system, one.defect) == (knob.system, knob.defect) for one in exemptions)
    return {
        "system": knob.system,
        "defect": knob.defect,
        "killed": found.killed,
        "exempt": exempt,
        "by": None if found.failure is None else found.failure.kind,
        "tries": found.tries,
        "size": found.size,
        "seconds": seconds,
    }

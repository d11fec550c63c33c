"""Schedules as Hypothesis sees them: the rules append entries to a schedule that is played as it grows.

The world has no environment, person or chaos of its own: these are rules. Rules are macro-steps, so that an example is a few dozen
of them, and shrinking takes rules away. Keyed draws use seed 0. A broken invariant raises inside its rule.
"""

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from simharness.core.units import NS_PER_S
from simharness.supervisor import quiet
from simharness.supervisor.chooser import Draws, HypothesisChooser
from simharness.supervisor.params import SHAPES, Profile, draw, table
from simharness.supervisor.schedule import DISKS, ENV, PERSON, Entry, written
from simharness.supervisor.seats import NEVER
from simharness.supervisor.world import World
from simharness.systems.supervisor.config import NO_DEFECTS, Defects

SEED: Final = 0
_MOST_SUPERVISORS: Final = 2
_MOVES_S: Final = (1, 5, 16, 21, 36, 60, 180)
_FREEZES_S: Final = (20, 60, 180)
_FAULTS: Final = ("reply_lost", "late", "dropped", "refused", "crash", "fails", "reply_late")
_MOST_CALLS: Final = 12
_OBJECTS: Final = 4

_supervisors = st.integers(0, _MOST_SUPERVISORS - 1)
_calls = st.integers(1, _MOST_CALLS)


class ScheduleMachine(RuleBasedStateMachine):
    """One world, and the schedule that its rules have written so far."""

    defects: Defects = NO_DEFECTS

    def __init__(self) -> None:
        super().__init__()
        self.chooser = HypothesisChooser()
        self.world: World | None = None
        self.profile: Profile | None = None

    @initialize(
        shape=st.sampled_from(SHAPES),
        store=st.sampled_from(("memory", "file")),
        supervisors=st.integers(1, _MOST_SUPERVISORS),
        shared=st.booleans(),
        manual=st.booleans(),
        hold=st.booleans(),
        hidden=st.booleans(),
    )
    def begin(self, **drawn: Any) -> None:
        """Build the world."""
        given = {
            "store": drawn["store"],
            "supervisors": drawn["supervisors"],
            "lock": "everyone",
            "class": "plain",
            "kinds": ["find_omits"] if drawn["hidden"] else [],
            "shared": drawn["shared"],
            "abandon": "manual" if drawn["manual"] else "auto",
            "node_loss": "hold" if drawn["hold"] else "resubmit",
            "tamper": "none",
        }
        draws = Draws.of_seed(SEED)
        self.profile = draw(draws, drawn["shape"], given)
        self.world = World(draws, self.profile, schedule=self.chooser, defects=self.defects)

    @property
    def going(self) -> World:
        """The world, once it is built."""
        assert self.world is not None
        return self.world

    def play(self, *entries: Entry) -> None:
        """Append entries and play them; a move that is cut at a bound takes several steps."""
        for entry in entries:
            self.chooser.choose(entry)
            while not self.chooser.over:
                self.going.step()

    @rule(i=_supervisors, calls=_calls)
    def run(self, i: int, calls: int) -> None:
        """A supervisor goes on for some calls, undisturbed, unless it waits for time."""
        self._go_on(f"sup{i}", calls)

    @rule(i=_supervisors, calls=st.integers(0, _MOST_CALLS), mode=st.sampled_from(_FAULTS))
    def run_fault(self, i: int, calls: int, mode: str) -> None:
        """A supervisor goes on for some calls, and its next one meets a fault."""
        pid = f"sup{i}"
        self._go_on(pid, calls)
        if self._ready(pid):
            self.play(Entry(0, "run", pid, mode))

    def _go_on(self, pid: str, calls: int) -> None:
        for _ in range(calls):
            if not self._ready(pid):
                return
            self.play(Entry(0, "run", pid, "ok"))

    def _ready(self, pid: str) -> bool:
        return self.going.ready.get(pid, NEVER) <= self.going.now

    @rule(seconds=st.sampled_from(_MOVES_S))
    def advance(self, seconds: int) -> None:
        """Time passes; trainers that are due publish."""
        self.play(Entry(seconds * NS_PER_S, "idle"))
        for pid in [pid for pid in self.going.seats if pid.startswith("trainer")]:
            for _ in range(_MOST_CALLS):
                if not self._ready(pid):
                    break
                self.play(Entry(0, "run", pid))

    @precondition(lambda self: bool(self.going.truth.late))
    @rule(i=st.integers(0, 3), fate=st.sampled_from(("land", "lose")))
    def settle_late(self, i: int, fate: str) -> None:
        """A late call lands or is lost; one without a bound always lands in the end."""
        late = self.going.truth.late[i % len(self.going.truth.late)]
        self.play(Entry(0, "late", late.late_id, "land" if late.bound_ns is None else fate))

    @rule(i=_supervisors)
    def crash(self, i: int) -> None:
        """A supervisor crashes."""
        self.play(Entry(0, "crash", f"sup{i}"))

    @rule(i=_supervisors, seconds=st.sampled_from(_FREEZES_S))
    def freeze(self, i: int, seconds: int) -> None:
        """A supervisor freezes."""
        self.play(Entry(0, "freeze", f"sup{i}", str(seconds * NS_PER_S)))

    @rule(i=_supervisors)
    def thaw(self, i: int) -> None:
        """A frozen supervisor goes on."""
        self.play(Entry(0, "thaw", f"sup{i}"))

    @precondition(lambda self: bool(self.going.truth.objects()))
    @rule(i=st.integers(0, _OBJECTS - 1), what=st.sampled_from(ENV))
    def env(self, i: int, what: str) -> None:
        """The environment acts on an object."""
        objects = self.going.truth.objects()
        self.play(Entry(0, "env", objects[i % len(objects)].obj, what))

    @rule(command=st.sampled_from(PERSON[:-1]))
    def person(self, command: str) -> None:
        """The person asks for something."""
        self.play(Entry(0, "person", command))

    @precondition(lambda self: self._question() is not None)
    @rule()
    def answer(self) -> None:
        """The person answers a question."""
        question = self._question()
        assert question is not None
        self.play(Entry(0, "person", "answer", question))

    def _question(self) -> str | None:
        escalations = self.going.ledger.state.escalations.values()
        return next((one.id for one in escalations if one.answered_at is None), None)

    @rule(which=st.sampled_from(DISKS))
    def power_cut(self, which: str) -> None:
        """A disk loses its power."""
        self.play(Entry(0, "cut", which))

    def teardown(self) -> None:
        """End the schedule, and let the quiet phase bring the job to its end."""
        if self.world is None or self.world.checks.violated is not None:
            return
        self.chooser.close()
        quiet.begin(self.world)
        while not self.world.done:
            self.world.step()

    def example(self) -> tuple[dict[str, Any], list[str]]:
        """Return the example as a scenario would spell it: profile fields and schedule."""
        assert self.profile is not None
        return table(self.profile), written(self.chooser.entries)

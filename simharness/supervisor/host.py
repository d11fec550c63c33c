"""The engine driver: the whole world of one job as a host of kind `supervisor`.

Parked calls are no entries of the queue: which of them goes on is not a matter of time. What the queue owns is time: one step of
the world is one popped timer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simharness.contracts.host import (
    Action,
    Complaint,
    Halt,
    Host,
    HostContext,
    HostMessage,
    PeerFacts,
    RecordEvent,
    ScheduleTimer,
    TimerFired,
    Validated,
    Wire,
)
from simharness.core import canonical_json
from simharness.core.errors import EngineAbort
from simharness.supervisor.checks import Violation
from simharness.supervisor.chooser import JOB, Draws, ReplayChooser
from simharness.supervisor.params import FIELDS, complaints, draw
from simharness.supervisor.schedule import parse
from simharness.supervisor.trace import Recorded
from simharness.supervisor.world import World
from simharness.systems.supervisor.config import SupervisorDefect

_STEP: Final = 1
_NOTHING: Final[tuple[Action, ...]] = ()


class NoMessages:
    """The codec of a kind without messages."""

    def encode(self, message: Any) -> Wire:
        """Refuse: nothing is ever sent."""
        raise EngineAbort(rule="supervisor-has-no-messages", detail=f"{type(message).__name__} was to be sent")

    def decode(self, wire: Wire) -> Any:
        """Refuse: nothing is ever received.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"a supervisor's world takes no message, and {wire.tag} is one")

    def frame_overhead(self, tag: str) -> int:
        """Return 0."""
        del tag
        return 0


class SupervisorHost:
    """A world behind the host Protocol. World time is relative to the first tick."""

    kind_tag = "supervisor"

    def __init__(self, context: HostContext) -> None:
        self.id = context.host_id
        config = dict(context.config)
        schedule, defects = config.pop("schedule", None), config.pop("defects", ())
        draws = Draws(context.rng)
        self._draws, self._profile = draws, draw(draws, None, config)
        self._replay = None if schedule is None else ReplayChooser(map(parse, schedule))
        self._defects = frozenset(map(SupervisorDefect, defects))
        self._world: World | None = None
        self._start_ns = 0
        self._over = False

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Build the world at the first tick; later ones change nothing."""
        if self._world is not None:
            return _NOTHING
        self._start_ns = now_ns
        world = self._world = World(
            self._draws, self._profile, schedule=self._replay, defects=self._defects, record=True
        )
        assert isinstance(world.checks, Recorded)
        return [*map(RecordEvent, world.checks.take()), self._timer(world, now_ns)]

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Perform one step, and ask for the next."""
        world = self._world
        if not isinstance(message, TimerFired) or world is None:
            detail = f"{type(message).__name__} reached the world of a job, which takes timers only"
            raise EngineAbort(rule="supervisor-has-no-messages", detail=detail, host_id=self.id, at_ns=now_ns)
        if self._over:
            return _NOTHING
        assert isinstance(world.checks, Recorded)
        try:
            world.advance(now_ns - self._start_ns)
            records = world.act()
        except Violation as violation:
            world.checks.note("SupervisorViolation", invariant=violation.invariant, message=violation.message)
            return self._end(world.checks)
        if world.done:
            world.checks.note(
                "SupervisorSettled",
                steps=world.quiet_steps,
                tampered=world.ledger.tampered,
                trace_hash=world.trace_hash(),
            )
            return [*map(RecordEvent, records), *self._end(world.checks)]
        return [*map(RecordEvent, records), self._timer(world, now_ns)]

    def snapshot(self) -> bytes:
        """Return the fold of the record, the object table, the parked calls and the counters."""
        return canonical_json.compact({} if self._world is None else self._world.snapshot())

    def trace_hash(self) -> str:
        """Return the trace hash so far; empty before the first tick."""
        return "" if self._world is None else self._world.trace_hash()

    def _timer(self, world: World, now_ns: int) -> ScheduleTimer:
        return ScheduleTimer(now_ns + world.next_dt(), _STEP)

    def _end(self, checks: Recorded) -> list[Action]:
        self._over = True
        return [*map(RecordEvent, checks.take()), Halt()]


class SupervisorKind:
    """`kind_config`: any field of a profile (the others are drawn from the seed), `defects`, `schedule`. Starts "fresh".

    No mutation may be aimed at it: what happens to processes and machines is part of its own schedule.
    """

    kind_tag = "supervisor"
    codec = NoMessages()
    accepts_worker_exit = False
    accepts: tuple[str, ...] = ()

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check a `kind_config`; what is absent stays absent, for the seed to draw."""
        found: list[Complaint] = []
        if facts.id != JOB:
            found.append(Complaint("id", f'the peer of a supervisor scenario is called "{JOB}"'))
        if facts.initial_state != "fresh":
            found.append(Complaint("initial_state", 'the world of a job starts "fresh"'))
        given = {name: value for name, value in config.items() if name in FIELDS}
        found += [Complaint(f"kind_config.{field}", rule) for field, rule in complaints(given)]
        for name in config:
            if name not in (*FIELDS, "defects", "schedule"):
                choices = ", ".join((*FIELDS, "defects", "schedule"))
                found.append(Complaint(f"kind_config.{name}", f"unknown field; this kind knows: {choices}"))
        found += _schedule(config.get("schedule"))
        found += _defects(config.get("defects", []))
        return Validated(dict(config), tuple(found))

    def new(self, context: HostContext) -> Host:
        """Build one instance."""
        return SupervisorHost(context)


def _schedule(schedule: Any) -> list[Complaint]:
    if schedule is None:
        return []
    if not isinstance(schedule, list):
        return [Complaint("kind_config.schedule", "must be a list of strings")]
    found = []
    for place, entry in enumerate(schedule):
        try:
            parse(entry if isinstance(entry, str) else "")
        except ValueError as error:
            found.append(Complaint(f"kind_config.schedule[{place}]", str(error)))
    return found


def _defects(defects: Any) -> list[Complaint]:
    if not isinstance(defects, list):
        return [Complaint("kind_config.defects", "must be a list of names")]
    known = ", ".join(SupervisorDefect)
    return [
        Complaint(f"kind_config.defects[{place}]", f"unknown defect {name!r}; choose from {known}")
        for place, name in enumerate(defects)
        if name not in list(SupervisorDefect)
    ]


KIND: Final = SupervisorKind()

"""Ground truth: the scheduler in memory under fault modes, late landings, lag, purges and reused ids; every transition is told.

What of it is left to chance is a keyed draw by the object it is about. Counters are raised here, where an effect shows.
"""

from collections.abc import Callable
from typing import Final

from simharness.core.units import NS_PER_S
from simharness.supervisor.checks import Checks
from simharness.supervisor.chooser import JOB, Draws
from simharness.supervisor.faults import STYLES_BOUNDED, STYLES_UNBOUNDED
from simharness.supervisor.params import Profile
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.backend import Act, Adapter, BackendObject, Env, MemoryBackend
from simharness.systems.supervisor.config import Defects, Timing

OTHER_JOB: Final = "yesterday"
"""The job whose ended objects have ids that come again."""

_SLOW_NS: Final = 90 * NS_PER_S
_EDGE_NS: Final = 2 * NS_PER_S
_KILL: Final = (1 * NS_PER_S, 20 * NS_PER_S)
_AWAY: Final = (20 * NS_PER_S, 300 * NS_PER_S)
_PURGE: Final = (5 * NS_PER_S, 300 * NS_PER_S)
_TOLD: Final = frozenset({"state", "gated", "opened", "held", "bit", "revived"})


class LateCall:
    """A call that has been sent and will land later, or never. `bound_ns`: the last instant for a bounded one, else None."""

    __slots__ = ("bound_ns", "call", "late_id", "sent_ns", "style")

    def __init__(self, late_id: str, call: seam.BackendCall, style: str, sent_ns: int, bound_ns: int | None) -> None:
        self.late_id, self.call, self.style, self.sent_ns, self.bound_ns = late_id, call, style, sent_ns, bound_ns


class Truth:
    """The scheduler as it is.

    Args:
        profile: The seed's parameters.
        draws: Where keyed draws come from.
        timing: The job's declared timing.
        checks: Is told every transition.
        seen: Counters that this run has raised.
        execution: Told that an execution (object, run) began or ended.
        defects: Rules that are switched off.
    """

    def __init__(
        self,
        profile: Profile,
        draws: Draws,
        timing: Timing,
        checks: Checks,
        seen: set[str],
        execution: Callable[[str, int, bool], None],
        defects: Defects,
    ) -> None:
        self._profile, self._draws, self._timing, self._checks = profile, draws, timing, checks
        self._seen, self._execution = seen, execution
        self.now = 0
        self.quiet = False
        self.backend = MemoryBackend(shape=profile.shape, nature=self, watch=self._told)
        self.adapter = Adapter(self.backend, job=JOB, timing=timing, defects=defects)
        self.env = Env(self.backend)
        self.late: list[LateCall] = []
        self.living_trainers: set[str] = set()
        self.purged_at: dict[str, int] = {}
        self._late_ids: dict[str, int] = {}
        self._kinds = frozenset(profile.kinds)
        if "id_reused" in self._kinds:
            old = BackendObject(job=OTHER_JOB, n=1, a=1, id=1, created_at=0, visible_at=0, state="ended")
            old.cause = "completed"
            self.backend.plant(old)

    # --- Nature ------------------------------------------------------------------------------------------------------

    def id_for(self, n: int, a: int) -> int | None:
        """Return the id of an ended object with other labels, if the fault says so."""
        if self.quiet or "id_reused" not in self._kinds:
            return None
        if not self._draws.ppm(self._profile.rate_ppm, f"id_reused/{n}/{a}"):
            return None
        taken = [o.id for o in self.backend.objects if o.alive or (o.job, o.n, o.a) == (JOB, n, a)]
        usable = [o.id for o in self.backend.objects if not o.purged and o.id not in taken]
        return usable[self._draws.below(len(usable), f"reused/{n}/{a}")] if usable else None

    def visible_lag_ns(self, obj: str) -> int:
        """Return how long the object is hidden: up to VISIBLE_LAG under either fault, else not at all."""
        if self.quiet or not ("find_omits" in self._kinds or "id_reused" in self._kinds):
            return 0
        return self._draws.span_ns(0, self._timing.visible_lag_ns, f"lag/{obj}")

    def kill_after_ns(self, obj: str, runs: int) -> int:
        """Return how long a stopped execution takes to end."""
        return self._draws.span_ns(*_KILL, f"kill/{obj}/{runs}")

    def lost_for_ns(self, obj: str, runs: int) -> int | None:
        """Return how long a lost node stays away; half of them stay for ever."""
        if self._draws.below(2, f"lost/{obj}/{runs}"):
            return None
        return self._draws.span_ns(*_AWAY, f"away/{obj}/{runs}")

    def purge_after_ns(self, obj: str, runs: int) -> int | None:
        """Return how long an ended object stays listed, or None for ever."""
        if self.quiet or "object_purged" not in self._kinds:
            return None
        if not self._draws.ppm(self._profile.rate_ppm, f"purged/{obj}/{runs}"):
            return None
        return self._draws.span_ns(*_PURGE, f"purge/{obj}/{runs}")

    def processes_left(self, job: str) -> bool:
        """Tell whether a trainer of the job is alive."""
        return job == JOB and bool(self.living_trainers)

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Move the clock and let everything happen that is due."""
        self.now = now
        if now >= self.backend.due_ns:
            self.backend.advance(now)

    def earliest_bound_ns(self) -> int | None:
        """Return the next instant that the clock may not pass while the call that ends there is out."""
        return min([late.bound_ns for late in self.late if late.bound_ns is not None], default=None)

    def at_bound(self) -> LateCall | None:
        """Return a late call whose bound is now."""
        now = self.now
        for late in self.late:
            if late.bound_ns is not None and late.bound_ns <= now:
                return late
        return None

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, call: seam.BackendCall, mode: str, address: str) -> seam.BackendReply:
        """Execute a call in a fault mode; `address` names the call in keyed draws."""
        refused = self.adapter.admit(call, self.now)
        if refused is not None:
            self._seen.add("call_past_deadline")
            return refused
        if mode == "ok":
            return self._land(call)
        if mode == "refused":
            self._seen.add("start_refused" if isinstance(call, seam.Start) else "call_refused")
            return seam.Refused()
        if mode == "late":
            self._send_late(call, address)
        elif mode == "crash":
            self._crash_in(call)
        else:
            reply = self._land(call) if mode == "reply_lost" else None
            if isinstance(call, seam.Find):
                self._seen.add("find_failed")
            elif isinstance(call, seam.Start):
                self._seen.add("start_dropped" if reply is None else "start_reply_lost")
        return seam.Unknown()

    def _crash_in(self, call: seam.BackendCall) -> None:
        """Let the scheduler crash between the steps of a requeue: the bit stays set."""
        assert isinstance(call, seam.BoundedCall)
        self._land(call, steps=1)
        o = self.backend.get(JOB, call.obj)
        if o is not None and o.bit:
            self._seen.add("requeue_crashed")

    def _send_late(self, call: seam.BackendCall, address: str) -> None:
        bounded = isinstance(call, seam.BoundedCall)
        styles = STYLES_BOUNDED if bounded else STYLES_UNBOUNDED
        style = styles[self._draws.below(len(styles), f"style/{address}")]
        bound = self.adapter.bound_ns(call, self.now) if isinstance(call, seam.BoundedCall) else None
        name = late_name(call)
        number = self._late_ids[name] = self._late_ids.get(name, 0) + 1
        late_id = name if number == 1 else f"{name}+{number}"
        self.late.append(LateCall(late_id, call, style, self.now, bound))

    def landing(self) -> list[str]:
        """Return the late calls whose style lets them land now."""
        return [late.late_id for late in self.late if self._may_land(late)]

    def _may_land(self, late: LateCall) -> bool:
        match late.style:
            case "any":
                return True
            case "slow":
                return self.now >= late.sent_ns + _SLOW_NS
            case "outcome":
                return self._checks.outcome is not None
            case "settled":
                return self._checks.settled
        call = late.call
        assert isinstance(call, seam.BoundedCall)
        assert late.bound_ns is not None
        if late.style == "window":
            return self.now > call.deadline_ns
        if late.style == "edge":
            return self.now >= late.bound_ns - _EDGE_NS
        n = int(call.obj.split("/", 1)[0])
        return n in self._checks.over or any(o.opened and not o.alive for o in self.backend.of(JOB))

    def find_late(self, late_id: str) -> LateCall | None:
        """Return the late call of that id, if it is still out."""
        return next((late for late in self.late if late.late_id == late_id), None)

    def settle_late(self, late: LateCall, *, land: bool) -> None:
        """Let a late call land, or lose it for good."""
        self.late.remove(late)
        if land:
            self._land(late.call, late=True)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _land(self, call: seam.BackendCall, *, late: bool = False, steps: int = 3) -> seam.BackendReply:
        """Let a call take effect, and see what it has changed."""
        if isinstance(call, seam.Find):
            if any(o.visible_at > self.now for o in self.backend.of(JOB)):
                self._seen.add("find_omitted")
            return self.adapter.found(self.now)
        if isinstance(call, seam.Start):
            if late:
                self._seen.add("late_start")
            return self.adapter.land(call, self.now)
        o = self.backend.get(JOB, call.obj)
        if o is None or isinstance(call, seam.Cessation):
            return self.adapter.land(call, self.now)
        if isinstance(call, seam.Stop):
            self._checks.stop_landed(o.obj)
        before, bit = o.state, o.bit
        reply = self.adapter.land(call, self.now, steps=steps)
        self._landed(call, o, before, late=late)
        if isinstance(call, seam.ClearBit) and bit and not o.bit:
            self._seen.add("bit_restored")
        return reply

    def _landed(self, call: seam.BackendCall, o: BackendObject, state: str, *, late: bool) -> None:
        """Raise the counters of a call that has landed on an object, which was in `state` before."""
        seen = self._seen
        if late:
            seen.add(f"late_{late_name(call).partition(':')[0]}")
        if isinstance(call, seam.Open):
            if self._checks.cancelled:
                seen.add("open_after_cancel")
        elif isinstance(call, seam.Stop):
            if o.lost:
                seen.add("stop_on_lost_node")
        elif isinstance(call, seam.BoundedCall):
            if self.now > call.deadline_ns:
                seen.add("call_in_deadline_window")
            if call.kind == "requeue" and state != o.state:
                seen.add("requeue_running" if state == "running" else "requeue_revived")
                if self._checks.outcome is not None:
                    seen.add("requeue_after_outcome")

    def act(self, obj: str, act: Act) -> bool:
        """Let the environment act on an object; tell whether it could."""
        o = self.backend.get(JOB, obj)
        if o is None or not self.env.do(o, act, self.now):
            return False
        if act == "revive":
            self._seen.add("auto_revived")
        elif act == "lose" and o.lost:
            self._seen.add("node_lost")
        return True

    def objects(self) -> list[BackendObject]:
        """Return the job's objects that are not purged."""
        return self.backend.of(JOB)

    def _told(self, o: BackendObject, field: str, old: object, new: object) -> None:
        """Pass a transition of the job's objects on."""
        if o.job != JOB:
            return
        if field in _TOLD:
            self._checks.changed(o.obj, field, old, new)
            if field == "state":
                if new == "running":
                    self._execution(o.obj, o.runs, True)  # noqa: FBT003  # a callback has no keywords
                elif old in ("running", "stopping") and new != "stopping":
                    self._execution(o.obj, o.runs, False)  # noqa: FBT003
        elif field == "created":
            self._created(o)
        elif field == "purged":
            self._seen.add("object_purged")
            self.purged_at[o.obj] = self.now

    def _created(self, o: BackendObject) -> None:
        checks, seen = self._checks, self._seen
        if checks.cancelled:
            seen.add("create_after_cancel")
        if checks.settled:
            seen.add("create_after_settlement")
        if any(other.id == o.id for other in self.backend.objects if other is not o):
            seen.add("id_reused")
        checks.created(o.obj, gated=o.gated)


def late_name(call: seam.BackendCall) -> str:
    """Return what a schedule calls a late call: `start:1/1`, `open:1/1/7`, `requeue:1/1/7`."""
    if isinstance(call, seam.Start):
        return f"start:{call.n}/{call.a}"
    if isinstance(call, seam.BoundedCall):
        return f"{call.kind}:{call.obj}"
    assert not isinstance(call, seam.Find)
    return f"{type(call).__name__.lower()}:{call.obj}"

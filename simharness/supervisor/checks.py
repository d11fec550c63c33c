"""The invariants, judged from acknowledged record events and ground truth alone.

Nothing here comes from the system under test (ruling K7): the sets below are kept from raw event fields, so that a hole in the
record's own legality cannot blind a check. Each invariant is checked at the transition that can break it; `everything` looks at
what must hold at any time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Event = Mapping[str, Any]
Batch = Any
"""A batch as the record keeps it: compared, never looked into."""

Plain = Callable[[Batch], Sequence[Event]]

KIND: Final = "event"
"""The field of a record event that names what happened."""

_LAUNCHES: Final = frozenset({"submission_authorised", "attempt_authorised", "open_authorised"})
"""What nobody authorises while the record says held (R11)."""
_AFTER_CANCEL: Final = frozenset(
    {
        "submission_authorised",
        "attempt_authorised",
        "open_authorised",
        "call_authorised",
        "object_chosen",
        "fence_authorised",
        "resubmit_requested",
    }
)


class _Basis(NamedTuple):
    """What a proposed batch rests on."""

    batch: Batch
    listed: tuple[str, ...]
    """By the proposer's newest Find."""
    resolving: int
    """The greatest durable publication when the proposer's newest resolve began."""
    proposing: int
    """The greatest durable publication when the batch was proposed: whoever acts on it looks later."""


class Violation(Exception):  # noqa: N818  # what the design calls it
    """An invariant is broken. `invariant` is its number, "X1" to "X3" or "L"."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"invariant {invariant}: {message}")
        self.invariant, self.message = invariant, message


class Watched:
    """What the checks know of one object of the job."""

    __slots__ = ("alive", "bit", "gated", "held", "n", "name", "opened", "revived", "running")

    def __init__(self, name: str) -> None:
        self.name, self.n = name, int(name.split("/", 1)[0])
        self.alive = self.gated = True
        self.opened = self.held = self.bit = self.revived = self.running = False

    @property
    def loose(self) -> bool:
        """Whether the object can run, or could if the scheduler wanted."""
        return self.alive and (self.opened or not self.gated)


class Checks:
    """Keeps the shadow of the acknowledged record and a mirror of ground truth; raises `Violation`.

    Args:
        plain: Gives a batch as plain JSON values.
        skip: Invariants that are not looked at (the second pass of the kill test leaves out X1).
    """

    def __init__(self, plain: Plain, skip: Iterable[str] = ()) -> None:
        self._plain = plain
        self._skip = frozenset(skip)
        self.acknowledged: list[Batch] = []
        self.violated: str | None = None
        """The invariant that was found broken."""
        # --- the shadow
        self.outcome: str | None = None
        self.settled = self.cleaned = self.held = self.manual = self.any_abandon = False
        self._cancel_version: int | None = None
        self._retry_bound = 3
        self._current = 0
        self._attempts: set[tuple[int, int]] = set()
        self._canonical: dict[int, str] = {}
        self._retired: set[str] = set()
        self._verified: set[str] = set()
        self._known: set[str] = set()
        self._fenced: set[int] = set()
        self.over: set[int] = set()
        self._ceased: set[int] = set()
        # --- ground truth
        self.objects: dict[str, Watched] = {}
        self._loose: set[str] = set()
        self._trainers: set[str] = set()
        self._durable: set[int] = {0}
        self.greatest_durable = 0
        # --- calls
        self._started: set[tuple[int, int]] = set()
        self._opens_sent: set[str] = set()
        self._found: dict[str, tuple[str, ...]] = {}
        self._resolving: dict[str, int] = {}
        self._rests_on: dict[int, list[_Basis]] = {}
        self._refused: set[str] = set()
        self._tampered = False
        self._late_reads: set[str] = set()
        self._apply: dict[str, Callable[[Event, int], None]] = {
            "job_declared": self._on_declared,
            "submission_authorised": self._on_submission,
            "attempt_authorised": self._on_attempt,
            "attempt_abandoned": self._on_abandoned,
            "object_seen": self._on_seen,
            "object_chosen": self._on_chosen,
            "object_retired": self._on_retired,
            "fence_authorised": self._on_fence,
            "submission_ended": self._on_over,
            "launch_exhausted": self._on_over,
            "stop_verified": self._on_verified,
            "object_gone": self._on_verified,
            "hold": self._on_hold,
            "release": self._on_release,
            "resubmit_requested": self._on_resubmit,
            "cancel_requested": self._on_cancel,
            "give_up": self._on_outcome,
            "outcome_decided": self._on_outcome,
            "cleanup_completed": self._on_cleanup,
            "settled": self._on_settled,
        }

    @property
    def cancelled(self) -> bool:
        """Whether the acknowledged record holds a cancel."""
        return self._cancel_version is not None

    def fail(self, invariant: str, message: str) -> None:
        """Raise, unless the invariant is left out.

        Raises:
            Violation: If it is not.
        """
        if invariant not in self._skip:
            raise self.broken(invariant, message)

    def broken(self, invariant: str, message: str) -> Violation:
        """Take note of a broken invariant; return what is to be raised."""
        self.violated = invariant
        return Violation(invariant, message)

    # --- the record ----------------------------------------------------------------------------------------------

    def proposed(self, incarnation: str, version: int, batch: Batch) -> None:
        """A batch may become version `version`: note what its decision rests on."""
        resolving = self._resolving.get(incarnation, 0)
        basis = _Basis(batch, self._found.get(incarnation, ()), resolving, self.greatest_durable)
        self._rests_on.setdefault(version, []).append(basis)

    def acknowledge(self, version: int, batch: Batch) -> None:
        """A commit has said `ok`, or a read has returned the batch: it is part of the record for ever (invariant 3)."""
        known = self.acknowledged
        if version <= len(known):
            if known[version - 1] is not batch and known[version - 1] != batch:
                self.fail("3", f"version {version} was acknowledged with another content before")
            return
        if version != len(known) + 1:
            self.fail("3", f"version {version} is acknowledged, but {len(known) + 1} never was")
        known.append(batch)
        apply = self._apply
        for event in self._plain(batch):
            kind = event[KIND]
            if self._cancel_version is not None and kind in _AFTER_CANCEL:
                self.fail("2", f"{kind} at version {version}, after the cancel at {self._cancel_version}")
            if self.held and kind in _LAUNCHES:
                self.fail("X3", f"{kind} at version {version}, while the record says held")
            handler = apply.get(kind)
            if handler is not None:
                handler(event, version)

    def survived(self, batches: Sequence[Batch]) -> None:
        """The record's machine is back after a power cut: what was acknowledged must still be there (invariant 3)."""
        if self._tampered:
            return
        for place, batch in enumerate(self.acknowledged):
            if place >= len(batches) or batches[place] != batch:
                self.fail("3", f"version {place + 1} was acknowledged and is lost after a power cut")

    def _bases(self, version: int) -> list[_Basis]:
        """Return what the acknowledged batch rests on. Two may propose the same at one instant: then either may be it."""
        batch = self.acknowledged[version - 1]
        return [basis for basis in self._rests_on.get(version, ()) if basis.batch == batch]

    def _on_declared(self, event: Event, _version: int) -> None:
        self.manual = event["abandon"] == "manual"
        self._retry_bound = event["timing"]["retry_bound"]

    def _on_submission(self, event: Event, version: int) -> None:
        n, resume = event["n"], event["resume"]
        self._current = n
        if n > 1:
            least = min([basis.resolving for basis in self._bases(version)], default=0)
            if resume < least:
                self.fail("10", f"submission {n} resumes at {resume}, below the durable publication {least}")
            before = min([basis.proposing for basis in self._bases(version - 1)], default=0)
            if resume < before:
                self.fail(
                    "10", f"submission {n} resumes at {resume}, {before} was durable before version {version - 1}"
                )
            if resume not in self._durable:
                self.fail("10", f"submission {n} resumes at {resume}, which is not durable")

    def _on_attempt(self, event: Event, _version: int) -> None:
        self._attempts.add((event["n"], event["a"]))

    def _on_abandoned(self, _event: Event, _version: int) -> None:
        self.any_abandon = True

    def _on_seen(self, event: Event, _version: int) -> None:
        self._known.add(event["obj"])

    def _on_chosen(self, event: Event, _version: int) -> None:
        n, obj = event["n"], event["obj"]
        if self._canonical.setdefault(n, obj) != obj:
            self.fail("12", f"submission {n} had the canonical object {self._canonical[n]} and now has {obj}")

    def _on_retired(self, event: Event, _version: int) -> None:
        self._retired.add(event["obj"])
        self._look_at(event["obj"])

    def _on_fence(self, event: Event, _version: int) -> None:
        self._fenced.add(event["n"])

    def _on_over(self, event: Event, _version: int) -> None:
        self.over.add(event["n"])

    def _on_verified(self, event: Event, _version: int) -> None:
        obj = event["obj"]
        self._verified.add(obj)
        seen = self.objects.get(obj)
        if seen is not None and seen.bit and event[KIND] == "stop_verified":
            self.fail("X1", f"{obj} is recorded as stopped while its requeue bit is set")
        self._look_at(obj)

    def _on_hold(self, _event: Event, _version: int) -> None:
        self.held = True

    def _on_release(self, event: Event, _version: int) -> None:
        self.held = False
        if event["by"] == "cessation":
            if self._trainers:
                self.fail("X2", f"released by cessation while {', '.join(sorted(self._trainers))} is alive")
            self._ceased.add(self._current)

    def _on_resubmit(self, _event: Event, _version: int) -> None:
        self.held = False

    def _on_cancel(self, _event: Event, version: int) -> None:
        if self._cancel_version is None:
            self._cancel_version = version

    def _on_outcome(self, event: Event, version: int) -> None:
        outcome = "gave_up" if event[KIND] == "give_up" else event["state"]
        if self.outcome is not None:
            self.fail("1", f"outcome {outcome} at version {version}; it was {self.outcome} already")
        self.outcome = outcome

    def _on_cleanup(self, _event: Event, version: int) -> None:
        self.cleaned = True
        for obj in sorted(self._known.union(*[basis.listed for basis in self._bases(version)])):
            seen = self.objects.get(obj)
            if seen is not None and seen.alive:
                self.fail("16", f"clean-up is complete while {obj} is alive")
        self._look_at_loose()

    def _on_settled(self, _event: Event, _version: int) -> None:
        self.settled = True
        self._look_at_loose()
        self._look_at_alive()

    # --- ground truth --------------------------------------------------------------------------------------------

    def created(self, obj: str, *, gated: bool) -> None:
        """A Start has created an object of the job."""
        seen = self.objects[obj] = Watched(obj)
        if not gated:
            seen.gated, seen.opened = False, True
            self._look_at(obj)
        if self.settled:
            self._look_at_alive()

    def changed(self, obj: str, field: str, old: Any, new: Any) -> None:
        """A field of an object has changed: `state`, `gated`, `opened`, `held`, `bit` or `revived`."""
        seen = self.objects[obj]
        if field == "state":
            seen.running = new == "running"
            alive = new != "ended"
            if seen.n in self._ceased and (alive and (not seen.alive or seen.running)) and old != "stopping":
                self.fail("X2", f"{obj} lives on after its submission was released by cessation")
            seen.alive = alive
        elif field == "held":
            if seen.alive and old and self.held and self._cancel_version is None and self.outcome is None:
                self.fail("15", f"the hold of {obj} is undone while the record says held")
            seen.held = new
            return
        else:
            setattr(seen, field, new)
            if field == "bit":
                return
        self._look_at(obj)

    def trainer(self, key: str, *, alive: bool) -> None:
        """A trainer has started or ended."""
        if alive:
            self._trainers.add(key)
        else:
            self._trainers.discard(key)

    def durable(self, steps: Iterable[int]) -> None:
        """Checkpoints of these steps are durable from now on."""
        self._durable.update(steps)
        self.greatest_durable = max(self._durable)

    def listed(self, steps: Iterable[int]) -> None:
        """The checkpoint disk is back after a power cut: its greatest durable publication must be listed (invariant 10)."""
        if self.greatest_durable and self.greatest_durable not in steps:
            self.fail("10", f"the durable publication {self.greatest_durable} is lost after a power cut")

    def stop_landed(self, obj: str) -> None:
        """A Stop lands on an object (invariant 5)."""
        seen = self.objects.get(obj)
        if seen is not None and seen.alive and self.running_canonical() == obj:
            self.fail("5", f"a Stop lands on {obj}, the canonical object of the running submission")

    def running_canonical(self) -> str | None:
        """Return the canonical object of the running submission, if there is one."""
        n = self._current
        if self._cancel_version is not None or self.outcome is not None or n in self._fenced or n in self.over:
            return None
        return self._canonical.get(n)

    # --- calls and reads -----------------------------------------------------------------------------------------

    def issued(self, incarnation: str, version: int, call: str, subject: str) -> None:
        """An incarnation decides on a backend call, from the record as it stood at `version`."""
        if incarnation in self._refused:
            self.fail("8", f"{incarnation} sends {call} after it refused the record")
        if call == "Open":
            self._opens_sent.add(subject)
            if self._cancel_version is not None and self._cancel_version <= version:
                self.fail("13", f"Open of {subject} from version {version}, the cancel is at {self._cancel_version}")
        elif call == "Start":
            n, a = map(int, subject.split("/"))
            if (n, a) in self._started:
                self.fail("14", f"a second Start of attempt {subject}")
            if (n, a) not in self._attempts:
                self.fail("14", f"Start of attempt {subject}, which is not authorised")
            if a > self._retry_bound:
                self.fail("14", f"Start of attempt {subject}, beyond the bound of {self._retry_bound}")
            self._started.add((n, a))

    def found(self, incarnation: str, objs: Sequence[str]) -> None:
        """A Find of the incarnation has listed these objects."""
        self._found[incarnation] = tuple(objs)

    def resolves(self, incarnation: str) -> None:
        """The incarnation lists the checkpoints: what is durable now must not be missed (invariant 10)."""
        self._resolving[incarnation] = self.greatest_durable

    def tampered(self) -> None:
        """Somebody has changed the record behind everybody's back; record-based checks end."""
        self._tampered = True

    def read_begins(self, incarnation: str) -> None:
        """A read of the record begins."""
        if self._tampered:
            self._late_reads.add(incarnation)

    def read_ends(self, incarnation: str, *, refused: bool) -> None:
        """A read of the record has succeeded, or has been refused as corrupt (invariant 8)."""
        if refused:
            self._refused.add(incarnation)
            if not self._tampered:
                self.fail("3", f"{incarnation} refuses a record that nobody has touched")
        elif incarnation in self._late_reads:
            self.fail("8", f"{incarnation} accepts a record that was tampered with")
        self._late_reads.discard(incarnation)

    # --- what must hold at any time ------------------------------------------------------------------------------

    def _look_at(self, obj: str) -> None:
        """Check everything that one object can break."""
        seen = self.objects.get(obj)
        if seen is None:
            return
        if not seen.loose:
            self._loose.discard(obj)
            if seen.opened:
                self._look_at_opened(seen)
            if seen.alive:
                if obj in self._verified:
                    self.fail("X1", f"{obj} is alive, but is recorded as stopped")
                if self.settled:
                    self._look_at_alive()
            return
        if obj in self._verified:
            self.fail("X1", f"{obj} is alive, but is recorded as stopped")
        self._look_at_opened(seen)
        self._loose.add(obj)
        self._look_at_loose()

    def _look_at_opened(self, seen: Watched) -> None:
        if seen.name not in self._opens_sent and not seen.revived:
            self.fail("4", f"{seen.name} is open, but no Open was ever sent for it")
        if seen.name in self._retired:
            self.fail("6", f"{seen.name} is retired and opened")

    def _look_at_loose(self) -> None:
        """Check what is opened and alive: at most one (11), none after settlement (7) or after clean-up (16)."""
        loose = self._loose
        if not loose:
            return
        if len(loose) > 1:
            self.fail("11", f"{' and '.join(sorted(loose))} are opened and alive at once")
        if self.settled:
            self.fail("7", f"{min(loose)} is alive and not gated after settlement")
        if self.cleaned:
            self.fail("16", f"{min(loose)} is opened and alive after clean-up was complete")

    def _look_at_alive(self) -> None:
        """Check the second half of 7: under the manual policy without an Abandon nothing is alive after settlement."""
        if self.settled and self.manual and not self.any_abandon:
            for seen in self.objects.values():
                if seen.alive:
                    self.fail("7", f"{seen.name} is alive after settlement, manual and without an Abandon")

    def everything(self) -> None:
        """Look at every object again."""
        for obj in self.objects:
            self._look_at(obj)
        self._look_at_loose()
        self._look_at_alive()

"""What a run leaves behind: the trace hash, the trace records, and lines that a person can read."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from simharness.core.units import NS_PER_MS, NS_PER_S
from simharness.supervisor.checks import Batch, Checks, Plain

_LAST_LINES: Final = 40


class TraceHash:
    """BLAKE2b over (step, now, actor, op, reply) of every step."""

    __slots__ = ("_hash", "_lines", "add")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._lines: list[str] = []
        self.add: Final = self._lines.append
        """Adds one step, as a line. A run has a few thousand: they are hashed when somebody asks."""

    def hexdigest(self) -> str:
        """Return the hash of what was added so far."""
        if self._lines:
            self._hash.update("\n".join(self._lines).encode() + b"\n")
            self._lines.clear()
        return self._hash.hexdigest()


class Recorded(Checks):
    """Checks that also keep a record of everything they are told: what the bundle holds and the assertion folds anew."""

    def __init__(self, plain: Plain, skip: Iterable[str] = ()) -> None:
        super().__init__(plain, skip)
        self._records: list[dict[str, Any]] = []

    def take(self) -> list[dict[str, Any]]:
        """Return the records since the last call."""
        records, self._records = self._records, []
        return records

    def note(self, kind: str, **fields: Any) -> None:
        """Keep one record."""
        self._records.append({"kind": kind, **fields})

    def proposed(self, incarnation: str, version: int, batch: Batch) -> None:
        """Keep a proposal."""
        self.note("Proposed", incarnation=incarnation, version=version, batch=list(self._plain(batch)))
        super().proposed(incarnation, version, batch)

    def acknowledge(self, version: int, batch: Batch) -> None:
        """Keep a batch the first time; later ones only if they differ."""
        known = self.acknowledged
        if version > len(known) or (known[version - 1] is not batch and known[version - 1] != batch):
            self.note("Acknowledged", version=version, batch=list(self._plain(batch)))
        super().acknowledge(version, batch)

    def survived(self, batches: Sequence[Batch]) -> None:
        """Keep what a power cut has left of the record."""
        self.note("RecordSurvived", batches=[list(self._plain(batch)) for batch in batches])
        super().survived(batches)

    def created(self, obj: str, *, gated: bool) -> None:
        """Keep a creation."""
        self.note("Created", obj=obj, gated=gated)
        super().created(obj, gated=gated)

    def changed(self, obj: str, field: str, old: Any, new: Any) -> None:
        """Keep a transition."""
        self.note("Changed", obj=obj, field=field, old=old, new=new)
        super().changed(obj, field, old, new)

    def trainer(self, key: str, *, alive: bool) -> None:
        """Keep a trainer's start or end."""
        self.note("Trainer", key=key, alive=alive)
        super().trainer(key, alive=alive)

    def durable(self, steps: Iterable[int]) -> None:
        """Keep a publication."""
        found = sorted(steps)
        self.note("CheckpointsDurable", steps=found)
        super().durable(found)

    def listed(self, steps: Iterable[int]) -> None:
        """Keep what a power cut has left of the checkpoints."""
        found = sorted(steps)
        self.note("CheckpointsSurvived", steps=found)
        super().listed(found)

    def stop_landed(self, obj: str) -> None:
        """Keep the landing of a Stop."""
        self.note("StopLanded", obj=obj)
        super().stop_landed(obj)

    def issued(self, incarnation: str, version: int, call: str, subject: str) -> None:
        """Keep a call."""
        self.note("CallIssued", incarnation=incarnation, version=version, call=call, subject=subject)
        super().issued(incarnation, version, call, subject)

    def found(self, incarnation: str, objs: Sequence[str]) -> None:
        """Keep the reply of a Find."""
        self.note("Found", incarnation=incarnation, objs=list(objs))
        super().found(incarnation, objs)

    def resolves(self, incarnation: str) -> None:
        """Keep the start of a resolve."""
        self.note("Resolves", incarnation=incarnation)
        super().resolves(incarnation)

    def tampered(self) -> None:
        """Keep the tampering."""
        self.note("Tampered")
        super().tampered()

    def read_begins(self, incarnation: str) -> None:
        """Keep the start of a read."""
        self.note("ReadBegins", incarnation=incarnation)
        super().read_begins(incarnation)

    def read_ends(self, incarnation: str, *, refused: bool) -> None:
        """Keep the result of a read."""
        self.note("ReadEnds", incarnation=incarnation, refused=refused)
        super().read_ends(incarnation, refused=refused)


def readable(step: int, now_ns: int, actor: str, op: str, reply: str) -> str:
    """Return a step as a line for a person."""
    seconds, rest = divmod(now_ns, NS_PER_S)
    return f"{step:5} {seconds:6}.{rest // NS_PER_MS:03} s  {actor:<14} {op:<44} {reply}"


def last_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that a violation prints."""
    return list(lines[-_LAST_LINES:])

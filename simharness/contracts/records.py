"""What the engine hands to the bundle writer and the live evaluator (§3.2)."""

from typing import Any, Final, Literal

import msgspec

from simharness.contracts.mutations import Mutation, as_table

ENGINE_EVENTS: Final = (
    *("CacheStateChange", "Delivered", "DialOutcome", "DialStart", "DropOnDelivery", "DropOnSend", "Mutation"),
    *("RelayDequeue", "RelayDrop", "RelayEnqueue", "SendFailed"),
)
"""Every kind of event that no host records: those of the engine, the network and mutations."""


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """One event line. `sequence` is the run-wide order of emission; it orders lines of one instant and is not written."""

    virtual_time_ns: int
    sequence: int
    host_id: str | None
    kind_tag: str
    event: dict[str, Any]


class SnapshotRecord(msgspec.Struct, frozen=True, gc=False):
    """One host's snapshot: `snapshot` is the host's own JSON object."""

    virtual_time_ns: int
    sequence: int
    host_id: str
    kind_tag: str
    snapshot: bytes


class MutationRecord(msgspec.Struct, frozen=True, gc=False):
    """A mutation that was applied; it reads like an event with `kind_tag` "mutation" and no host."""

    virtual_time_ns: int
    sequence: int
    index: int
    mutation: Mutation

    @property
    def host_id(self) -> None:
        """A mutation belongs to no host."""
        return

    @property
    def kind_tag(self) -> str:
        """The tag of every mutation line."""
        return "mutation"

    @property
    def event(self) -> dict[str, Any]:
        """The event payload: kind, index, and the mutation as plain data (ruling B7)."""
        return {"kind": "Mutation", "index": self.index, "mutation": as_table(self.mutation)}


Record = EventRecord | SnapshotRecord | MutationRecord


class Termination(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended (ruling B6)."""

    reason: Literal["duration", "early", "aborted"]
    at_ns: int
    detail: str = ""

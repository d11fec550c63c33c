"""The host Protocol: what the engine calls and what a host returns (§3.2, §3.3, §6.1)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from simharness.contracts.disk import Disk
from simharness.contracts.mutations import AIMED_KINDS
from simharness.contracts.scenario import PeerDecl
from simharness.core.foreign import shown
from simharness.core.streams import HostRng

# --- what reaches `recv` -------------------------------------------------------------------------------------------


class App(msgspec.Struct, frozen=True, gc=False):
    """A decoded message of the kind's own type. Who sent it is the message's own matter, as on a real wire."""

    message: Any


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """The timer `token` is due now."""

    token: int


class SendFailed(msgspec.Struct, frozen=True, gc=False):
    """A send to `to` was refused; `reason` is a drop reason of `contracts.network`."""

    to: str
    reason: str


class WorkerExited(msgspec.Struct, frozen=True, gc=False):
    """The worker process of this host exited (§6A.3)."""

    reason: str
    status_code: int | None = None
    signal: int | None = None


class Slow(msgspec.Struct, frozen=True, gc=False):
    """From now on local work takes factor_x100 / 100 of its time (ruling K2); only for kinds that accept `peer_slow`."""

    factor_x100: int


HostMessage = App | TimerFired | SendFailed | WorkerExited | Slow


# --- what a host returns -------------------------------------------------------------------------------------------


class Wire(NamedTuple):
    """A message as it travels: its type tag beside its bytes. Decoding dispatches on the tag, never on the shape."""

    tag: str
    payload: bytes


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send `message` to the peer `to`. `wire` may carry its encoding if the host has made it already; else the engine encodes."""

    to: str
    message: Any
    wire: Wire | None = None


class RecordEvent(msgspec.Struct, frozen=True, gc=False):
    """Write one event: a JSON object that starts with `kind`. The engine stamps time, host and kind tag (ruling E24).

    The engine keeps the object as it is: a host must not change it afterwards.
    """

    event: dict[str, Any]


class ScheduleTimer(msgspec.Struct, frozen=True, gc=False):
    """Ask for `TimerFired(token)` at exactly `at_ns`; a time before now aborts the run."""

    at_ns: int
    token: int


class Halt(msgspec.Struct, frozen=True, gc=False):
    """From `tick`: no more ticks, `recv` goes on. From `recv`: `recv` stops too (ruling E5)."""


Action = Send | RecordEvent | ScheduleTimer | Halt


class Host(Protocol):
    """One peer. Reads no clock, socket, file or global; draws only from the rng it was built with."""

    @property
    def id(self) -> str:
        """The peer's id."""

    @property
    def kind_tag(self) -> str:
        """The tag of the host's kind."""

    def tick(self, now_ns: int) -> Sequence[Action]:
        """Act on a tick at `now_ns`."""

    def recv(self, message: HostMessage, now_ns: int) -> Sequence[Action]:
        """Act on a message or an envelope at `now_ns`."""

    def snapshot(self) -> bytes:
        """Return the host's state as one JSON object; it may show no time but what `tick` and `recv` brought."""


class Codec(Protocol):
    """Bytes on the wire (§3.3). `encode` then `decode` is the identity on the kind's messages."""

    def encode(self, message: Any) -> Wire:
        """Encode a message of this kind."""

    def decode(self, wire: Wire) -> Any:
        """Decode by tag.

        Raises:
            ValueError: If the tag is unknown or the bytes are not such a message; the engine aborts the run.
        """

    def frame_overhead(self, tag: str) -> int:
        """Return how many bytes the transport adds to the payload (ruling N19)."""


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind may look at when it validates one peer (§8.2)."""

    id: str
    initial_state: str
    tick_period_ns: int
    peer_ids: tuple[str, ...]


class Complaint(NamedTuple):
    """One broken rule of a host kind: `field` is relative to the peer's table, such as `kind_config.names[0]`."""

    field: str
    rule: str


class GroupComplaint(NamedTuple):
    """One broken rule across the peers of a group, held against one of them; `field` as in `Complaint`."""

    peer: str
    field: str
    rule: str


class Validated(NamedTuple):
    """The outcome of a kind's validation: the resolved `kind_config`, or every mistake found."""

    config: dict[str, Any]
    complaints: tuple[Complaint, ...] = ()


class HostContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a host instance is built from."""

    host_id: str
    config: dict[str, Any]
    initial_state: str
    tick_period_ns: int
    rng: HostRng
    peers: tuple[PeerDecl, ...]
    """Every declared peer, this one included, in scenario order."""
    disk: Disk
    """The machine's disk: one a peer and run, so that it outlives the instance; a kill cuts its power (ruling K3)."""
    instance: int = 0
    """0 for the first instance of the run, one more at every rebuild (ruling E8)."""


class HostKind(Protocol):
    """A kind of host: validation, construction and codec (§6.1).

    A kind may also have:

    - `always_rebuilt: bool`: its instances live once, so that every resurrection builds a fresh one whatever `preserve_state`
      says (ruling E25);
    - `accepts: tuple[str, ...]`: the mutation kinds that may be aimed at its peers (see `accepted`);
    - `table: str`: a top-level TOML table that is merged under the `kind_config` of its peers, whose own leaves win. Kinds with one
      table are one group;
    - `validate_group(peers: tuple[PeerDecl, ...]) -> Sequence[GroupComplaint]`: rules across the peers of the group, in scenario
      order, asked once, of the kind of the group's first peer, and only if each peer is sound by itself. A kind without a table is
      a group of its own;
    - `evidence_tags: tuple[str, ...]`: the type tags whose deliveries to its peers are put on record (`Delivered`);
    - `event_kinds: tuple[str, ...]`: every kind of event that its hosts may record, so that a name that is none of them is known to
      be misspelt (ruling C10).
    """

    @property
    def kind_tag(self) -> str:
        """The kind's name in scenarios and bundles; non-empty and unique."""

    @property
    def codec(self) -> Codec:
        """The kind's codec."""

    @property
    def accepts_worker_exit(self) -> bool:
        """Whether a `WorkerExit` may reach `recv`; for any other kind it aborts the run (§6A.3, ruling E15)."""

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`. Pure, cheap to import: `simharness check` calls it."""

    def new(self, context: HostContext) -> Host:
        """Build one instance."""


def accepted(kind: HostKind) -> tuple[str, ...]:
    """Return the mutation kinds that may be aimed at a peer of this kind.

    They are the kind's own `accepts` if it has one, else all but `peer_slow`, which a kind must understand; `worker_exit` only if
    `accepts_worker_exit` says so too.
    """
    listed = getattr(kind, "accepts", None)
    if listed is None:
        listed = [name for name in AIMED_KINDS if name != "peer_slow"]
    return tuple([name for name in listed if kind.accepts_worker_exit or name != "worker_exit"])


def why_no_host(built: object) -> str | None:
    """Return why what a kind's `new` returned cannot be called as a host, or None (ruling C8)."""
    if isinstance(built, type):
        return f"`new` returned {shown(built)}, which is a class; it has to return an instance"
    lacking = [name for name in ("tick", "recv", "snapshot") if not callable(getattr(built, name, None))]
    return f"`new` returned {shown(built)}, which has no {', '.join(lacking)}" if lacking else None


class KindRegistry(Protocol):
    """The known host kinds by name; what the scenario loader asks about a peer's `kind`."""

    def names(self) -> tuple[str, ...]:
        """Return every known name, sorted."""

    def get(self, name: str) -> HostKind | None:
        """Return the kind of that name, or None if there is none."""

"""The boundary between engine and network (§3.2): two queries and what they answer."""

from typing import Any, Literal, NamedTuple, Protocol

from simharness.contracts.mutations import Mutation

DropReason = Literal["no_route", "partitioned", "lossy", "relay_queue_full", "relay_down", "relay_peer_conn_down"]
"""Why a send was refused (`DropOnSend`)."""

LostReason = Literal["host_halted", "host_killed", "partition", "relay_down", "relay_peer_conn_down"]
"""Why a message in flight was lost (`DropOnDelivery`)."""


class Delay(NamedTuple):
    """Where one delivery's time went, in nanoseconds; the terms sum to arrival minus send time exactly (§5.7, §11.3).

    For a relayed route the edge terms are the sums over both legs. `jitter` may be negative; `clamp` is what keeps latency plus
    jitter from going below zero (ruling N2).
    """

    base_latency: int = 0
    occupancy_wait: int = 0
    serialisation: int = 0
    jitter: int = 0
    clamp: int = 0
    latency_spike: int = 0
    relay_buffer: int = 0
    dial: int = 0
    order_wait: int = 0
    reorder: int = 0
    relay_ingress: int = 0
    """Ingress queueing and serialisation."""
    relay_egress: int = 0
    """Egress queueing and serialisation."""
    relay_cold_start: int = 0


class Notice(NamedTuple):
    """Something that the network did and hosts do not see (§4.7): one future or past record of the bundle.

    `at_ns` after the clock: the engine queues it and writes it only if it comes to pass (ruling E3). Before the clock: only
    `CacheStateChange` (ruling V6). `relay_delta` changes the relay's running total of bytes when the notice is written; the
    engine stamps the new total as `enqueued_bytes` into `RelayEnqueue` and `RelayDequeue`, which are the notices whose
    `relay` is not None and whose event lacks a reason.
    """

    at_ns: int
    host_id: str | None
    kind_tag: str
    event: dict[str, Any]
    relay: str | None = None
    relay_delta: int = 0


class Arrive(NamedTuple):
    """The message is on its way. `message_id` rises with every send accepted for routing.

    `duplicate` is what became of a second copy of the message, if there was one (`DuplicateBurst`): it has its own id, notices and
    delay, and no copy of its own.
    """

    at_ns: int
    message_id: int
    notices: tuple[Notice, ...] = ()
    delay: Delay = Delay()
    duplicate: "Arrive | Drop | None" = None
    is_copy: bool = False


class Drop(NamedTuple):
    """The message was refused. Its notices (a relay that saw it) may still be cancelled by `message_id`; -1 if it has none."""

    reason: DropReason
    message_id: int = -1
    notices: tuple[Notice, ...] = ()


SendOutcome = Arrive | Drop


class InvalidatedDelivery(NamedTuple):
    """A delivery that a mutation made impossible."""

    at_ns: int
    message_id: int
    source: str
    target: str
    sent_at_ns: int
    reason: LostReason


class MutationEffect(NamedTuple):
    """What a mutation did to the network.

    `invalidated` is sorted by (at_ns, message_id), which is queue-key order: the engine drops these deliveries and their
    pending notices other than relay ones. `killed_messages` names every message whose pending *relay* notices are cancelled
    too, and `relay_emptied` the relay whose running total becomes 0 (`RelayKill`).
    """

    invalidated: tuple[InvalidatedDelivery, ...] = ()
    notices: tuple[Notice, ...] = ()
    killed_messages: tuple[int, ...] = ()
    relay_emptied: str | None = None


class Network(Protocol):
    """A directed graph of links and relays that answers send queries deterministically (§5)."""

    def send(self, source: str, target: str, byte_len: int, sent_at_ns: int) -> SendOutcome:
        """Route one message of `byte_len` bytes on the wire. Times never decrease from call to call."""

    def apply_mutation(self, mutation: Mutation, at_ns: int) -> MutationEffect:
        """Apply a mutation. Kinds that do not concern the network have no effect."""

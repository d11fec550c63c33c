"""What nodes say to each other. Values; their bytes are `wire`'s matter."""

from typing import NamedTuple

import msgspec

from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberState


class Record(NamedTuple):
    """One claim about one node: an update on the wire, or an entry of a JoinResponse."""

    node: NodeId
    state: MemberState
    incarnation: int


class NameEntry(NamedTuple):
    """One registration. The higher (timestamp, generation, node) wins, at a tie the tombstone; timestamps are logical."""

    name: str
    actor_addr: NodeId
    node: NodeId
    timestamp: int
    generation: int
    tombstone: bool


class MetadataEntry(NamedTuple):
    """What a node tells about itself. The higher generation wins."""

    node: NodeId
    relay_url: str | None
    node_name: str | None
    generation: int


class Ping(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Direct or relayed probe; the receiver answers `sender` with an Ack of the same sequence."""

    sender: NodeId
    sequence: int
    piggyback: bytes = b""


class Ack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Answer to a Ping."""

    sender: NodeId
    sequence: int
    piggyback: bytes = b""


class PingReq(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Asks a relay to ping `target`, and with `nack` (Lifeguard) to say in time if no answer has come."""

    sender: NodeId
    target: NodeId
    sequence: int
    piggyback: bytes = b""
    nack: bool = False


class IndirectAck(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A relay's word that `target` answered. It carries no sender: all credit goes to the target."""

    target: NodeId
    sequence: int
    piggyback: bytes = b""


class IndirectNack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A relay's word that `target` has not answered yet (Lifeguard): the relay and the way to it are well."""

    sender: NodeId
    target: NodeId
    sequence: int


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A newcomer asks a seed for the membership."""

    sender: NodeId


class JoinResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A seed's membership, or a part of it; the seed's own record is last in every part, and so names the sender."""

    members: tuple[Record, ...]


class RegistryGossip(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Pending names, in a frame of their own."""

    sender: NodeId
    entries: tuple[NameEntry, ...]


class MetadataGossip(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Pending metadata, in a frame of its own."""

    sender: NodeId
    entries: tuple[MetadataEntry, ...]


Message = (
    Ping | Ack | PingReq | IndirectAck | IndirectNack | JoinRequest | JoinResponse | RegistryGossip | MetadataGossip
)

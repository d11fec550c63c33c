"""Names and metadata riding on SWIM: last-writer-wins records, tombstones, and how they travel."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from simharness.systems.swim.config import MAX_TEXT_BYTES, Defect, SwimConfig, json_text_bytes
from simharness.systems.swim.dissemination import UNBOUNDED, transmit_budget
from simharness.systems.swim.ids import NodeId
from simharness.systems.swim.members import MemberList, MemberState
from simharness.systems.swim.messages import MetadataEntry, MetadataGossip, NameEntry, RegistryGossip
from simharness.systems.swim.sizes import payload_size
from simharness.systems.swim.wire import metadata_json, name_json, pack_combined

NAMES_A_MESSAGE: Final = 8
METADATA_A_MESSAGE: Final = 4
COLLECT_EVERY_TICKS: Final = 1_000
COLLECT_AFTER: Final = 3_600
"""Logical time units after which a tombstone that is no longer gossiped may be forgotten."""

_TRANSMITS: Final = 3

_Entry = TypeVar("_Entry", NameEntry, MetadataEntry)
_Key = TypeVar("_Key", str, NodeId)


def _take(
    pending: dict[_Key, int], known: dict[_Key, _Entry], limit: int, room: int, text: Callable[[_Entry], bytes]
) -> list[_Entry]:
    """Return the first pending entries that fit `room` bytes of JSON, and charge each one message."""
    taken: list[_Entry] = []
    for key in list(pending)[:limit]:
        entry = known[key]
        room -= len(text(entry)) + 1
        if room < 0:
            break
        taken.append(entry)
        pending[key] -= 1
        if not pending[key]:
            del pending[key]
    return taken


def _rank(entry: NameEntry) -> tuple[int, int, NodeId, bool]:
    """Return what two entries of one name are compared by: the higher wins.

    A process that starts anew counts from nothing, and may reach the rank of a tombstone of its former life with a claim. Then
    the tombstone wins, so that the owner learns of it and claims above it; if both stood, each where it came first, nothing
    would ever settle it.
    """
    return entry.timestamp, entry.generation, entry.node, entry.tombstone


class Registry:
    """Names and their owners. The clock is logical: it passes every timestamp that it has seen."""

    __slots__ = ("_clock", "_defects", "_entries", "_members", "_own", "_pending")

    def __init__(self, members: MemberList, defects: frozenset[Defect]) -> None:
        self._members = members
        self._defects = defects
        self._clock = 0
        self._entries: dict[str, NameEntry] = {}
        self._pending: dict[str, int] = {}
        self._own: dict[str, NodeId] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def pending(self) -> bool:
        """Whether any entry is still to be sent."""
        return bool(self._pending)

    def live(self) -> dict[str, NameEntry]:
        """Return the registrations that are no tombstones, by name, sorted."""
        return {name: self._entries[name] for name in sorted(self._entries) if not self._entries[name].tombstone}

    def register(self, name: str, actor_addr: NodeId) -> None:
        """Register `name` for this node.

        Raises:
            ValueError: If the name is empty or longer than `MAX_TEXT_BYTES` as JSON text.
        """
        if not name or json_text_bytes(name) > MAX_TEXT_BYTES:
            raise ValueError(f"a name is non-empty and at most {MAX_TEXT_BYTES} bytes as JSON text")
        self._own[name] = actor_addr
        self._write(name, actor_addr, self._members.self_id, tombstone=False)

    def unregister(self, name: str) -> NameEntry | None:
        """Tombstone a name of this node, for good, and return the tombstone; names of others, won ones too, are left alone."""
        actor_addr = self._own.pop(name, None)
        known = self._entries.get(name)
        own = self._members.self_id
        if actor_addr is None or (known is not None and known.node != own):
            return None
        return self._write(name, actor_addr, own, tombstone=True)

    def merge(self, entry: NameEntry) -> None:
        """Merge a received entry; what is news is passed on."""
        known = self._entries.get(entry.name)
        if known is not None and _rank(entry) <= _rank(known):
            return
        self._entries[entry.name] = entry
        self._clock = max(self._clock, entry.timestamp + 1)
        self._queue(entry.name)
        if entry.tombstone and entry.node == self._members.self_id and entry.name in self._own:
            self.reassert((entry.name,))

    def reassert(self, names: Iterable[str] | None = None) -> None:
        """Register own names anew, above any tombstone seen, because this node was taken for dead."""
        if Defect.FALSE_DEATH_ERASES_NAMES in self._defects:  # B6: a false Dead erases names for good
            return
        for name in self._own if names is None else names:
            self._write(name, self._own[name], self._members.self_id, tombstone=False)

    def bury(self, owner: NodeId) -> None:
        """Tombstone every name of a node that was found Dead."""
        for name, entry in list(self._entries.items()):
            if entry.node == owner and not entry.tombstone:
                self._write(name, entry.actor_addr, owner, tombstone=True)

    def disown(self) -> list[NameEntry]:
        """Tombstone all own names, and return the tombstones: this node leaves and will not claim them again."""
        tombstones = [self.unregister(name) for name in list(self._own)]
        return [tombstone for tombstone in tombstones if tombstone is not None]

    def standing_against(self, owner: NodeId, entries: Iterable[NameEntry]) -> list[NameEntry]:
        """Return the tombstones that beat these registrations of `owner`: one that started anew cannot know of them."""
        pairs = [(entry, self._entries.get(entry.name)) for entry in entries if entry.node == owner]
        return [
            known
            for entry, known in pairs
            if known is not None and known.tombstone and known.node == owner and _rank(entry) < _rank(known)
        ]

    def requeue_all(self) -> None:
        """Send everything again, for a peer that may know nothing."""
        for name in self._entries:
            self._queue(name)

    def take(self, limit: int, room: int) -> list[NameEntry]:
        """Return the next entries to send."""
        return _take(self._pending, self._entries, limit, room, name_json)

    def collect(self) -> None:
        """Forget old tombstones that are no longer gossiped."""
        for name, entry in list(self._entries.items()):
            if entry.tombstone and name not in self._pending and self._clock - entry.timestamp > COLLECT_AFTER:
                del self._entries[name]

    def _write(self, name: str, actor_addr: NodeId, owner: NodeId, *, tombstone: bool) -> NameEntry:
        self._clock += 1
        known = self._entries.get(name)
        generation = 1 if known is None else known.generation + 1
        entry = self._entries[name] = NameEntry(name, actor_addr, owner, self._clock, generation, tombstone)
        self._queue(name)
        return entry

    def _queue(self, name: str) -> None:
        self._pending[name] = transmit_budget(_TRANSMITS, self._members.cluster_size)


class Metadata:
    """What nodes tell about themselves, the newest generation of each."""

    __slots__ = ("_entries", "_members", "_pending")

    def __init__(self, members: MemberList) -> None:
        self._members = members
        self._entries: dict[NodeId, MetadataEntry] = {}
        self._pending: dict[NodeId, int] = {}

    @property
    def pending(self) -> bool:
        """Whether any entry is still to be sent."""
        return bool(self._pending)

    def version(self, node: NodeId) -> int | None:
        """Return the generation known of `node`, or None."""
        entry = self._entries.get(node)
        return None if entry is None else entry.generation

    def set_local(self, relay_url: str | None, node_name: str | None) -> None:
        """Publish this node's own metadata under the next generation."""
        own = self._members.self_id
        self._entries[own] = MetadataEntry(own, relay_url, node_name, (self.version(own) or 0) + 1)
        self._queue(own)

    def merge(self, entry: MetadataEntry) -> None:
        """Merge a received entry; what is news is passed on."""
        if entry.generation > (self.version(entry.node) or 0):
            self._entries[entry.node] = entry
            self._queue(entry.node)

    def reassert(self) -> None:
        """Send the own entry again: whoever held this node Dead has forgotten it."""
        if self._members.self_id in self._entries:
            self._queue(self._members.self_id)

    def forget(self, node: NodeId) -> None:
        """Forget what a Dead node told."""
        self._entries.pop(node, None)
        self._pending.pop(node, None)

    def requeue_all(self) -> None:
        """Send everything again, for a peer that may know nothing."""
        for node in self._entries:
            self._queue(node)

    def take(self, limit: int, room: int) -> list[MetadataEntry]:
        """Return the next entries to send."""
        return _take(self._pending, self._entries, limit, room, metadata_json)

    def _queue(self, node: NodeId) -> None:
        self._pending[node] = transmit_budget(_TRANSMITS, self._members.cluster_size)


class _Carrier(Protocol):
    """How pending names and metadata leave the node."""

    def repeats_on_alive(self, before: MemberState | None) -> bool:
        """Tell whether a peer that turned Alive from `before` is sent everything again."""

    def wrap(self, membership: bytes) -> bytes:
        """Return the piggyback that carries these membership bytes."""

    def frames(self) -> list[RegistryGossip | MetadataGossip]:
        """Return what follows a Ping or an Ack to the same peer."""


class _Combined:
    """Names and metadata nested in the piggyback of every message, without bound."""

    __slots__ = ("_metadata", "_registry")

    def __init__(self, registry: Registry, metadata: Metadata) -> None:
        self._registry, self._metadata = registry, metadata

    def repeats_on_alive(self, before: MemberState | None) -> bool:  # noqa: ARG002  # every Alive, self-loops included
        return True

    def wrap(self, membership: bytes) -> bytes:
        names = self._registry.take(NAMES_A_MESSAGE, UNBOUNDED)
        return pack_combined(membership, names, self._metadata.take(METADATA_A_MESSAGE, UNBOUNDED))

    def frames(self) -> list[RegistryGossip | MetadataGossip]:
        return []


class _Framed:
    """Names and metadata in bounded frames of their own; everything again only to a peer that is new or back from death."""

    __slots__ = ("_metadata", "_registry", "_room", "_self_id")

    def __init__(self, registry: Registry, metadata: Metadata, self_id: NodeId, room: int) -> None:
        self._registry, self._metadata, self._self_id, self._room = registry, metadata, self_id, room

    def repeats_on_alive(self, before: MemberState | None) -> bool:
        return before is None or before is MemberState.DEAD

    def wrap(self, membership: bytes) -> bytes:
        return membership

    def frames(self) -> list[RegistryGossip | MetadataGossip]:
        found: list[RegistryGossip | MetadataGossip] = []
        if self._registry.pending:
            names = self._registry.take(NAMES_A_MESSAGE, self._room)
            found.append(RegistryGossip(sender=self._self_id, entries=tuple(names)))
        if self._metadata.pending:
            told = self._metadata.take(METADATA_A_MESSAGE, self._room)
            found.append(MetadataGossip(sender=self._self_id, entries=tuple(told)))
        return found


class Names:
    """The registry and the metadata of one node, coupled to its membership."""

    __slots__ = ("_carrier", "_room", "_self_id", "frames", "metadata", "registry", "wrap")

    def __init__(self, members: MemberList, config: SwimConfig) -> None:
        self.registry = Registry(members, config.defects)
        self.metadata = Metadata(members)
        self._self_id = members.self_id
        empty = payload_size(RegistryGossip(sender=members.self_id, entries=()))
        self._room = config.max_message_bytes - empty if config.max_message_bytes else UNBOUNDED
        self._carrier: _Carrier
        if Defect.COMBINED_PIGGYBACK in config.defects:  # B2: nested in every message, all repeated on each Alive
            self._carrier = _Combined(self.registry, self.metadata)
        else:
            self._carrier = _Framed(self.registry, self.metadata, members.self_id, self._room)
        self.wrap = self._carrier.wrap
        self.frames = self._carrier.frames
        for name in config.names:
            self.registry.register(name, members.self_id)
        if config.relay_url is not None or config.node_name is not None:
            self.metadata.set_local(config.relay_url, config.node_name)

    def member_changed(self, node: NodeId, before: MemberState | None, state: MemberState) -> None:
        """Follow a membership change."""
        if state is MemberState.DEAD:
            self.registry.bury(node)
            self.metadata.forget(node)
        elif state is MemberState.ALIVE and self._carrier.repeats_on_alive(before):
            self.registry.requeue_all()
            self.metadata.requeue_all()

    def self_refuted(self) -> None:
        """Follow a refutation: whoever believed the claim may have dropped what this node told."""
        self.registry.reassert()
        self.metadata.reassert()

    def farewell(self) -> list[RegistryGossip]:
        """Give up the own names, and return the frames that say so."""
        return self.pack(self.registry.disown())

    def pack(self, entries: Iterable[NameEntry]) -> list[RegistryGossip]:
        """Return these entries in as few frames as their bounds allow."""
        known = {entry.name: entry for entry in entries}
        pending = dict.fromkeys(known, 1)
        frames = []
        while pending:
            taken = _take(pending, known, NAMES_A_MESSAGE, self._room, name_json)
            frames.append(RegistryGossip(sender=self._self_id, entries=tuple(taken)))
        return frames

    def absorb(self, names: Iterable[NameEntry], metadata: Iterable[MetadataEntry]) -> None:
        """Merge what a message brought."""
        for name in names:
            self.registry.merge(name)
        for told in metadata:
            self.metadata.merge(told)

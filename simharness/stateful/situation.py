"""What the faults so far have made of a run, as far as it decides which faults mean something next."""

from collections.abc import Mapping
from functools import cached_property

from simharness.contracts.host import HostKind, accepted
from simharness.contracts.mutations import (
    ClockDrift,
    ClockOffset,
    Heal,
    Mutation,
    Partition,
    PeerKill,
    PeerResurrect,
    RelayBoot,
    RelayCapacityChange,
    RelayKill,
    WorkerExit,
)
from simharness.contracts.scenario import Scenario
from simharness.contracts.topology import Relayed, Topology


class Situation:
    """What the mutations so far have made of a scenario, as far as it decides which faults mean something."""

    def __init__(self, scenario: Scenario, kinds: Mapping[str, HostKind]) -> None:
        self.peers = tuple(peer.id for peer in scenario.peers)
        self.relays = tuple(relay.id for relay in scenario.relays)
        self._declared = scenario.relays
        self._topology = Topology(scenario)
        self._accepted = {peer.id: accepted(kinds[peer.kind]) for peer in scenario.peers}
        self.dead: dict[str, bool] = {}
        self.exited: dict[str, bool] = {}
        self.down: dict[str, bool] = {}
        self.resized: dict[str, bool] = {}
        self.skewed: dict[str, bool] = {}
        self.cut = False
        self.busy_until_ns = 0
        """When the last timed effect ends."""

    @cached_property
    def senders(self) -> tuple[str, ...]:
        """The peers that have a route to anybody."""
        return tuple(peer for peer in self.peers if self.targets_of(peer))

    def targets_of(self, source: str) -> tuple[str, ...]:
        """Return the peers that `source` has a route to."""
        return tuple(peer for peer in self.peers if peer != source and self._topology.route(source, peer) is not None)

    def sources_of(self, target: str) -> tuple[str, ...]:
        """Return the peers that have a route to `target`."""
        return tuple(peer for peer in self.peers if peer != target and self._topology.route(peer, target) is not None)

    def through(self, relay: str, source: str) -> tuple[str, ...]:
        """Return the peers that `source` reaches through `relay`."""
        routes = ((peer, self._topology.route(source, peer)) for peer in self.peers if peer != source)
        return tuple(peer for peer, route in routes if isinstance(route, Relayed) and route.relay == relay)

    def is_up(self, peer: str) -> bool:
        """Tell whether a peer is neither killed nor exited."""
        return peer not in self.dead and peer not in self.exited

    def takes(self, kind: str, peer: str) -> bool:
        """Tell whether a fault of this kind may be aimed at a peer now: its host kind accepts it, and the peer is there."""
        return kind in self._accepted[peer] and self.is_up(peer) is not (kind == "peer_resurrect")

    def allows(self, kind: str) -> bool:
        """Tell whether a fault of this kind would mean something now."""
        match kind:
            case "partition":
                return len(self.senders) > 1
            case "heal":
                return self.cut
            case "latency_spike" | "loss_burst" | "relay_buffer" | "duplicate_burst":
                return bool(self.senders)
            case "peer_kill":  # somebody is left to notice
                return sum(map(self.is_up, self.peers)) > 1 and any(self.takes(kind, peer) for peer in self.peers)
            case "peer_resurrect" | "worker_exit" | "peer_pause" | "peer_slow" | "clock_offset" | "clock_drift":
                return any(self.takes(kind, peer) for peer in self.peers)
            case "relay_boot":
                return bool(self.down)
            case "relay_peer_conn_down":
                return any(self.through(relay, peer) for relay in self.relays for peer in self.peers)
            case _:
                return len(self.down) < len(self.relays)

    def apply(self, mutation: Mutation) -> None:
        """Follow one mutation."""
        match mutation:
            case Partition():
                self.cut = True
            case Heal():
                self.cut = False
            case PeerKill(peer=peer):
                self.dead[peer] = True
            case PeerResurrect(peer=peer):
                self.dead.pop(peer, None)
                self.exited.pop(peer, None)
            case WorkerExit(peer=peer):
                self.exited[peer] = True
            case RelayKill(relay=relay):
                self.down[relay] = True
            case RelayBoot(relay=relay):
                self.down.pop(relay, None)
            case RelayCapacityChange(relay=relay):
                self.resized[relay] = True
            case ClockOffset(peer=peer) | ClockDrift(peer=peer):
                self.skewed[peer] = True
            case _:
                self.busy_until_ns = max(self.busy_until_ns, mutation.at_ns + getattr(mutation, "duration_ns", 0))

    def undo(self, at_ns: int) -> tuple[Mutation, ...]:
        """Return the mutations that end every fault that lasts until it is ended (the quiet phase)."""
        resized = [
            RelayCapacityChange(
                at_ns=at_ns,
                relay=relay.id,
                ingress_capacity_bps=relay.ingress_capacity_bps,
                egress_capacity_bps_per_link=relay.egress_capacity_bps_per_link,
                queue_depth_bytes=relay.queue_depth_bytes,
            )
            for relay in self._declared
            if relay.id in self.resized
        ]
        down: list[Mutation] = [RelayBoot(at_ns=at_ns, relay=relay) for relay in self.relays if relay in self.down]
        gone = [PeerResurrect(at_ns=at_ns, peer=peer) for peer in self.peers if not self.is_up(peer)]
        wrong = [peer for peer in self.peers if peer in self.skewed]
        steady: list[Mutation] = [ClockDrift(at_ns=at_ns, peer=peer, drift_ppm=0) for peer in wrong]
        right = [ClockOffset(at_ns=at_ns, peer=peer, offset_ns=0) for peer in wrong]
        return (*([Heal(at_ns=at_ns)] if self.cut else []), *resized, *down, *gone, *steady, *right)

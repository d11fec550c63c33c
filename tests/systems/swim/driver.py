"""A few lines of network and clock around bare nodes: what the protocol needs to be watched without the simulator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from simharness.systems.swim.config import PROFILES, SwimConfig
from simharness.systems.swim.diagnostics import Event, Transition
from simharness.systems.swim.ids import Directory, NodeId, node_id
from simharness.systems.swim.members import MemberState
from simharness.systems.swim.messages import Ack, Ping
from simharness.systems.swim.node import SwimNode
from simharness.systems.swim.outbox import Outgoing
from simharness.systems.swim.wire import TAGS, decode, encode, pack_updates, update_json

MS = 1_000_000
TICK = 50 * MS
Delay = Callable[[str, str, int], int | None]
"""(from, to, sent at) -> nanoseconds, or None for a loss."""


def config(**changes: Any) -> SwimConfig:
    """A small fast configuration; `profile` names the defects."""
    profile = PROFILES[changes.pop("profile", "current")]
    fields: dict[str, Any] = {
        "tick_period_ns": TICK,
        "probe_interval": 10,
        "probe_timeout": 3,
        "suspicion_timeout": 30,
        "dead_reprobe_interval": 50,
        "defects": profile.defects,
    }
    return SwimConfig(**{**fields, **changes})


def alone(host: str = "a", others: str = "bc", incarnation: int = 0, **changes: Any) -> SwimNode:
    """One node that holds `others` Alive@0."""
    return SwimNode(
        directory=Directory([host, *others]),
        self_id=node_id(host),
        config=config(**changes),
        members=[(node_id(other), 0) for other in others],
        incarnation=incarnation,
    )


def updates(*claims: tuple[str, MemberState, int]) -> bytes:
    """The piggyback of these claims."""
    return pack_updates([update_json(node_id(host), state, incarnation) for host, state, incarnation in claims])


def rumour(*claims: tuple[str, MemberState, int], sender: str = "b", sequence: int = 9_999) -> Ping:
    """A Ping that carries claims."""
    return Ping(sender=node_id(sender), sequence=sequence, piggyback=updates(*claims))


def view(node: SwimNode, host: str) -> tuple[MemberState, int] | None:
    """What `node` thinks of `host`."""
    member = node.members.get(node_id(host))
    return None if member is None else (member.state, member.incarnation)


def sent(outputs: Iterable[Any], kind: type | None = None) -> list[Any]:
    """The messages among outputs, as (to, message) or only those of `kind`."""
    found = [output for output in outputs if isinstance(output, Outgoing)]
    return [output for output in found if kind is None or isinstance(output.message, kind)]


def events(outputs: Iterable[Any], kind: type) -> list[Any]:
    """The events of one kind among outputs."""
    return [output for output in outputs if isinstance(output, kind)]


def run_ticks(node: SwimNode, ticks: int, start: int = 0, period: int = TICK) -> list[Any]:
    """Tick a lone node; returns everything it put out. `start` counts the ticks that it had before."""
    return [output for step in range(start + 1, start + ticks + 1) for output in node.tick(step * period)]


def next_ping(node: SwimNode, start: int = 0, limit: int = 200) -> tuple[int, Outgoing]:
    """Tick until the node pings; returns the tick and the ping."""
    for step in range(start + 1, start + limit + 1):
        pings = sent(node.tick(step * TICK), Ping)
        if pings:
            return step, pings[0]
    raise AssertionError("no ping")


def ack_of(ping: Outgoing, piggyback: bytes = b"") -> Ack:
    """The answer to a ping."""
    return Ack(sender=ping.to, sequence=ping.message.sequence, piggyback=piggyback)


class Cluster:
    """Nodes, one heap, a delay function. Bytes travel, so that the codec is under test as well."""

    def __init__(
        self,
        hosts: Sequence[str],
        delay: Delay,
        *,
        configs: Mapping[str, SwimConfig] | None = None,
        report_losses: bool = True,
        joining: Mapping[str, Sequence[str]] | None = None,
        incarnations: Mapping[str, int] | None = None,
        **changes: Any,
    ) -> None:
        self.hosts, self.delay, self.report_losses = tuple(hosts), delay, report_losses
        self.directory = Directory(hosts)
        self.now = 0
        self.log: list[tuple[int, str, Event]] = []
        self.messages: list[tuple[int, str, str, Any, int]] = []
        self.joining = joining or {}
        self.incarnations = incarnations or {}
        self.configs = {host: (configs or {}).get(host) or config(**changes) for host in hosts}
        self.nodes = {host: self.build(host, self.incarnations.get(host, 0)) for host in hosts}
        self.down: dict[str, bool] = dict.fromkeys(hosts, False)
        self._heap: list[Any] = []
        self._serial = count()
        for host in hosts:
            self._at(self.configs[host].tick_period_ns, ("tick", host, 0))
        self._life = dict.fromkeys(hosts, 0)

    def build(self, host: str, incarnation: int = 0) -> SwimNode:
        """A fresh instance."""
        seeds = self.joining.get(host, ())
        known = () if seeds else [(node_id(other), self.incarnations.get(other, 0)) for other in self.hosts]
        return SwimNode(
            directory=self.directory,
            self_id=node_id(host),
            config=self.configs[host],
            members=known,
            seeds=[node_id(seed) for seed in seeds],
            incarnation=incarnation,
        )

    def _at(self, at_ns: int, entry: tuple[Any, ...]) -> None:
        heappush(self._heap, (at_ns, next(self._serial), entry))

    def _put(self, host: str, outputs: Sequence[Any]) -> None:
        for output in outputs:
            if not isinstance(output, Outgoing):
                self.log.append((self.now, host, output))
                continue
            to = self.directory.host(output.to)
            assert to is not None
            tag, payload = TAGS[type(output.message)], encode(output.message)
            self.messages.append((self.now, host, to, output.message, len(payload)))
            delay = self.delay(host, to, self.now)
            if delay is not None:
                self._at(self.now + delay, ("deliver", to, tag, payload))
            elif self.report_losses:
                self._at(self.now, ("failed", host, to))

    def run(self, until_ns: int) -> None:
        """Run everything due before `until_ns`."""
        while self._heap and self._heap[0][0] < until_ns:
            self.now, _, entry = heappop(self._heap)
            what, host = entry[0], entry[1]
            if what == "tick":
                if entry[2] == self._life[host] and not self.down[host]:
                    self._at(self.now + self.configs[host].tick_period_ns, entry)
                    self._put(host, self.nodes[host].tick(self.now))
            elif self.down[host]:
                continue
            elif what == "deliver":
                self._put(host, self.nodes[host].handle(decode(entry[2], entry[3]), self.now))
            else:
                self._put(host, self.nodes[host].report_send_failure(node_id(entry[2]), self.now))
        self.now = until_ns

    def kill(self, host: str) -> None:
        """Stop a host; what is on its way to it is lost if it arrives meanwhile."""
        self.down[host] = True
        self._life[host] += 1

    def resurrect(self, host: str, *, preserve: bool) -> None:
        """Start a host again, with its state or from nothing."""
        self.down[host] = False
        self._life[host] += 1
        if not preserve:
            self.nodes[host] = self.build(host)
        self._at(self.now + self.configs[host].tick_period_ns, ("tick", host, self._life[host]))

    def of(self, kind: type, host: str | None = None) -> list[tuple[int, str, Any]]:
        """The logged events of one kind, of one host if named."""
        return [entry for entry in self.log if isinstance(entry[2], kind) and host in (None, entry[1])]

    def transitions(self, host: str, peer: str) -> list[tuple[int, str, str, str]]:
        """(time, from, to, reason) of every change of `host`'s opinion of `peer`."""
        return [
            (at, event.before, event.after, event.reason)
            for at, _, event in self.of(Transition, host)
            if event.peer == node_id(peer)
        ]

    def views(self, peer: str) -> dict[str, tuple[MemberState, int] | None]:
        """What every live host thinks of `peer`."""
        return {host: view(self.nodes[host], peer) for host in self.hosts if host != peer and not self.down[host]}

    def incarnation(self, host: str) -> int:
        """The own incarnation of `host`."""
        return self.nodes[host].members.self_incarnation


def constant(latency_ns: int) -> Delay:
    """Every message takes this long."""
    return lambda _from, _to, _now: latency_ns


def ids(*hosts: str) -> list[NodeId]:
    """The ids of these hosts."""
    return [node_id(host) for host in hosts]

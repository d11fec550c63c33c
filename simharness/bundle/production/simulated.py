"""A simulated bundle, or one of a live run, in production's form (§9.5)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, Final

from simharness.bundle.places import MANIFEST
from simharness.bundle.production import names as roles
from simharness.bundle.production.capture import (
    Exact,
    ExactTime,
    Facts,
    NodeEvent,
    NodeSnapshot,
    by_label,
    snapshots_by_label,
)
from simharness.bundle.production.connections import Connections
from simharness.bundle.production.names import Names, Node, labelled
from simharness.bundle.production.reachability import Reachability
from simharness.bundle.production.states import opinions, tier2
from simharness.bundle.production.survey import Survey, owner, survey
from simharness.bundle.production.translate import Emitter, to_production
from simharness.bundle.reader import Bundle, EventLine, SnapshotFile
from simharness.core.units import NS_PER_MS
from simharness.systems.swim.ids import node_id

SUBSTITUTIONS: Final = (
    "run_start_collector_ms and run_end_collector_ms are virtual time: there is no collector",
    "process_start_unix_ms is 0: every process starts with the run",
    "node_id is the SHA-256 of the host id",
    "monotonic_seq counts the records of a node in the order of its events",
    "attempt of a dial is 1 and its timeout_ms 10000: a simulated dial does not fail",
    "ConnectionCacheHit, ConnectionCacheMiss and ConnectionCacheInvalidated are derived from sends, dials and cache changes",
    "snapshot trigger is OnDemand: the scenario asked for it",
    "reachability is derived from the records of the node and its tier-2 state",
    "finalize says how the process ended: it was not sent",
)
"""What stands in for inputs that only production has (§9.5), beside what the bundle's own manifest lists."""

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_NAME_CHARS: Final = 64


class Simulated:
    """A `Capture` of a bundle.

    Args:
        bundle: The bundle; its hashes are not checked here.

    Raises:
        InputError: From here and from every iteration, if a file of the bundle is malformed.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._survey = survey(bundle)
        self._termination = bundle.manifest["termination"]
        end_ns = self._termination.get("at_ns")
        if type(end_ns) is not int or end_ns < 0:
            raise bundle.malformed(MANIFEST, "termination.at_ns", "must be an unsigned integer")
        scenario = _NO_NAME.sub("_", self._survey.scenario)[:_NAME_CHARS].lstrip(".") or "run"
        self.facts: Facts = Facts(
            run_id=f"{scenario}-{bundle.manifest.get('seed')}",
            start_ms=0,
            end_ms=end_ns // NS_PER_MS,
            finalize_received=bundle.manifest.get("finalize_received") is True,
        )
        self.nodes: tuple[Node, ...] = labelled(self._unlabelled(self._survey))
        self.names: Names = Names(self.nodes)
        self.unknown_types: Mapping[str, int] = MappingProxyType({})
        self._by_name = {node.name: node for node in self.nodes if node.role != roles.ENGINE or not node.synthetic}
        self._engine = next((node for node in self.nodes if node.node_id == roles.ENGINE_ID), None)

    def events(self) -> Iterator[NodeEvent]:
        """Yield the event records, what is derived included."""
        return by_label(event for _, event in self._made())

    def snapshots(self) -> Iterator[NodeSnapshot]:
        """Yield the snapshots."""
        return snapshots_by_label(self._snapshots())

    def event_lines(self) -> Iterator[EventLine]:
        """Yield the events of the bundle as they are."""
        return self.bundle.events()

    def snapshot_files(self) -> Iterator[SnapshotFile]:
        """Yield the snapshots of the bundle as they are."""
        return self.bundle.snapshots()

    def _unlabelled(self, known: Survey) -> list[Node]:
        nodes = [self._host(host, known) for host in known.hosts]
        nodes += [self._node(relay, node_id(relay), roles.RELAY, synthetic=True) for relay in known.relays]
        if known.engine:
            nodes.append(self._node("", roles.ENGINE_ID, roles.ENGINE, synthetic=True))
        return nodes

    def _host(self, host: str, known: Survey) -> Node:
        index = known.stages.get(host)
        role = host if index is None else roles.STAGE
        node = self._node(host, node_id(host), role, index=index, count=len(known.stages))
        reason = known.endings.get(host)
        if reason is None and self._termination.get("reason") != "aborted":
            reason = self._termination.get("reason")
        if host in known.dead or reason is None:
            return node
        return node._replace(finalize={"exit_reason": reason}, finalize_recorded=True)

    def _node(
        self,
        name: str,
        key: bytes,
        role: str,
        *,
        synthetic: bool = False,
        index: int | None = None,
        count: int | None = None,
    ) -> Node:
        text = key.hex()
        identity = {
            "node_id_hex": text,
            "node_id_short": text[: roles.SHORT],
            "role": role,
            "run_id": self.facts.run_id,
            "process_start_unix_ms": 0,
            "boot_sequence": 0,
            "stage_index": index,
            "stage_count": None if index is None else count,
            "vastai_contract_id": None,
            "host_ip_public": None,
            "host_country": None,
            "datacenter_id": None,
            "hostname": name or None,
            "container_id": None,
            "binary_version": self.bundle.manifest.get("simulator_version"),
            "git_sha": None,
            "iroh_version": None,
            "home_relay_url_at_boot": None,
        }
        return Node("", key, name, identity, role=role, stage_index=index, synthetic=synthetic)

    def _node_of(self, host_id: str | None, event: dict[str, Any]) -> Node:
        if host_id is not None:
            return self._by_name[host_id]
        relay = owner(event, self._survey.relays)
        node = self._engine if relay is None else self._by_name[relay]
        assert node is not None, "the survey saw this record"
        return node

    def _made(self) -> Iterator[tuple[int, NodeEvent]]:
        """Yield every record with its virtual time, in the order of the bundle's lines."""
        emitters = {node.name: Emitter(node.name, {}) for node in self.nodes}
        connections = Connections(self._survey.hops, self.names)
        written = Counter[str]()
        for line, following in pairwise(chain(self.bundle.events(), (None,))):
            assert line is not None, "only the last has none after it"
            at_ns, event = line.virtual_time_ns, line.event
            node = self._node_of(line.host_id, event)
            payload = to_production(event, emitters[node.name], at_ns, self.names)
            derived = connections.before(node.name, line, payload, following)
            exact = Exact(at_ns, line.line, line.kind_tag)
            for item, told in ((derived, None), (payload, exact)):
                if item is not None:
                    written[node.label] += 1
                    envelope = {
                        "node_id": [*(node.node_id or b"")],
                        "monotonic_seq": written[node.label],
                        "wall_ms": at_ns // NS_PER_MS,
                    }
                    yield at_ns, NodeEvent(node.label, envelope | item, told)

    def _snapshots(self) -> Iterator[NodeSnapshot]:
        """Yield every snapshot; a record of its own instant counts as written before it."""
        known = {node.label: Reachability() for node in self.nodes}
        written = Counter[str]()
        made = self._made()
        ahead = next(made, None)
        for item in self.bundle.snapshots():
            while ahead is not None and ahead[0] <= item.virtual_time_ns:
                label, record, _ = ahead[1]
                known[label].follow(record)
                written[label] += 1
                ahead = next(made, None)
            node = self._by_name[item.host_id]
            yield self._snapshot(item, node, known[node.label], written[node.label])

    def _snapshot(self, item: SnapshotFile, node: Node, known: Reachability, written: int) -> NodeSnapshot:
        try:
            state = tier2(item.snapshot)
        except ValueError as error:
            path = f"snapshots/{item.host_id}/{item.number}.json"
            raise self.bundle.malformed(path, "snapshot", str(error)) from None
        body: dict[str, Any] = {"reachability": known.rows(opinions(state))}
        if state is not None:
            body["swim"] = state
        document = {
            "identity": node.identity,
            "run_id": self.facts.run_id,
            "snapshot_id": f"{(node.node_id or b'').hex()[: roles.SHORT]}-{item.number}",
            "wall_ms": item.virtual_time_ns // NS_PER_MS,
            "monotonic_seq": written,
            "trigger": {"kind": "OnDemand"},
            "body": body,
        }
        return NodeSnapshot(node.label, item.number, document, ExactTime(item.virtual_time_ns, item.kind_tag))

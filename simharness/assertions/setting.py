"""What an evaluation knows before the first record: peers, their kinds and timeouts, and the declared assertions.

A running evaluation takes it from the scenario, a finished bundle from its `scenario.toml`; no host kind is asked (ruling B8).
"""

import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from simharness.assertions.training_facts import TrainingFacts, facts_of, has_training, network_of
from simharness.contracts.assertions import Assertion
from simharness.contracts.scenario import PeerDecl, Scenario


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One declared peer, as far as assertions care."""

    id: str
    kind: str
    membership: str
    """Who shares a membership with whom: the kind, where a stage that embeds a node counts as `swim` (ruling S2)."""
    tick_period_ns: int
    suspicion_timeout_ns: int | None
    """None for a peer that runs no failure detector."""
    initial_incarnation: int


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The peers in scenario order and the assertions in declared order."""

    members: tuple[Member, ...]
    assertions: tuple[Assertion, ...]
    training: TrainingFacts | None = None
    """The training job, if there is one."""

    def member(self, peer: str) -> Member | None:
        """Return the declared peer of that id."""
        return next((member for member in self.members if member.id == peer), None)


class _Tick(msgspec.Struct):
    period_ns: int


class _Peer(msgspec.Struct):
    id: str
    kind: str
    kind_config: dict[str, Any] = {}
    tick_period_ns_override: int | None = None


class _Document(msgspec.Struct):
    """The part of a resolved scenario file that is read here."""

    default_tick: _Tick
    peers: tuple[_Peer, ...]
    assertions: tuple[Assertion, ...] = ()


def from_scenario(scenario: Scenario) -> Setting:
    """Return the setting of a run that is about to start."""
    members = tuple(
        _member(peer.id, peer.kind, scenario.tick_period_ns(peer), peer.kind_config) for peer in scenario.peers
    )
    training = _training(scenario, members) if has_training(scenario.peers) else None
    return Setting(members=members, assertions=scenario.assertions, training=training)


def from_toml(text: str) -> Setting:
    """Return the setting of a finished run from its resolved scenario.

    Raises:
        ValueError: If the text is not TOML or not such a scenario; one line says why.
    """
    try:
        table = tomllib.loads(text)
        document = msgspec.convert(table, _Document)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    members = tuple(
        _member(
            peer.id,
            peer.kind,
            document.default_tick.period_ns if peer.tick_period_ns_override is None else peer.tick_period_ns_override,
            peer.kind_config,
        )
        for peer in document.peers
    )
    training = None
    if has_training(document.peers):
        peers = [PeerDecl(id=p.id, kind=p.kind, initial_state="", kind_config=p.kind_config) for p in document.peers]
        training = _training(network_of(table, peers), members)
    return Setting(members=members, assertions=document.assertions, training=training)


def _training(scenario: Scenario, members: tuple[Member, ...]) -> TrainingFacts | None:
    return facts_of(scenario, {member.id: member.tick_period_ns for member in members})


def _member(peer: str, kind: str, tick_period_ns: int, config: Mapping[str, Any]) -> Member:
    node = config.get("node", config)
    return Member(
        id=peer,
        kind=kind,
        membership="swim" if "node" in config else kind,
        tick_period_ns=tick_period_ns,
        suspicion_timeout_ns=node.get("suspicion_timeout_ns"),
        initial_incarnation=node.get("initial_incarnation", 0),
    )

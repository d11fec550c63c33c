"""The validated scenario (§8.1): the only input of a run."""

from typing import Any, Literal

import msgspec

from simharness.contracts.assertions import Assertion
from simharness.contracts.links import LinkOverrides, LinkPolicy, RelayDecl
from simharness.contracts.mutations import Mutation

MeshShape = Literal["full", "ring", "star", "chain"]


class PeerDecl(msgspec.Struct, frozen=True, kw_only=True):
    """One peer. `kind_config` is resolved: the kind's profile and defaults are filled in (ruling B5)."""

    id: str
    kind: str
    initial_state: str
    kind_config: dict[str, Any]
    tick_period_ns_override: int | None = None


class MeshDecl(msgspec.Struct, frozen=True, kw_only=True):
    """A group of direct links in one entry. `peers` None means every declared peer; in a star the first is the hub."""

    peers: tuple[str, ...] | None = None
    shape: MeshShape = "full"
    overrides: LinkOverrides = LinkOverrides()


class LinkDecl(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[links]]` entry: a directed edge, or a host pair routed `via` a relay."""

    source: str
    target: str
    via: str | None = None
    overrides: LinkOverrides = LinkOverrides()


class SnapshotDecl(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one snapshot of every live host."""

    at_ns: int


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed, merged and validated scenario. Order of every tuple is file order, base before child."""

    name: str
    seed: int
    duration_ns: int
    early_terminate_on_all_assertions_resolved: bool = False
    default_tick_period_ns: int
    default_link: LinkPolicy
    peers: tuple[PeerDecl, ...]
    relays: tuple[RelayDecl, ...] = ()
    meshes: tuple[MeshDecl, ...] = ()
    links: tuple[LinkDecl, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    snapshots: tuple[SnapshotDecl, ...] = ()
    assertions: tuple[Assertion, ...] = ()

    def tick_period_ns(self, peer: PeerDecl) -> int:
        """Return the tick period of one declared peer."""
        override = peer.tick_period_ns_override
        return self.default_tick_period_ns if override is None else override

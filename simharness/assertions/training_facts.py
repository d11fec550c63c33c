"""What the folds of training know beforehand: the job as its peers' `kind_config` states it, and the way to the hub."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from simharness.contracts.links import LinkOverrides, LinkPolicy, RelayDecl
from simharness.contracts.scenario import LinkDecl, MeshDecl, PeerDecl, Scenario
from simharness.contracts.topology import Direct, Topology

WORKER: Final = "train_worker"
HUB: Final = "train_hub"
_CHECKED: Final = ("linear", "sqhinge", "mlp")


class TrainingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One training job."""

    seed: int
    hub: str
    workers: tuple[str, ...]
    """In ascending order: a worker's place is its index, in shard sizes and on the wire."""
    config: dict[str, Any]
    ticks_ns: dict[str, int]
    """Tick period by peer."""
    links: dict[str, LinkPolicy]
    """The direct link from a worker to the hub; a worker that is routed otherwise has none."""

    @property
    def checked(self) -> bool:
        """Whether the model has a reference."""
        return self.config.get("model") in _CHECKED

    @property
    def ring(self) -> bool:
        """Whether the workers reduce among themselves."""
        return self.config.get("strategy") == "ring"

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """How many samples each worker owns. By default in the ratio 3 + (2k mod 5), threefold if no number of samples is given."""
        given = self.config.get("shard_sizes")
        if given:
            return tuple(given)
        weights = [3 + 2 * index % 5 for index in range(len(self.workers))]
        samples = self._samples_stated
        if samples is None:
            return tuple([3 * weight for weight in weights])
        sizes = [samples * weight // sum(weights) for weight in weights]
        rest = samples - sum(sizes)
        return tuple([size + (index < rest) for index, size in enumerate(sizes)])

    @property
    def samples(self) -> int:
        """How many samples there are."""
        stated = self._samples_stated
        return sum(self.shard_sizes) if stated is None else stated

    @property
    def _samples_stated(self) -> int | None:
        data = self.config.get("data")
        stated: int | None = self.config.get("samples", len(data["targets"]) if data else None)
        return stated


class Peer(Protocol):
    """A declared peer, as far as training cares."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def kind(self) -> str:
        """Its host kind."""

    @property
    def kind_config(self) -> dict[str, Any]:
        """Its resolved configuration."""


def facts_of(scenario: Scenario, ticks_ns: Mapping[str, int]) -> TrainingFacts | None:
    """Return the training job of a scenario; None if it has no hub or no worker."""
    workers = sorted(peer.id for peer in scenario.peers if peer.kind == WORKER)
    hubs = [peer for peer in scenario.peers if peer.kind == HUB]
    if not workers or len(hubs) != 1:
        return None
    (hub,) = hubs
    topology = Topology(scenario)
    routes = {worker: topology.route(worker, hub.id) for worker in workers}
    return TrainingFacts(
        seed=scenario.seed,
        hub=hub.id,
        workers=tuple(workers),
        config=hub.kind_config,
        ticks_ns={peer: ticks_ns[peer] for peer in (hub.id, *workers)},
        links={worker: route.policy for worker, route in routes.items() if isinstance(route, Direct)},
    )


def has_training(peers: Iterable[Peer]) -> bool:
    """Tell whether any peer trains."""
    return any(peer.kind in (WORKER, HUB) for peer in peers)


def network_of(document: Mapping[str, Any], peers: Sequence[PeerDecl]) -> Scenario:
    """Return peers, seed and network of a resolved scenario file.

    Raises:
        ValueError: If they are none; one line says why.
    """
    return Scenario(
        name="",
        seed=msgspec.convert(document.get("seed"), int),
        duration_ns=0,
        default_tick_period_ns=1,
        default_link=msgspec.convert(document.get("default_link"), LinkPolicy),
        peers=tuple(peers),
        relays=msgspec.convert(document.get("relays", ()), tuple[RelayDecl, ...]),
        meshes=tuple([_spread(MeshDecl, dict(mesh)) for mesh in document.get("meshes", ())]),
        links=tuple([_spread(LinkDecl, dict(link)) for link in document.get("links", ())]),
    )


def _spread(of: type[MeshDecl | LinkDecl], table: dict[str, Any]) -> Any:
    """Read a link or a mesh, whose overrides stand in its own table."""
    named = {"from": "source", "to": "target"}
    own = {named.get(key, key): table.pop(key) for key in ("from", "to", "via", "peers", "shape") if key in table}
    return msgspec.convert(own | {"overrides": msgspec.convert(table, LinkOverrides)}, of)

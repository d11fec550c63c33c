"""The engine's book-keeping about one peer: its instance and whether it is dead or halted (ruling E8)."""

from simharness.contracts.host import Host, HostContext, HostKind
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.streams import Root


class Slot:
    """One peer of the run.

    `life` rises at every kill and every resurrection and is carried by ticks; `instance` rises at every rebuild and is carried
    by timers and `SendFailed`. An entry whose number is stale is discarded unseen.
    """

    __slots__ = (
        "_peers",
        "_root",
        "dead",
        "deaf",
        "decl",
        "decode",
        "encode",
        "frame_overhead",
        "halted",
        "host",
        "id",
        "instance",
        "kind",
        "life",
        "period_ns",
        "tag",
    )

    def __init__(self, decl: PeerDecl, scenario: Scenario, kind: HostKind, root: Root) -> None:
        self.id = decl.id
        self.decl = decl
        self.kind = kind
        self.tag = kind.kind_tag
        codec = kind.codec
        self.encode, self.decode, self.frame_overhead = codec.encode, codec.decode, codec.frame_overhead
        self.period_ns = scenario.tick_period_ns(decl)
        self.life = 0
        self.instance = 0
        self.dead = False
        self.halted = False  # no ticks: `Halt` came from `tick` or from `recv`
        self.deaf = False  # no `recv` either: `Halt` came from `recv` (ruling E5)
        self._peers = scenario.peers
        self._root = root
        self.host = self._build()

    def _build(self) -> Host:
        return self.kind.new(
            HostContext(
                host_id=self.id,
                config=self.decl.kind_config,
                initial_state=self.decl.initial_state,
                tick_period_ns=self.period_ns,
                rng=self._root.host_rng(self.id),
                peers=self._peers,
                instance=self.instance,
            )
        )

    def first_tick_ns(self) -> int:
        """Return the seed-derived offset of the first tick, in [0, period) (§4.3)."""
        return self._root.host(self.id, "tick_offset").u64() % self.period_ns

    def kill(self) -> None:
        """Stop the process: its ticks are stale from now on."""
        self.dead = True
        self.life += 1

    def resurrect(self, *, preserve_state: bool) -> None:
        """Start the process again, with its old instance or with a fresh one, as its kind may demand (ruling E25)."""
        self.life += 1
        self.dead = self.halted = self.deaf = False
        if not preserve_state or getattr(self.kind, "always_rebuilt", False):
            self.instance += 1
            self.host = self._build()

"""The engine's book-keeping about one peer: its instance, whether it is dead, halted, paused or slow, and its clock (E8, K2)."""

from typing import Any, Final

from simharness.contracts.disk import CrashableDisk
from simharness.contracts.host import Host, HostContext, HostKind, accepted, why_no_host
from simharness.contracts.ports import DeliveryObserver
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.errors import EngineAbort
from simharness.core.streams import Root
from simharness.engine.clocks import TRUE, Clock, SkewedHost

NEVER: Final = 1 << 80
"""Later than every virtual time."""

FULL_PACE: Final = 100
"""The factor of a peer that nothing slows."""


class Slot:
    """One peer of the run.

    `life` rises at every kill and every resurrection and is carried by ticks; `instance` rises at every rebuild and is carried
    by timers and `SendFailed`. An entry whose number is stale is discarded unseen.

    `ticks_from_ns` and `hears_from_ns` say from when on the host is called: 0, `NEVER`, or the end of its pause.
    """

    __slots__ = (
        "_bare",
        "_observer",
        "_peers",
        "_root",
        "_slowings",
        "accepts",
        "clock",
        "dead",
        "deaf",
        "decl",
        "decode",
        "disk",
        "encode",
        "evidence",
        "frame_overhead",
        "halted",
        "hears_from_ns",
        "held",
        "host",
        "id",
        "instance",
        "kind",
        "life",
        "paused_until_ns",
        "period_ns",
        "tag",
        "ticks_from_ns",
        "told_x100",
    )

    def __init__(
        self,
        decl: PeerDecl,
        scenario: Scenario,
        kind: HostKind,
        root: Root,
        disk: CrashableDisk,
        observer: DeliveryObserver | None = None,
    ) -> None:
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
        self.ticks_from_ns = self.hears_from_ns = self.paused_until_ns = 0
        self.held: list[tuple[Any, ...]] = []  # what reached it during its pause, in queue order
        self.told_x100 = FULL_PACE  # the factor that the host was told last
        self._slowings: list[tuple[int, int]] = []  # (end, factor), in the order of application
        self.clock = TRUE
        self.accepts = accepted(kind)
        self.evidence: tuple[str, ...] = tuple(getattr(kind, "evidence_tags", ()))
        self._observer = observer
        self._peers = scenario.peers
        self._root = root
        self.disk = disk
        self.host = self._bare = self._build(0)

    def _build(self, now_ns: int) -> Host:
        """Build an instance. What `new` returns is looked at here, so that no later call is blamed for it (ruling C8)."""
        host = self.kind.new(
            HostContext(
                host_id=self.id,
                config=self.decl.kind_config,
                initial_state=self.decl.initial_state,
                tick_period_ns=self.period_ns,
                rng=self._root.host_rng(self.id),
                peers=self._peers,
                disk=self.disk,
                instance=self.instance,
            )
        )
        wrong = why_no_host(host)
        if wrong is not None:
            raise EngineAbort(rule="kind-contract", detail=f"kind {self.tag}: {wrong}", host_id=self.id, at_ns=now_ns)
        return host

    def first_tick_ns(self) -> int:
        """Return the seed-derived offset of the first tick, in [0, period) (§4.3)."""
        return self._root.host(self.id, "tick_offset").u64() % self.period_ns

    def kill(self) -> None:
        """Stop the machine: ticks are stale from now on, a pause is over (ruling K2), what was not synced is lost (K3)."""
        self.dead = True
        self.life += 1
        self.paused_until_ns = 0
        self.held = []
        self.disk.power_cut()
        self._settle()

    def halt(self, *, deaf: bool) -> None:
        """Stop the ticks, and with `deaf` the receiving too (ruling E5)."""
        self.halted = True
        self.deaf = self.deaf or deaf
        self._settle()

    def pause(self, until_ns: int) -> None:
        """Call the host again from `until_ns` on."""
        self.paused_until_ns = until_ns
        self._settle()

    def resurrect(self, now_ns: int, *, preserve_state: bool) -> None:
        """Start the process again, with its old instance or with a fresh one, as its kind may demand (ruling E25)."""
        self.life += 1
        self.dead = self.halted = self.deaf = False
        self._settle()
        if not preserve_state or getattr(self.kind, "always_rebuilt", False):
            self.instance += 1
            self.told_x100 = FULL_PACE
            self._bare = self._build(now_ns)
            self.set_clock(self.clock)

    def _settle(self) -> None:
        self.hears_from_ns = NEVER if self.dead or self.deaf else self.paused_until_ns
        self.ticks_from_ns = NEVER if self.halted else self.hears_from_ns

    def slow(self, until_ns: int, factor_x100: int) -> None:
        """Slow the peer down until `until_ns`; of the factors in force the one applied last wins (ruling K2)."""
        self._slowings.append((until_ns, factor_x100))

    def factor_x100(self, now_ns: int) -> int:
        """Return the factor that is in force."""
        self._slowings = [slowing for slowing in self._slowings if now_ns < slowing[0]]
        return self._slowings[-1][1] if self._slowings else FULL_PACE

    def set_clock(self, clock: Clock) -> None:
        """Let the host read another clock. It is the machine's: it outlives the process (ruling M3)."""
        self.clock = clock
        self.host = self._bare if clock.is_true else SkewedHost(self._bare, clock, self._observer)

"""One suite that every host kind runs (§6.4).

Subclass `HostKindConformance` in a test module, name the kind, a raw `kind_config` and a strategy for its messages; pytest
then collects the laws. It works on kinds of other projects as it does on ours.
"""

from collections.abc import Sequence
from types import FunctionType
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from simharness.contracts.host import (
    Action,
    App,
    Halt,
    Host,
    HostContext,
    HostKind,
    HostMessage,
    PeerFacts,
    RecordEvent,
    ScheduleTimer,
    Send,
    SendFailed,
    Slow,
    TimerFired,
    accepted,
    why_no_host,
)
from simharness.contracts.scenario import PeerDecl
from simharness.core import canonical_json
from simharness.core.streams import Root
from simharness.disk.crash import CrashDisk

Step = tuple[int, HostMessage | None]
"""(nanoseconds since the step before, what reaches `recv`, or None for a tick)."""


class HostKindConformance:
    """The kind-agnostic laws. `peer_ids[0]` is the host under test. A subclass has to define `kind` and `messages`."""

    kind: ClassVar[HostKind]
    """The kind, an instance."""
    kind_config: ClassVar[dict[str, Any]] = {}
    initial_state: ClassVar[str] = "ready"
    tick_period_ns: ClassVar[int] = 100_000_000
    peer_ids: ClassVar[tuple[str, ...]] = ("a", "b", "c")

    def __init_subclass__(cls) -> None:
        """Give every subclass laws of its own: Hypothesis keeps examples by function, and kinds must not share them."""
        for name in [name for name in dir(HostKindConformance) if name.startswith("law_")]:
            law = getattr(HostKindConformance, name)
            own = FunctionType(law.__code__, law.__globals__, name.replace("law_", "test_", 1))
            own.__doc__, own.__qualname__ = law.__doc__, f"{cls.__qualname__}.{own.__name__}"
            own.__module__, own.__annotations__ = cls.__module__, dict(law.__annotations__)
            setattr(cls, own.__name__, given(data=st.data())(own))

    def __getattr__(self, name: str) -> Any:
        """Say what to do about a subclass without a kind."""
        what = f"{type(self).__qualname__} has "
        if name == "kind":
            raise AttributeError(what + "to define `kind`, an instance of the host kind, such as: kind = KIND")
        raise AttributeError(what + f"no attribute {name!r}")

    def messages(self) -> st.SearchStrategy[Any]:
        """Return a strategy for the kind's messages, as its hosts hand them to `Send`.

        Raises:
            NotImplementedError: If the subclass does not define it.
        """
        name = type(self).__qualname__
        raise NotImplementedError(
            f"{name} has to define `messages`, a method that returns a Hypothesis strategy for what the kind's codec encodes, "
            "such as: def messages(self): return st.binary(max_size=40)"
        )

    def _facts(self, peer_id: str) -> PeerFacts:
        return PeerFacts(
            id=peer_id,
            initial_state=self.initial_state,
            tick_period_ns=self.tick_period_ns,
            peer_ids=self.peer_ids,
        )

    def build(self, seed: int = 0) -> Host:
        """Build the host under test from its validated configuration."""
        peers = []
        for peer_id in self.peer_ids:
            validated = self.kind.validate(self.kind_config, self._facts(peer_id))
            assert validated.complaints == (), validated.complaints
            state = self.initial_state
            peers.append(
                PeerDecl(id=peer_id, kind=self.kind.kind_tag, initial_state=state, kind_config=validated.config)
            )
        host = self.kind.new(
            HostContext(
                host_id=self.peer_ids[0],
                config=peers[0].kind_config,
                initial_state=self.initial_state,
                tick_period_ns=self.tick_period_ns,
                rng=Root(seed).host_rng(self.peer_ids[0]),
                peers=tuple(peers),
                disk=CrashDisk(),
            )
        )
        assert why_no_host(host) is None, why_no_host(host)
        return host

    def steps(self) -> st.SearchStrategy[list[Step]]:
        """Return a strategy for call sequences: ticks, messages, timers, failures and slowness, at rising times."""
        arriving: st.SearchStrategy[HostMessage | None] = st.one_of(
            st.none(),
            self.messages().map(App),
            st.builds(TimerFired, st.integers(0, 7)),
            st.builds(SendFailed, st.sampled_from(self.peer_ids[1:]), st.just("lossy")),
        )
        if "peer_slow" in accepted(self.kind):
            arriving = st.one_of(arriving, st.builds(Slow, st.sampled_from((100, 50, 300, 2_000))))
        return st.lists(st.tuples(st.sampled_from((0, 1, self.tick_period_ns)), arriving), max_size=12)

    def drive(self, host: Host, steps: Sequence[Step]) -> list[list[Action]]:
        """Make the calls and return what each of them answered, the final snapshot's bytes aside."""
        now_ns, answers = 0, []
        for gap_ns, message in steps:
            now_ns += gap_ns
            answers.append(list(host.tick(now_ns) if message is None else host.recv(message, now_ns)))
        return answers

    def test_trait_conformance(self) -> None:
        """§6.4 Trait conformance: the surface of §6.1 is there, under a non-empty tag."""
        host = self.build()
        assert self.kind.kind_tag
        assert host.kind_tag == self.kind.kind_tag
        assert host.id == self.peer_ids[0]
        assert isinstance(self.kind.accepts_worker_exit, bool)

    def test_validation_is_idempotent(self) -> None:
        """Validating a resolved configuration changes nothing, so an emitted scenario loads to the same value (§8.4)."""
        facts = self._facts(self.peer_ids[0])
        resolved = self.kind.validate(self.kind_config, facts).config
        again = self.kind.validate(resolved, facts)
        assert again.complaints == ()
        assert again.config == resolved

    def law_codec_is_invertible(self, data: st.DataObject) -> None:
        """§6.4 Codec is invertible: encoding then decoding is the identity."""
        message = data.draw(self.messages())
        wire = self.kind.codec.encode(message)
        assert self.kind.codec.decode(wire) == message
        assert self.kind.codec.encode(self.kind.codec.decode(wire)) == wire
        assert self.kind.codec.frame_overhead(wire.tag) >= 0

    def law_host_determinism(self, data: st.DataObject) -> None:
        """§6.4 Host determinism: same configuration, seed and calls give the same actions and the same snapshot."""
        steps, seed = data.draw(self.steps()), data.draw(st.integers(0, 3))
        one, two = self.build(seed), self.build(seed)
        assert self.drive(one, steps) == self.drive(two, steps)
        assert one.snapshot() == two.snapshot()

    def law_actions_are_well_formed(self, data: st.DataObject) -> None:
        """Every answer is an action of §4.6: writable events, known targets, and an encoding that is the codec's own."""
        host = self.build()
        for action in (item for answer in self.drive(host, data.draw(self.steps())) for item in answer):
            assert type(action) in (Send, RecordEvent, ScheduleTimer, Halt), action
            if isinstance(action, RecordEvent):
                assert next(iter(action.event)) == "kind"
                assert canonical_json.unwritable(action.event) is None
                assert action.event["kind"] in getattr(self.kind, "event_kinds", (action.event["kind"],))
            elif isinstance(action, Send):
                assert action.to in self.peer_ids[1:]
                assert action.wire in (None, self.kind.codec.encode(action.message))

    def test_snapshot_is_a_json_object(self) -> None:
        """A snapshot is one JSON object without floats."""
        state = canonical_json.parse(self.build().snapshot())
        assert isinstance(state, dict)
        assert canonical_json.unwritable(state) is None

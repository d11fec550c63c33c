"""Codec parity (§3.3): the bytes on the sockets are the simulator's bytes."""

import pytest

from simharness.contracts.host import App, HostContext, HostMessage, Send, SendFailed, Slow, TimerFired, Wire
from simharness.core.streams import Root
from simharness.disk.crash import CrashDisk
from simharness.hosts.swim.kind import KIND
from simharness.live.channel import Seen
from simharness.systems.swim.udp import frame, unframe
from simharness.systems.swim.wire import TAGS, frame_overhead
from tests.live.support import MESH, MS, Run, head, mutation, swim


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Five guarded peers, one of which joins; a partition and a death, so that every kind of message is needed."""
    guarded = "lifeguard = true\n"
    facts = 'names = ["n"]\nmetadata = { node_name = "first", relay_url = "https://relay.example" }\n'
    return Run(
        tmp_path_factory.mktemp("parity"),
        head(3_000),
        swim("a", more=guarded + facts),
        *[swim(peer_id, more=guarded) for peer_id in "bcd"],
        swim("e", "joining", guarded + 'seeds = ["a"]\n'),
        MESH,
        mutation("partition", 500, 'peers_a = ["a"]\npeers_b = ["b"]'),
        mutation("peer_kill", 1_200, 'peer = "d"'),
        mutation("peer_slow", 1_800, 'peer = "c"\nfactor_x100 = 500\nduration_ns = 400_000_000'),
    )


def frames(run: Run, what: str) -> list[bytes]:
    """Return every frame that was sent, or received."""
    return [seen.frame for seen in run.seen if seen.what == what]


def test_every_kind_was_on_the_wire(run: Run) -> None:
    """The capture leaves out no kind of the wire format, or the other tests would say less than they seem to."""
    assert {unframe(data)[0] for data in frames(run, "received")} == set(TAGS.values())


def test_bytes_off_the_sockets_are_the_simulator_s(run: Run) -> None:
    """Decoded and encoded again by the simulator's codec, each frame is the same bytes, and of the size that links charge."""
    codec = KIND.codec
    for data in frames(run, "received"):
        tag, payload = unframe(data)
        wire = codec.encode(codec.decode(Wire(tag, payload)))
        assert wire == (tag, payload)
        assert len(data) == len(payload) + codec.frame_overhead(tag) == len(payload) + frame_overhead(tag)


def test_what_arrives_was_sent(run: Run) -> None:
    """Sockets and shaper change no byte."""
    sent = {(seen.host_id, seen.other, seen.frame) for seen in run.seen if seen.what == "sent"}
    arrived = {(seen.other, seen.host_id, seen.frame) for seen in run.seen if seen.what == "received"}
    assert arrived
    assert arrived <= sent


def test_the_same_inputs_give_the_same_bytes(run: Run) -> None:
    """Each process's ticks, frames, timers and failed sends, given to a simulated host, make it send the very same frames."""
    compared = 0
    for decl in run.scenario.peers:
        period_ns = run.scenario.tick_period_ns(decl)
        host = KIND.new(
            HostContext(
                host_id=decl.id,
                config=decl.kind_config,
                initial_state=decl.initial_state,
                tick_period_ns=period_ns,
                rng=Root(run.scenario.seed).host_rng(decl.id),
                peers=run.scenario.peers,
                disk=CrashDisk(),
            )
        )
        expected: list[tuple[str, bytes]] = []
        for seen in [item for item in run.seen if item.host_id == decl.id]:
            if seen.what == "sent":
                assert (seen.other, seen.frame) == expected.pop(0), seen
                compared += 1
                continue
            assert expected == [], seen
            actions = host.tick(seen.at_ns) if seen.what == "tick" else host.recv(envelope(seen), seen.at_ns)
            expected = [
                (action.to, frame(*action.wire)) for action in actions if isinstance(action, Send) and action.wire
            ]
    assert compared > 100


def envelope(seen: Seen) -> HostMessage:
    """Return what a host of the simulator would have received."""
    if seen.what == "failed":
        return SendFailed(seen.other, seen.frame.decode())
    if seen.what == "slow":
        return Slow(int(seen.frame))
    if seen.what == "timer":
        return TimerFired(int(seen.frame))
    return App(KIND.codec.decode(Wire(*unframe(seen.frame))))


def test_a_slow_peer_serves_slowly(run: Run) -> None:
    """While it is slow, what it receives waits for its turn: 40 ms a message, as in a simulated run (rulings K2, M5)."""
    told = [(int(seen.frame), seen.at_ns) for seen in run.seen if seen.what == "slow"]
    assert [factor for factor, _ in told] == [500, 100]
    (_, from_ns), (_, until_ns) = told
    arrived = [
        seen.at_ns
        for seen in run.seen
        if (seen.what, seen.host_id) == ("received", "c") and from_ns < seen.at_ns < until_ns
    ]
    served = [at_ns for at_ns, _ in run.events("MessageReceived", "c") if at_ns > from_ns]
    assert arrived
    assert min(served) - min(arrived) >= 40 * MS

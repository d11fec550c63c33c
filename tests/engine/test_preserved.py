"""`peer_resurrect` with `preserve_state`: a process whose memory comes back, and the gap does not (§5.5, ruling E8)."""

from collections.abc import Sequence
from typing import Any

import pytest

from simharness.contracts.host import Action, App, HostMessage, RecordEvent, ScheduleTimer, Send, TimerFired
from simharness.contracts.mutations import PeerKill, PeerResurrect
from simharness.core.streams import Root
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, scenario
from tests.engine.test_engine import run

FIRST = max(Root(1).host(name, "tick_offset").u64() % (10 * MS) for name in "ab")
DOWN, UP = FIRST + 31 * MS, FIRST + 55 * MS


def tick(host: Any, now_ns: int) -> Sequence[Action]:
    """`a` sends its time to `b`; `b` asks at its first tick for a timer at every fifth millisecond, and remembers what it heard."""
    if host.id == "a":
        return (Send("b", str(now_ns).encode()),)
    host.memory = getattr(host, "memory", [])
    timers = range(FIRST + 5 * MS, FIRST + 90 * MS, 5 * MS) if host.ticks == 1 and not host.instance else ()
    return (
        RecordEvent({"kind": "remembers", "memory": [*host.memory], "instance": host.instance}),
        *(ScheduleTimer(at_ns, at_ns) for at_ns in timers if at_ns > now_ns),
    )


def recv(host: Any, message: HostMessage, now_ns: int) -> Sequence[Action]:
    """Remember a message or a timer."""
    assert isinstance(message, App | TimerFired)
    what = f"m{message.message.decode()}" if isinstance(message, App) else f"t{message.token}"
    host.memory = [*getattr(host, "memory", []), what]
    return (RecordEvent({"kind": "heard", "what": what}),)


def played(*, preserve_state: bool) -> Log:
    mutations = (PeerKill(at_ns=DOWN, peer="b"), PeerResurrect(at_ns=UP, peer="b", preserve_state=preserve_state))
    return run(scenario("a", "b", mutations=mutations), ScriptedKind(tick, recv), ConstantNetwork(MS))


@pytest.mark.parametrize("preserve_state", [True, False])
def test_memory_is_kept_and_the_gap_is_lost(preserve_state: bool) -> None:
    """Messages and timers of the gap never come; later ones do. A fresh instance has neither memory nor timers of the old one."""
    log = played(preserve_state=preserve_state)
    heard = log.heard("b")
    assert [at_ns for at_ns, _ in heard if DOWN <= at_ns < UP] == []
    before, after = ([what for t, what in heard if t < DOWN], [what for t, what in heard if t >= UP])
    assert {what[0] for what in before} == {"m", "t"}
    assert {what[0] for what in after} == ({"m", "t"} if preserve_state else {"m"})
    timers = [int(what[1:]) for what in after if what[0] == "t"]
    assert timers == (list(range(FIRST + 55 * MS, FIRST + 90 * MS, 5 * MS)) if preserve_state else [])
    last = log.of_kind("remembers")[-1]
    told = [what for t, what in heard if t < last[0]]
    assert last[1]["memory"] == (told if preserve_state else [what for what in told if what in after])
    assert last[1]["instance"] == (0 if preserve_state else 1)

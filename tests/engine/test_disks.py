"""The disk of a host: one a peer and run, without power from a kill on (ruling K3)."""

from collections.abc import Sequence
from typing import Any

import pytest

from simharness.contracts.disk import append, put
from simharness.contracts.host import Action, RecordEvent
from simharness.contracts.mutations import Mutation, PeerKill, PeerResurrect
from simharness.core.errors import EngineAbort
from simharness.disk.crash import CrashDisk
from simharness.engine.engine import Engine
from tests.engine.scripted import MS, ConstantNetwork, Log, ScriptedKind, scenario


def journal(host: Any, now_ns: int) -> Sequence[Action]:
    """Note every tick in a journal that is synced at every second one; record what is there, and the instance."""
    append(host.disk, "journal", f"{host.instance}{host.ticks} ".encode())
    if host.ticks % 2 == 0:
        host.disk.sync("journal")
        host.disk.sync_dir()
    held = host.disk.read("journal").decode()
    return (RecordEvent({"kind": "held", "journal": held, "epoch": host.disk.epoch}),)


def run(*mutations: Mutation, ids: str = "ab", tick: Any = journal) -> tuple[Log, dict[str, CrashDisk]]:
    script, log = scenario(*ids, mutations=mutations, duration_ns=80 * MS), Log()
    disks = {peer_id: CrashDisk() for peer_id in ids}
    kinds = {"scripted": ScriptedKind(tick)}
    Engine(script, network=ConstantNetwork(), kinds=kinds, disks=disks, sink=log).run()
    return log, disks


def held(log: Log, host_id: str = "a") -> list[str]:
    """Return what one host's journal held at each of its ticks, with the epoch."""
    return [f"{e['journal']}{e['epoch']}" for _, host, _, e in log.lines() if host == host_id and e["kind"] == "held"]


@pytest.mark.parametrize("preserve_state", [False, True])
def test_a_kill_loses_what_was_not_synced(preserve_state: bool) -> None:
    """K3: whether the instance survives or not, its disk does, with what was synced and nothing else."""
    kill, back = (
        PeerKill(at_ns=35 * MS, peer="a"),
        PeerResurrect(at_ns=40 * MS, peer="a", preserve_state=preserve_state),
    )
    log, disks = run(kill, back)
    after = [entry for entry in held(log) if entry.endswith("1")]
    before = [entry for entry in held(log) if entry.endswith("0")]
    assert before[:3] == ["01 0", "01 02 0", "01 02 03 0"]
    ticks = len(before)
    assert ticks in (3, 4)
    synced = "01 02 " if ticks == 3 else "01 02 03 04 "
    assert after[0] == (f"{synced}0{ticks + 1} 1" if preserve_state else f"{synced}11 1")
    assert (disks["a"].epoch, disks["b"].epoch) == (1, 0)


def test_disks_are_apart() -> None:
    """K3: each host has its own, and a kill of one leaves the other alone."""
    alone, _ = run()
    other, _ = run(PeerKill(at_ns=35 * MS, peer="a"))
    assert held(other, "b") == held(alone, "b")
    assert len(held(other)) < len(held(alone))


def test_a_second_kill_cuts_no_power() -> None:
    """K3, E8: a kill of a dead peer is a record only, and a resurrection cuts nothing."""
    mutations = (
        PeerKill(at_ns=35 * MS, peer="a"),
        PeerKill(at_ns=36 * MS, peer="a"),
        PeerResurrect(at_ns=40 * MS, peer="a"),
    )
    _, disks = run(*mutations)
    assert disks["a"].epoch == 1


def test_what_a_disk_refuses_aborts_the_run_like_any_bug_of_a_host() -> None:
    """C2, K3: a host that does not catch an error of its disk is named; it is no failure to write the bundle."""

    def careless(host: Any, now_ns: int) -> Sequence[Action]:
        put(host.disk, "a", b"")
        host.disk.read("b")
        return ()

    with pytest.raises(EngineAbort, match=r"host-raised: host a .*NoSuchNameError: b does not exist"):
        run(ids="a", tick=careless)

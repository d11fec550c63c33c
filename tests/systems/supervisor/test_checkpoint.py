"""Checkpoints on a disk that loses power: what was published durably is never missed, what is resolved is durable (R19)."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.disk.crash import CrashDisk
from simharness.systems.supervisor import seam
from simharness.systems.supervisor.checkpoint import content_of, name_of, newest_step, publish, resolve, step_of
from simharness.systems.supervisor.config import NO_DEFECTS, Defects, SupervisorDefect
from simharness.systems.supervisor.store.port import perform
from tests.systems.supervisor.rig import drive


class Disk:
    """A checkpoint disk and what answers from it."""

    def __init__(self) -> None:
        self.disk = CrashDisk()

    def answer(self, call: seam.SeamCall) -> seam.Reply:
        assert isinstance(call, seam.FsCall)
        assert call.fs == "checkpoint"
        return perform(self.disk, call)

    def durable(self) -> int:
        """Return the greatest step that a loss of power, now, would leave."""
        after = CrashDisk()
        after._names, after._durable = dict(self.disk._durable), dict(self.disk._durable)
        steps = [step_of(name, after._names[name].durable) for name in after.list()]
        return max((step for step in steps if step is not None), default=0)


def test_names_and_contents() -> None:
    """A checkpoint is its name and the digest of it; anything else is none."""
    name = name_of(7, "1.1.1.0")
    assert name == "00000007.1.1.1.0"
    assert step_of(name, content_of(name)) == 7
    for other, content in (
        (name, b""),
        (name, content_of(name)[:-2]),
        ("LATEST", b"x"),
        (f"t{name}", content_of(f"t{name}")),
    ):
        assert step_of(other, content) is None


def test_publish_then_resolve() -> None:
    """The greatest step wins, whoever wrote last; the pointer follows the last writer and is not believed."""
    disk = Disk()
    assert drive(resolve(), disk.answer) == 0
    for step, trainer in ((10, "old"), (30, "new"), (20, "old")):
        assert drive(publish(step, trainer), disk.answer)
    assert drive(resolve(), disk.answer) == 30
    assert drive(newest_step(), disk.answer) == 30
    assert disk.disk.read("LATEST") == b"00000020.old"
    believed = drive(resolve(frozenset({SupervisorDefect.TRUST_LATEST_POINTER})), disk.answer)
    assert believed == 20


def test_a_visible_checkpoint_is_made_durable_before_it_is_used() -> None:
    """R19: a checkpoint between its rename and its sync survives a cut once it was resolved; without the sync it may not."""
    for defects, left in ((NO_DEFECTS, 30), (frozenset({SupervisorDefect.RESOLVE_WITHOUT_SYNC}), 0)):
        disk = Disk()
        process = publish(30, "slow")
        call = next(process)
        while not isinstance(call, seam.FsSyncDir):
            call = process.send(disk.answer(call))
        assert drive(resolve(defects), disk.answer) == 30
        disk.disk.power_cut()
        assert drive(resolve(), disk.answer) == left
        with pytest.raises(StopIteration) as ended:
            process.send(disk.answer(call))
        assert ended.value.value is False  # its publication is not durable, and it knows


def test_resolve_starts_again_after_a_cut() -> None:
    """A cut between the listing and the sync: what was listed is looked for again."""
    disk = Disk()
    process = publish(30, "slow")
    call = next(process)
    while not isinstance(call, seam.FsSyncDir):
        call = process.send(disk.answer(call))
    resolving = resolve()
    listed = resolving.send(disk.answer(next(resolving)))
    disk.disk.power_cut()
    again = resolving.send(disk.answer(listed))
    assert isinstance(again, seam.FsList)
    with pytest.raises(StopIteration) as ended:
        resolving.send(disk.answer(again))
    assert ended.value.value == 0


def interleaved(seed: int, defects: Defects = NO_DEFECTS) -> bool:
    """Run trainers and a resolver with power cuts; tell whether every answer was durable and none below what was durable."""
    draw = random.Random(seed)  # noqa: S311 - a test, replayed from its seed
    disk = Disk()
    parked: dict[str, tuple[seam.Process[bool] | seam.Process[int], seam.SeamCall]] = {}
    floor, step = 0, 0
    for _ in range(120):
        if draw.random() < 0.03:
            disk.disk.power_cut(300_000, lambda _name: draw.randrange(10**6))
        who = draw.choice(("a", "b", "resolver"))
        if who not in parked:
            step += draw.randrange(10)
            process = resolve(defects) if who == "resolver" else publish(step - draw.randrange(5), who)
            floor = disk.durable() if who == "resolver" else floor
            parked[who] = process, next(process)
        process, call = parked.pop(who)
        try:
            parked[who] = process, process.send(disk.answer(call))
        except StopIteration as stop:
            if who == "resolver" and not floor <= stop.value <= disk.durable():
                return False
    return True


@given(seed=st.integers(0, 2**32))
@settings(max_examples=200)
def test_resolved_is_durable_and_not_old(seed: int) -> None:
    """Whatever the order of calls and cuts, what resolve returns is durable then, and at least what was durable before."""
    assert interleaved(seed)


@pytest.mark.parametrize("defect", ["TRUST_LATEST_POINTER", "RESOLVE_WITHOUT_SYNC"])
def test_the_interleavings_have_teeth(defect: str) -> None:
    """With either rule off a few hundred seeds find it."""
    assert not all(interleaved(seed, frozenset({SupervisorDefect[defect]})) for seed in range(300))

"""One seed, judged in every way there is: two drivers, and two folds over what the engine has recorded (section 20 of the design).

A batch runs the direct driver alone. What it says holds for scenarios and bundles as well if the engine drives a seed to the same
trace, and if both folds, fed as a stream and with the finished run, say what the world's own checks say.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import tomli_w

from simharness.assertions.streaming import StreamingEvaluator
from simharness.contracts.records import EventRecord
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import loads
from simharness.stateful.playing import Played, play
from simharness.supervisor.direct import run
from simharness.supervisor.minimise import engine_document
from simharness.supervisor.params import SHAPES, Shape

_WHOLE: Final = "supervisor_sample"


class Apart(msgspec.Struct, frozen=True, kw_only=True):
    """A seed about which two ways to run or to judge it differ."""

    seed: int
    shape: Shape
    what: str


def apart(seeds: Iterable[int], shapes: Iterable[Shape] = SHAPES) -> tuple[Apart, ...]:
    """Return where the ways differ; nothing if they agree about every seed in every shape."""
    found = [(seed, shape, difference(seed, shape)) for shape in shapes for seed in seeds]
    return tuple([Apart(seed=seed, shape=shape, what=what) for seed, shape, what in found if what])


def difference(seed: int, shape: Shape) -> str:
    """Return what the ways to run and to judge a seed differ in; empty if they agree."""
    direct = run(seed, shape)
    text = tomli_w.dumps(engine_document(_WHOLE, direct, {"shape": shape}))
    played = play(loads(text, Kinds(), name=_WHOLE), Kinds())
    engine = _trace_hash(played)
    if direct.violated is None and engine != direct.trace_hash:
        return (
            f"the direct driver has the trace {direct.trace_hash}, the engine {engine or 'none, for it did not settle'}"
        )
    after = played.verdicts()
    stream = StreamingEvaluator(played.scenario)
    for record in played.records:
        stream.observe(record)
    if [one.outcome for one in stream.close(played.termination.at_ns)] != [one.outcome for one in after]:
        return "the folds say one thing as a stream and another after the run"
    expected = "Pass" if direct.violated is None else "Fail"
    return "".join(
        [f"{one.kind}: {one.outcome}, not {expected}: {one.note}" for one in after if one.outcome != expected]
    )


def _trace_hash(played: Played) -> str | None:
    """Return the hash with which the world of an engine run has settled."""
    events = [record.event for record in played.records if isinstance(record, EventRecord)]
    return next((str(event["trace_hash"]) for event in events if event["kind"] == "SupervisorSettled"), None)

"""One job as its processes share it: configuration, samples, arithmetic, plans, state 0; all a function of the scenario."""

from collections.abc import Callable, Sequence

from simharness.systems.training.config import TARGET_BITS, TrainConfig, TrainingDefect
from simharness.systems.training.data import Draws, draw_data, draw_start
from simharness.systems.training.kernel import Kernel, vector, zeros
from simharness.systems.training.plan import Member, Planner
from simharness.systems.training.state import TrainState
from simharness.systems.training.wire import HUB, Contribution


class Job:
    """What every process of a job has. Nothing in it changes, so that all of them may share one.

    Args:
        config: The job's configuration.
        stream: Gives the stream of a label: `data`, `init`, `perm/<epoch>/<worker id>`, `perm/<epoch>/*`.
    """

    def __init__(self, config: TrainConfig, stream: Callable[[str], Draws]) -> None:
        self.config = config
        self.kernel = Kernel(config, draw_data(stream("data"), config))
        self.planner = Planner(config, stream)
        self.start = TrainState(
            step=0,
            generation=0,
            epoch=0,
            consumed=0,
            samples=config.samples,
            weights=vector(draw_start(stream("init"), config), TARGET_BITS),
            momentum=zeros(config.entries),
        )
        self.start_digest = self.start.digests().whole

    def name(self, index: int) -> str:
        """Return the id of a sender index."""
        return self.config.hub if index == HUB else self.config.workers[index]

    def finished(self, step: int) -> bool:
        """Tell whether the state of this step is the last one wanted."""
        return 0 < self.config.steps <= step

    def is_process(self, member: Member, incarnation: int) -> bool:
        """Tell whether a process of a member's worker is the member itself, by its incarnation."""
        if TrainingDefect.NO_INCARNATION_CHECK in self.config.defects:  # another process of the worker is believed
            return True
        return member.incarnation == incarnation

    def members_record(self, members: Sequence[Member]) -> list[list[str | int]]:
        """Return members as records show them."""
        return [[self.name(member.worker), member.incarnation] for member in members]

    def contributions_record(self, contributions: Sequence[Contribution]) -> list[list[str | int]]:
        """Return contributions as records show them."""
        return [[self.name(each.worker), *each[1:]] for each in contributions]


def over(now_ns: int, since_ns: int, wait_ns: int) -> bool:
    """Tell whether a wait that began at `since_ns` has ended. A clock that went back ends it: time decides nothing else (T10)."""
    return now_ns - since_ns >= wait_ns or now_ns < since_ns

"""What every assertion kind is made of: a small state machine that is open until its outcome is final (ruling V1).

Records reach a fold in order of emission while a run goes on, and in file order after it. The two differ in two ways only, and
no fold may tell them apart: a back-dated `CacheStateChange` (ruling V6), and, within one instant, a snapshot against an event
(a bundle keeps no order between them). So what a fold says about an instant is settled when the instant is over.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from simharness.assertions.shown import Shown
from simharness.contracts.assertions import Outcome

Payload = dict[str, Any]
Handler = Callable[[int, str | None, Payload, int], None]
"""Takes time, host, event and the event's key."""


class Mark(NamedTuple):
    """A record as evidence. Marks sort by time, then events before snapshots, then by host and key.

    `key` is the run-wide sequence of a record while running; afterwards the line of an event or the number of a snapshot.
    """

    at_ns: int
    host: str
    """The host of a snapshot; empty for an event."""
    key: int


WHOLE_STREAM: Final = -1
"""The key of a mark that stands for the whole event stream: something that should have been there is not."""


class Subscription(NamedTuple):
    """Which events a fold wants: those of `kind` whose `field` is `value`.

    The field `host_id` is the envelope's; an empty field takes every event of the kind.
    """

    kind: str
    field: str
    value: str
    handler: Handler


class Board:
    """Where the folds of one evaluation report finality and ask to be woken."""

    __slots__ = ("finals", "stale", "wakes")

    def __init__(self) -> None:
        self.finals: list[int] = []
        """Places of the folds whose outcome is final, in the order in which that happened."""
        self.wakes: list[tuple[int, int]] = []
        """Requests `(time, place)` that the feed has not taken up yet."""
        self.stale = False
        """Whether some fold wants other records than before."""


class Fold:
    """One assertion under evaluation.

    Args:
        board: Where to report.
        place: The assertion's place in declared order.
    """

    keeps_listening = False
    """Whether records still matter once the outcome is final and its instant is over (they may refine the evidence)."""

    def __init__(self, board: Board, place: int) -> None:
        self._board, self._place = board, place
        self.outcome: Outcome | None = None
        self.evidence: tuple[Mark, ...] = ()
        self.note = ""
        """What the outcome rests on, in words, where records alone do not say it."""

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Return the events this fold wants."""
        return ()

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Return the hosts whose snapshots this fold wants."""
        return ()

    def awaited(self) -> str | None:
        """Return the host whose first sign of life this fold wants."""
        return None

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Take a wanted snapshot."""
        raise NotImplementedError

    def on_presence(self, mark: Mark) -> None:
        """Take a record of the awaited host: its first one, and the others of that instant."""
        raise NotImplementedError

    def on_passed(self, at_ns: int) -> None:
        """Act on the end of the instant `at_ns`, asked for by `wake`."""
        raise NotImplementedError

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude at the end of the run, every instant up to `end_ns` being over.

        A window that reaches past the end is inconclusive (ruling V2); so is a rule about the whole run if that was `cut` short.
        Kinds that look at the whole run override this.
        """
        del end_ns, cut
        self.conclude("Inconclusive")

    def wake(self, at_ns: int) -> None:
        """Ask for `on_passed(at_ns)`."""
        self._board.wakes.append((at_ns, self._place))

    def listen_anew(self) -> None:
        """Have the subscriptions read again, from the next instant on."""
        self._board.stale = True

    def conclude(self, outcome: Outcome, *evidence: Mark) -> None:
        """Make the outcome final."""
        assert self.outcome is None
        assert evidence or outcome != "Fail", "a Fail names what is responsible"
        self.outcome, self.evidence = outcome, evidence
        self._board.finals.append(self._place)
        self.listen_anew()

    def violated(self, mark: Mark) -> None:
        """Fail because of the record `mark`, or, having failed in this very instant, name the one that sorts first."""
        if self.outcome is None:
            self.conclude("Fail", mark)
        elif self.evidence and mark.at_ns == self.evidence[0].at_ns and mark < self.evidence[0]:
            self.evidence = (mark,)


def whole_stream(at_ns: int) -> Mark:
    """Return the evidence for what should have been in the event stream by `at_ns` and is not."""
    return Mark(at_ns, "", WHOLE_STREAM)


def mutation_of(event: Payload) -> Payload:
    """Return the mutation in a `Mutation` event; empty for any other event."""
    mutation = event.get("mutation")
    return mutation if isinstance(mutation, dict) else {}


def integer(event: Payload, field: str) -> int:
    """Return an integer field of an event; 0 if a foreign host kind left it out."""
    value = event.get(field)
    return value if type(value) is int else 0

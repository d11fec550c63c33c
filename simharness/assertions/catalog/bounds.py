"""`self_incarnation_bounded`, `message_size_bounded` and `relay_queue_depth_bounded`: a number that stays below a bound."""

from simharness.assertions.fold import Board, Fold, Mark, Payload, Subscription, integer, mutation_of
from simharness.assertions.setting import Setting
from simharness.assertions.shown import Shown
from simharness.contracts.assertions import MessageSizeBounded, RelayQueueDepthBounded, SelfIncarnationBounded


class SelfIncarnationBoundedFold(Fold):
    """Fails at once on a bump or a snapshot above the bound, or if the peer starts above it.

    The precondition is a sign of life: any record of the peer's own kind, or a snapshot (ruling V7).
    """

    def __init__(self, assertion: SelfIncarnationBounded, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        self._peer, self._max = assertion.peer, assertion.max_value
        member = setting.member(assertion.peer)
        self._starts_above = member is not None and member.initial_incarnation > self._max
        self._present_at_ns: int | None = None
        self._waiting = True

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the peer's bumps."""
        return (Subscription("SwimIncarnationBumped", "host_id", self._peer, self.on_bump),)

    def snapshot_hosts(self) -> tuple[str, ...]:
        """Want the peer's snapshots."""
        return (self._peer,)

    def awaited(self) -> str | None:
        """Want the peer's first sign of life."""
        return self._peer if self._waiting else None

    def on_presence(self, mark: Mark) -> None:
        """Note the first sign of life, and what else its instant holds."""
        if self._present_at_ns is None:
            self._present_at_ns = mark.at_ns
            self.wake(mark.at_ns)
        if self._starts_above and mark.at_ns == self._present_at_ns:
            self.violated(mark)

    def on_passed(self, at_ns: int) -> None:
        """Stop waiting."""
        del at_ns
        self._waiting = False
        self.listen_anew()

    def on_bump(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare a bump with the bound."""
        del host
        if max(integer(event, "from"), integer(event, "to")) > self._max:
            self.violated(Mark(at_ns, "", key))

    def on_snapshot(self, at_ns: int, host: str, shown: Shown, key: int) -> None:
        """Compare a snapshot with the bound."""
        if integer(shown.body, "self_incarnation") > self._max:
            self.violated(Mark(at_ns, host, key))

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Nothing above the bound was seen."""
        del end_ns
        self.conclude("Inconclusive" if cut or self._present_at_ns is None else "Pass")


class MessageSizeBoundedFold(Fold):
    """Fails at the first sent message of the kind whose payload is above the bound; inconclusive if none was sent."""

    def __init__(self, assertion: MessageSizeBounded, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._kind, self._max = assertion.message_kind, assertion.max_bytes
        self._sent = False

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want what was sent."""
        return (Subscription("MessageSent", "", "", self.on_sent),)

    def on_sent(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Compare one message with the bound; its kind is a type tag or the tag's last part (ruling B11)."""
        del host
        tag = str(event.get("message_kind"))
        if self._kind in (tag, tag.rpartition("::")[2]):
            self._sent = True
            if integer(event, "size") > self._max:
                self.violated(Mark(at_ns, "", key))

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """No message was too long."""
        del end_ns
        self.conclude("Pass" if self._sent and not cut else "Inconclusive")


class RelayQueueDepthBoundedFold(Fold):
    """Fails at the first enqueue in the window that lifts the relay above the bound, or if the window begins above it.

    The depth is added up here from `byte_len`, not taken from the relay's own `enqueued_bytes` (ruling K7); a `relay_kill`
    empties the relay. Inconclusive if nothing ever reached the relay.
    """

    def __init__(self, assertion: RelayQueueDepthBounded, setting: Setting, board: Board, place: int) -> None:
        super().__init__(board, place)
        del setting
        self._relay, self._max = assertion.relay, assertion.max_bytes
        self._start_ns, self._end_ns = assertion.window_start_ns or 0, assertion.window_end_ns
        self._depth = 0
        self._reached = False
        self._lifted: Mark | None = None
        """The enqueue that lifted the relay above the bound, while it is above."""
        self.wake(self._start_ns)

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want the relay's queue and kills."""
        return (
            Subscription("RelayEnqueue", "relay", self._relay, self.on_queue),
            Subscription("RelayDequeue", "relay", self._relay, self.on_queue),
            Subscription("RelayDrop", "relay", self._relay, self.on_drop),
            Subscription("Mutation", "", "", self.on_mutation),
        )

    def on_queue(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Add or take away one message."""
        del host
        self._reached = True
        if event.get("kind") == "RelayDequeue":
            self._set(self._depth - integer(event, "byte_len"))
            return
        self._set(self._depth + integer(event, "byte_len"), Mark(at_ns, "", key))
        inside = self._start_ns <= at_ns and (self._end_ns is None or at_ns <= self._end_ns)
        if inside and self._depth > self._max:
            self.violated(Mark(at_ns, "", key))

    def on_drop(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note that something reached the relay."""
        del at_ns, host, event, key
        self._reached = True

    def on_mutation(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Empty the relay when it is killed."""
        del at_ns, host, key
        mutation = mutation_of(event)
        if mutation.get("kind") == "relay_kill" and mutation.get("relay") == self._relay:
            self._set(0)

    def on_passed(self, at_ns: int) -> None:
        """Judge what the window begins with; conclude when it is over."""
        if at_ns == self._start_ns:
            if self._lifted is not None:
                self.conclude("Fail", self._lifted)
            elif self._end_ns is not None and self._start_ns < self._end_ns:
                self.wake(self._end_ns)
        if at_ns == self._end_ns and self.outcome is None:
            self._conclude_clean()

    def on_end(self, end_ns: int, *, cut: bool) -> None:
        """Conclude over the whole run; a window that reaches past the end stays open."""
        if cut or self._end_ns is not None or end_ns < self._start_ns:
            self.conclude("Inconclusive")
        else:
            self._conclude_clean()

    def _conclude_clean(self) -> None:
        self.conclude("Pass" if self._reached else "Inconclusive")

    def _set(self, depth: int, cause: Mark | None = None) -> None:
        self._depth = depth
        if depth <= self._max:
            self._lifted = None
        elif self._lifted is None:
            self._lifted = cause

"""Drives folds: each record goes to the folds that asked for it, each fold is woken when its instant is over.

The cost of a record is that of looking up its kind, plus the folds that want it.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from simharness.assertions.fold import Board, Fold, Handler, Mark, Payload
from simharness.assertions.shown import Shown

_Routes = dict[str, dict[str, dict[str, list[Handler]]]]
"""Handlers by event kind, field and value."""


class Feed:
    """All folds of one evaluation."""

    def __init__(self, folds: Sequence[Fold], board: Board, kinds: Mapping[str | None, str]) -> None:
        self._folds, self._board, self._kinds = folds, board, kinds
        self._now_ns = -1
        self._wakes: list[tuple[int, int]] = []
        self._route()

    @property
    def all_final(self) -> bool:
        """Whether every fold has its final outcome."""
        return len(self._board.finals) == len(self._folds)

    def event(self, at_ns: int, host: str | None, kind_tag: str, event: Payload, key: int) -> None:
        """Pass an event on."""
        if at_ns > self._now_ns:
            self.advance(at_ns)
        if host in self._awaited and kind_tag == self._kinds.get(host):
            self._present(host, Mark(at_ns, "", key))
        kind = event.get("kind")
        if type(kind) is not str or kind not in self._routes:
            return
        for field, by_value in self._routes[kind].items():
            value = host if field == "host_id" else event.get(field) if field else ""
            if type(value) is str and value in by_value:
                for handler in by_value[value]:
                    handler(at_ns, host, event, key)

    def wants_snapshot(self, host: str) -> bool:
        """Tell whether any fold looks at the snapshots of `host`."""
        return host in self._snapshots or host in self._awaited

    def snapshot(self, at_ns: int, host: str, snapshot: Payload, key: int) -> None:
        """Pass a snapshot on."""
        if at_ns > self._now_ns:
            self.advance(at_ns)
        if host in self._awaited:
            self._present(host, Mark(at_ns, host, key))
        shown = Shown(snapshot)
        for fold in self._snapshots.get(host, ()):
            fold.on_snapshot(at_ns, host, shown, key)

    def advance(self, now_ns: int) -> None:
        """Let every instant before `now_ns` be over (ruling V1)."""
        board, wakes = self._board, self._wakes
        while True:
            if board.wakes:
                for wake in board.wakes:
                    heappush(wakes, wake)
                board.wakes.clear()
            if not wakes or wakes[0][0] >= now_ns:
                break
            at_ns, place = heappop(wakes)
            fold = self._folds[place]
            if fold.outcome is None:
                fold.on_passed(at_ns)
        if now_ns > self._now_ns:
            self._now_ns = now_ns
            if board.stale:
                self._route()

    def close(self, end_ns: int, *, cut: bool) -> None:
        """End the run at `end_ns`: every bound up to it is passed, the rest is concluded."""
        self.advance(end_ns + 1)
        for fold in self._folds:
            if fold.outcome is None:
                fold.on_end(end_ns, cut=cut)

    def _present(self, host: str | None, mark: Mark) -> None:
        for fold in self._awaited[host]:
            fold.on_presence(mark)

    def _route(self) -> None:
        """Build the tables anew without the folds that need no more records."""
        self._board.stale = False
        self._routes: _Routes = {}
        self._snapshots: dict[str, list[Fold]] = {}
        self._awaited: dict[str | None, list[Fold]] = {}
        for fold in self._folds:
            if fold.outcome is not None and not fold.keeps_listening:
                continue
            for kind, field, value, handler in fold.subscriptions():
                self._routes.setdefault(kind, {}).setdefault(field, {}).setdefault(value, []).append(handler)
            for host in fold.snapshot_hosts():
                self._snapshots.setdefault(host, []).append(fold)
            awaited = fold.awaited()
            if awaited is not None:
                self._awaited.setdefault(awaited, []).append(fold)

"""One evaluation: the folds of a setting, fed with records, read as verdicts (§10.2)."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from simharness.assertions.catalog import FOLDS
from simharness.assertions.feed import Feed
from simharness.assertions.fold import WHOLE_STREAM, Board, Fold, Mark
from simharness.assertions.setting import Setting
from simharness.contracts.assertions import Evidence, Verdict
from simharness.contracts.mutations import as_table, kind_of

EVENTS: Final = "events.ndjson"


class Evaluation:
    """The folds of all declared assertions.

    Args:
        setting: Peers and assertions.
        cite: How evidence names a record, given its mark.
    """

    def __init__(self, setting: Setting, cite: Callable[[Mark], str]) -> None:
        self._setting, self._cite = setting, cite
        self.board = Board()
        self._folds = [
            FOLDS[type(assertion)](assertion, setting, self.board, place)
            for place, assertion in enumerate(setting.assertions)
        ]
        self.feed = Feed(self._folds, self.board, {member.id: member.kind for member in setting.members})

    @property
    def folds(self) -> Sequence[Fold]:
        """The folds, in declared order; what they have counted may be read."""
        return self._folds

    def verdict(self, place: int) -> Verdict | None:
        """Return the verdict of one assertion, or None while it is open."""
        fold, assertion = self._folds[place], self._setting.assertions[place]
        if fold.outcome is None:
            return None
        return Verdict(
            name=f"a{place}",
            kind=kind_of(assertion),
            parameters=as_table(assertion),
            outcome=fold.outcome,
            evidence=tuple(Evidence(mark.at_ns, self._reference(mark)) for mark in fold.evidence),
            note=fold.note or msgspec.UNSET,
        )

    def verdicts(self) -> tuple[Verdict | None, ...]:
        """Return every verdict in declared order; None stands for an open one."""
        return tuple(map(self.verdict, range(len(self._folds))))

    def _reference(self, mark: Mark) -> str:
        return EVENTS if mark.key == WHOLE_STREAM else self._cite(mark)


def plain(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as the JSON object of §10.2."""
    table: dict[str, object] = msgspec.to_builtins(verdict)
    return table

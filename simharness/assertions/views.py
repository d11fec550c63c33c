"""What observers hold about other peers: from snapshots, and from `SwimTransition` between them.

Exact at the end of every instant. A transition outweighs a snapshot of its own instant, because the order between the two is not
kept in a bundle: if the transition came first, the snapshot agrees with it; if it came second, it is newer.
"""

from typing import NamedTuple

from simharness.assertions.fold import Mark, Payload
from simharness.assertions.lives import Change, Lives
from simharness.assertions.setting import Setting
from simharness.assertions.shown import MISSING, Shown


class Held(NamedTuple):
    """A state and the record that shows it."""

    state: str
    shown: Mark


class Views:
    """What everybody holds about `subjects`, instance by instance: a rebuilt peer starts without a view, a dead one has none."""

    def __init__(self, subjects: tuple[str, ...], setting: Setting) -> None:
        self._subjects = subjects
        self.lives = Lives(setting)
        self._held: dict[str, dict[str, Held]] = {}
        self._snapshots: dict[str, Mark] = {}

    def alive(self, observer: str) -> bool:
        """Tell whether `observer` is up."""
        return self.lives.alive(observer)

    def complete(self, observer: str) -> bool:
        """Tell whether the whole view of `observer` is known: it is up, and this instance of it was asked for a snapshot."""
        return self.alive(observer) and observer in self._snapshots

    def of(self, observer: str, subject: str) -> Held | None:
        """Return the state that `observer` holds and the record that shows it, or None if that is not known."""
        if not self.alive(observer):
            return None
        held = self._held.get(observer, {}).get(subject)
        if held is None and observer in self._snapshots:
            return Held(MISSING, self._snapshots[observer])
        return held

    def on_life(self, host: str | None, event: Payload) -> tuple[str, Change] | None:
        """Follow a kill or a resurrection."""
        change = self.lives.follow(host, event)
        if change is not None and change[1] == "rebuilt":
            self._held.pop(change[0], None)
            self._snapshots.pop(change[0], None)
        return change

    def on_transition(self, at_ns: int, observer: str, event: Payload, key: int) -> None:
        """Follow a transition in the view of `observer`."""
        self._held.setdefault(observer, {})[event["peer"]] = Held(str(event.get("to")), Mark(at_ns, "", key))

    def on_snapshot(self, at_ns: int, observer: str, shown: Shown, key: int) -> None:
        """Follow a snapshot of `observer`."""
        mark = self._snapshots[observer] = Mark(at_ns, observer, key)
        newer = {
            subject: held
            for subject, held in self._held.get(observer, {}).items()
            if held.shown.at_ns == at_ns and not held.shown.host
        }
        states = shown.states
        self._held[observer] = {
            subject: Held(states[subject], mark) for subject in self._subjects if subject in states
        } | newer

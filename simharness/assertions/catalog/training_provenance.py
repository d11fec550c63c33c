"""`train_provenance`, invariant 6: whose work is in a step, for what it was done, and that it was there (training design, 13).

Dead, cut off, evicted and stale are violations of one of these rules. The last one rests on the engine's word, not on a host's.
"""

import struct
from typing import Final

from simharness.assertions.catalog.training import TrainingFold
from simharness.assertions.fold import Board, Handler, Mark, Payload, Subscription, integer
from simharness.assertions.setting import Setting
from simharness.assertions.training_reading import (
    Contribution,
    Gradients,
    contributions,
    data_of,
    members,
    parts,
    place,
    word,
)
from simharness.contracts.assertions import TrainProvenance

_HEAD: Final = struct.Struct("<IIIIHH")
"""Generation, view, step, incarnation, sender, flags: what a message of training starts with."""

_Arrival = tuple[str, int, int, int, int]
"""Worker, generation, view, step, incarnation."""


class TrainProvenanceFold(TrainingFold):
    """Each contribution resolves to one gradient of that incarnation, computed for the commit's generation, view, step and base.

    The worker's incarnation is in the view, the view was the newest, and before the commit a message of the worker that says so
    (READY in a ring, PUSH at a server) was delivered to the hub. A base that is the worker's own state of that step, by its own
    report, is not objected to: that replicas differ is for another invariant to say.
    """

    def __init__(self, assertion: TrainProvenance, setting: Setting, board: Board, number: int) -> None:
        super().__init__(setting, board, number)
        del assertion
        facts = self._facts
        self._gradients = Gradients(0 if facts is None else facts.samples)
        self._ambiguous: dict[tuple[str, int, int], Mark] = {}
        self._view: tuple[int, int] = (-1, -1)
        self._members: dict[str, int] = {}
        self._recent: dict[_Arrival, Mark] = {}
        self._older: dict[_Arrival, Mark] = {}
        self._tag = "READY" if facts is not None and facts.ring else "PUSH"
        self._hub = "" if facts is None else facts.hub
        self._senders = {} if facts is None else {worker: index for index, worker in enumerate(facts.workers)}
        self._arrived = self._contributions = 0
        self._held: dict[tuple[str, int], tuple[int, int, str]] = {}
        """By process: generation, step and digest of the state that it reported last."""

    def handlers(self) -> dict[str, Handler]:
        """Want views, gradients, states and commits."""
        return {
            "TrainView": self.on_view,
            "TrainGradient": self.on_gradient,
            "TrainApply": self.on_state,
            "TrainInstall": self.on_state,
            "TrainCommit": self.on_commit,
        }

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Want, besides, deliveries of the one tag: most are of others."""
        found = super().subscriptions()
        return (*found, Subscription("Delivered", "type_tag", self._tag, self.on_delivered)) if found else ()

    def on_view(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note the newest view."""
        del at_ns, host, key
        self._view = integer(event, "generation"), integer(event, "view")
        self._members = members(event)

    def on_gradient(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note a gradient, and a name that is used again."""
        mark = Mark(at_ns, "", key)
        former = self._gradients.add(host, event, mark)
        if former is not None:
            self._ambiguous[str(host), integer(event, "incarnation"), integer(event, "seq")] = former.mark

    def on_state(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note what a worker holds."""
        del at_ns, key
        made = parts(event, "post" if event.get("kind") == "TrainApply" else "digests")
        if made is not None:
            self._held[str(host), integer(event, "incarnation")] = (*place(event), made.whole)

    def on_delivered(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Note what reached the hub."""
        if host != self._hub:
            return
        sender, data = word(event, "from"), data_of(event, "head")
        if data is None or len(data) != _HEAD.size:
            return
        generation, view, step, incarnation, index, _ = _HEAD.unpack(data)
        if self._senders.get(sender) == index:
            self._arrived += 1
            self._recent[sender, generation, view, step, incarnation] = Mark(at_ns, "", key)

    def on_commit(self, at_ns: int, host: str | None, event: Payload, key: int) -> None:
        """Judge each contribution."""
        del host
        self._commits += 1
        mark, (generation, step), view = Mark(at_ns, "", key), place(event), integer(event, "view")
        if (generation, view) != self._view:
            self.broken(f"step {step} is committed in view {view} of generation {generation}, not in the newest", mark)
        for each in contributions(event):
            self._contributions += 1
            self._judge(each, (generation, view, step), word(event, "base"), mark)
        # What arrived before the previous commit was for a step that is decided; a bounded memory is enough.
        self._older, self._recent = self._recent, {}

    def summary(self) -> tuple[bool, str]:
        """Say what was seen."""
        return True, f"{self._contributions} contributions, {self._arrived} messages of {self._tag} delivered"

    def _judge(self, each: Contribution, at: tuple[int, int, int], base: str, mark: Mark) -> None:
        who = f"step {at[2]}, {each.worker} (incarnation {each.incarnation}, gradient {each.seq})"
        found = self._gradients.of(each)
        again = self._ambiguous.get(each[:3])
        arrival = each.worker, *at, each.incarnation
        if found is None:
            self.broken(f"{who}: no such gradient", mark)
        elif again is not None:
            self.broken(f"{who}: two gradients of that name", again, found.mark, mark)
        elif found[:3] != at:
            self.broken(f"{who}: computed for generation, view, step {found[:3]}, used for {at}", found.mark, mark)
        elif found.base != base and self._held.get(each[:2]) != (at[0], at[2], found.base):
            self.broken(f"{who}: computed on another state", found.mark, mark)
        elif self._members.get(each.worker) != each.incarnation:
            self.broken(f"{who}: not a member of the view", mark)
        elif arrival not in self._recent and arrival not in self._older:
            self.broken(f"{who}: no {self._tag} of it had reached the hub", mark)

"""Which peers are up, and when one started anew (rulings E8, E25)."""

from typing import Literal

from simharness.assertions.fold import Handler, Payload, Subscription, mutation_of
from simharness.assertions.setting import Setting

Change = Literal["killed", "halted", "resumed", "rebuilt"]


class Lives:
    """Follows `peer_kill`, `peer_resurrect` and the halt of a stage.

    A second kill, and a resurrection of a peer that is neither dead nor halted, change nothing. A stage is always rebuilt, and
    one that halted of its own accord can be. A halted one is still asked for snapshots (ruling E12), but they show what it held
    when it stopped: as an observer it is as gone as a dead one.
    """

    def __init__(self, setting: Setting) -> None:
        self._stages = {member.id: member.kind == "stage" for member in setting.members}
        self._dead: dict[str, bool] = {}
        self._halted: dict[str, bool] = {}

    def subscriptions(self, handler: Handler) -> tuple[Subscription, ...]:
        """Return what must reach `handler`, which passes it to `follow`."""
        return Subscription("Mutation", "", "", handler), Subscription("stage_lifecycle", "", "", handler)

    def alive(self, peer: str) -> bool:
        """Tell whether `peer` is up: neither killed nor halted."""
        return peer not in self._dead and peer not in self._halted

    def follow(self, host: str | None, event: Payload) -> tuple[str, Change] | None:
        """Take one subscribed event and return which peer it changed, and how."""
        if host is not None and event.get("to") == "Halted":
            self._halted[host] = True
            return host, "halted"
        mutation = mutation_of(event)
        peer = str(mutation.get("peer"))
        if mutation.get("kind") == "peer_kill" and peer not in self._dead:
            self._dead[peer] = True
            return peer, "killed"
        if mutation.get("kind") == "peer_resurrect" and (peer in self._dead or peer in self._halted):
            self._dead.pop(peer, None)
            self._halted.pop(peer, None)
            same = mutation.get("preserve_state") is True and not self._stages.get(peer, False)
            return peer, "resumed" if same else "rebuilt"
        return None

"""The kind `swim`: validation without node code, construction on demand (§6.3, §8.2)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from simharness.contracts.host import Complaint, HostContext, PeerFacts, Validated
from simharness.contracts.mutations import AIMED_KINDS
from simharness.systems.swim.config import PROFILES, Defect, resolve

if TYPE_CHECKING:
    from simharness.contracts.host import Codec, Host

STATES: Final = ("alive", "joining")
PROFILE_NAMES: Final = tuple(PROFILES)
DEFECT_NAMES: Final = tuple(Defect.__members__)
EVENT_KINDS: Final = (
    *("Error", "GossipReceived", "MessageReceived", "MessageSent", "SwimIncarnationBumped", "SwimProbeAcked"),
    *("SwimProbeSent", "SwimProbeTimedOut", "SwimTransition"),
)


class SwimKind:
    """`kind_config`: see `systems.swim.config`. `initial_state`: `alive` knows every member, `joining` only its seeds."""

    kind_tag = "swim"
    accepts_worker_exit = False
    accepts = AIMED_KINDS
    event_kinds = EVENT_KINDS

    @property
    def codec(self) -> "Codec":
        """The SWIM codec."""
        from simharness.hosts.swim.codec import SwimCodec  # noqa: PLC0415  # `check` must not import the node

        return SwimCodec()

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`."""
        complaints = []
        if facts.initial_state not in STATES:
            complaints.append(Complaint("initial_state", f"must be one of {', '.join(STATES)}"))
        resolved, found = resolve(
            config,
            tick_period_ns=facts.tick_period_ns,
            peer_ids=facts.peer_ids,
            initial_state=facts.initial_state,
            own_id=facts.id,
        )
        complaints += [Complaint(f"kind_config.{field}", rule) for field, rule in found]
        return Validated(resolved or {}, tuple(complaints))

    def new(self, context: HostContext) -> "Host":
        """Build one instance."""
        from simharness.hosts.swim.adapter import SwimHost  # noqa: PLC0415  # `check` must not import the node

        return SwimHost(
            host_id=context.host_id,
            config=context.config,
            joining=context.initial_state == "joining",
            tick_period_ns=context.tick_period_ns,
            peers=context.peers,
            instance=context.instance,
        )


KIND: Final = SwimKind()

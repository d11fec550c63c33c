"""The kind `stage`: validation without supervisor or node, construction on demand (§6A, §8.2)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from simharness.contracts.host import HostContext, PeerFacts, Validated
from simharness.contracts.mutations import AIMED_KINDS
from simharness.hosts.stage.config import validate
from simharness.hosts.swim.kind import EVENT_KINDS
from simharness.hosts.swim.kind import KIND as SWIM

if TYPE_CHECKING:
    from simharness.contracts.host import Codec, Host


class StageKind:
    """`kind_config`: name, address; optional `node`, a swim table (ruling S2), and `subprocess`, what the worker does.

    `initial_state` is "cold". `subprocess` has ready_after_ns (0) or never_ready, exit_after_ns (absent: it stays) with
    exit_code (0) or exit_signal and exit_reason, and ready_name, a further name that is published once the worker is ready;
    its times count from the stage's own start. Without the table no worker process is seen, and only a `worker_exit` ends the
    stage.
    """

    kind_tag = "stage"
    accepts_worker_exit = True
    accepts = AIMED_KINDS
    event_kinds = (
        *("SubprocessExited", "SubprocessSpawned", "register_name", "stage_lifecycle", "worker_exited", "worker_ready"),
        *EVENT_KINDS,
    )
    always_rebuilt = True
    """A stage lives once: whatever `preserve_state` says, a resurrection builds a fresh, cold one (§6A.2, ruling E25)."""

    @property
    def codec(self) -> "Codec":
        """The codec of the embedded node. A stage without one has no messages: it sends none and refuses any (§6A.5)."""
        return SWIM.codec

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`."""
        return validate(config, facts)

    def new(self, context: HostContext) -> "Host":
        """Build one instance."""
        from simharness.hosts.stage.adapter import StageHost  # noqa: PLC0415  # `check` must not import the node

        return StageHost(context)


KIND: Final = StageKind()

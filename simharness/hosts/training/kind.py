"""The kinds `train_worker` and `train_hub`: one table, rules across a job's peers, construction on demand (§6.3, §8.2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from simharness.contracts.host import Complaint, GroupComplaint, HostContext, PeerFacts, Validated
from simharness.contracts.mutations import AIMED_KINDS
from simharness.contracts.scenario import PeerDecl
from simharness.systems.training.config import MAX_WORKERS
from simharness.systems.training.table import group_rules, resolve

if TYPE_CHECKING:
    from simharness.contracts.host import Codec, Host

STATE: Final = "alive"
WORKER: Final = "train_worker"
HUB: Final = "train_hub"
NO_NUMPY: Final = (
    "training computes with numpy, which is not installed: pip install 'simharness[train]' "
    "(in a clone: pip install -e '.[train]')"
)


class TrainKind:
    """One of the two kinds. `kind_config`: see `systems.training.table`; it is the same for every peer of the job."""

    accepts_worker_exit = False
    table = "training"
    evidence_tags = ("READY", "PUSH", "CHUNK", "VIEW")

    def __init__(self, kind_tag: str, accepts: tuple[str, ...]) -> None:
        self.kind_tag, self.accepts = kind_tag, accepts

    @property
    def codec(self) -> "Codec":
        """The codec of the job's messages."""
        from simharness.hosts.training.codec import TrainCodec  # noqa: PLC0415  # `check` must not import the system

        return TrainCodec()

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        """Check and resolve a `kind_config`."""
        resolved, found = resolve(config, tick_period_ns=facts.tick_period_ns, workers=max(1, len(facts.peer_ids) - 1))
        complaints = [Complaint(f"kind_config.{field}", rule) for field, rule in found]
        if facts.initial_state != STATE:
            complaints.append(Complaint("initial_state", f"must be {STATE}"))
        return Validated(resolved, tuple(complaints))

    def validate_group(self, peers: Sequence[PeerDecl]) -> Sequence[GroupComplaint]:
        """Check the rules across the peers of a job: one hub, at least one worker, one table, shards for everybody (design, 4)."""
        hubs, workers = ([peer.id for peer in peers if peer.kind == kind] for kind in (HUB, WORKER))
        first = peers[0]
        if not has_numpy():
            return (GroupComplaint(first.id, "kind", NO_NUMPY),)
        wrong = [GroupComplaint(hub, "kind", f"a job has one {HUB}; {hubs[0]!r} is one already") for hub in hubs[1:]]
        if not hubs:
            wrong.append(GroupComplaint(first.id, "kind", f"a {WORKER} needs a peer of kind {HUB}"))
        if not workers:
            wrong.append(GroupComplaint(first.id, "kind", f"a {HUB} needs at least one peer of kind {WORKER}"))
        elif len(workers) > MAX_WORKERS:
            wrong.append(GroupComplaint(workers[-1], "kind", f"at most {MAX_WORKERS} peers of kind {WORKER}"))
        for peer in peers[1:]:
            wrong += [
                GroupComplaint(
                    peer.id, f"kind_config.{field}", f"differs from that of {first.id!r}; a job has one table"
                )
                for field in sorted({*peer.kind_config, *first.kind_config})
                if peer.kind_config.get(field) != first.kind_config.get(field)
            ]
        if not wrong:
            rules = group_rules(first.kind_config, len(workers))
            wrong = [GroupComplaint(first.id, f"kind_config.{field}", rule) for field, rule in rules]
        return wrong

    def new(self, context: HostContext) -> "Host":
        """Build one instance."""
        from simharness.hosts.training.adapter import TrainHost  # noqa: PLC0415  # `check` must not import the system

        return TrainHost(context, self.kind_tag)


def has_numpy() -> bool:
    """Tell whether the extra `train` is installed."""
    try:
        import simharness.systems.training.kernel  # noqa: F401, PLC0415  # asked of training scenarios only
    except ModuleNotFoundError:
        return False
    return True


KIND_WORKER: Final = TrainKind(WORKER, AIMED_KINDS)
KIND_HUB: Final = TrainKind(HUB, tuple([kind for kind in AIMED_KINDS if kind != "peer_slow"]))  # it computes nothing

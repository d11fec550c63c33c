"""The catalogue (§10.1): one fold for every kind of assertion."""

from collections.abc import Callable
from typing import Any, Final

from simharness.assertions.catalog.alive import AllAliveAtFold, AllAliveThroughoutFold
from simharness.assertions.catalog.bounds import (
    MessageSizeBoundedFold,
    RelayQueueDepthBoundedFold,
    SelfIncarnationBoundedFold,
)
from simharness.assertions.catalog.counts import EventCountFold, EventRateFold
from simharness.assertions.catalog.instants import ConvergenceAfterFold, PeerDetectedDeadWithinFold
from simharness.assertions.catalog.probes import NoDeadWhenProbesOkFold, NoFlapWhileProbesOkFold
from simharness.assertions.catalog.resurrection import DeadPeerResurrectsWithinFold
from simharness.assertions.catalog.stages import NameResolvesWithinFold, WorkerAliveThroughoutFold
from simharness.assertions.catalog.supervisor_invariants import SupervisorInvariantsHoldFold
from simharness.assertions.catalog.supervisor_settles import SupervisorSettlesWithinFold
from simharness.assertions.catalog.training_order import TrainStepOrderFold
from simharness.assertions.catalog.training_progress import TrainProgressFold
from simharness.assertions.catalog.training_provenance import TrainProvenanceFold
from simharness.assertions.catalog.training_replicas import TrainReplicasIdenticalFold
from simharness.assertions.catalog.training_samples import TrainSampleAccountingFold
from simharness.assertions.catalog.training_update import TrainUpdateMatchesReferenceFold
from simharness.assertions.catalog.training_weights import TrainWeightsFold
from simharness.assertions.fold import Board, Fold
from simharness.assertions.setting import Setting
from simharness.contracts import assertions as kinds

FOLDS: Final[dict[type[kinds.Assertion], Callable[[Any, Setting, Board, int], Fold]]] = {
    kinds.AllAliveAt: AllAliveAtFold,
    kinds.AllAliveThroughout: AllAliveThroughoutFold,
    kinds.ConvergenceAfter: ConvergenceAfterFold,
    kinds.NoFlapWhileProbesOk: NoFlapWhileProbesOkFold,
    kinds.NoDeadWhenProbesOk: NoDeadWhenProbesOkFold,
    kinds.SelfIncarnationBounded: SelfIncarnationBoundedFold,
    kinds.MessageSizeBounded: MessageSizeBoundedFold,
    kinds.DeadPeerResurrectsWithin: DeadPeerResurrectsWithinFold,
    kinds.EventCount: EventCountFold,
    kinds.EventRate: EventRateFold,
    kinds.RelayQueueDepthBounded: RelayQueueDepthBoundedFold,
    kinds.WorkerAliveThroughout: WorkerAliveThroughoutFold,
    kinds.NameResolvesWithin: NameResolvesWithinFold,
    kinds.PeerDetectedDeadWithin: PeerDetectedDeadWithinFold,
    kinds.TrainUpdateMatchesReference: TrainUpdateMatchesReferenceFold,
    kinds.TrainReplicasIdentical: TrainReplicasIdenticalFold,
    kinds.TrainSampleAccounting: TrainSampleAccountingFold,
    kinds.TrainStepOrder: TrainStepOrderFold,
    kinds.TrainWeights: TrainWeightsFold,
    kinds.TrainProvenance: TrainProvenanceFold,
    kinds.TrainProgress: TrainProgressFold,
    kinds.SupervisorInvariantsHold: SupervisorInvariantsHoldFold,
    kinds.SupervisorSettlesWithin: SupervisorSettlesWithinFold,
}

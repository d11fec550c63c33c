"""Counters are raised where an effect shows: with the effect taken away and every draw left as it is, each stays zero (K8)."""

from collections.abc import Callable
from typing import Any

import pytest

from simharness.supervisor import coverage, quiet
from simharness.supervisor.calls import Calls
from simharness.supervisor.checks import Checks
from simharness.supervisor.direct import run
from simharness.supervisor.disturbances import Disturbances
from simharness.supervisor.files import Files
from simharness.supervisor.locktable import LockTable
from simharness.supervisor.record import Ledger
from simharness.supervisor.seats import Seat
from simharness.supervisor.truth import Truth
from simharness.systems.supervisor import events as ev
from simharness.systems.supervisor.backend import Adapter, Env, MemoryBackend
from simharness.systems.supervisor.config import NO_DEFECTS
from simharness.systems.supervisor.state import State

Patch = Callable[[pytest.MonkeyPatch], None]
SEEDS = 60


def replace(owner: type, name: str, value: Any) -> Patch:
    """Return a patch that puts `value` in the place of a method."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def _undisturbed(self: Calls, seat: Seat, operation: str, given: str | None) -> str:
    return "ok"


def _never_lands(self: Truth, late: Any, *, land: bool) -> None:
    self.late.remove(late)


def _ends_only(real: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, o, act, now: act not in ("lose", "revive") and real(self, o, act, now)


def _no_requeue(self: MemoryBackend, o: Any, *, steps: int = 3) -> None:
    return


def _nothing(*_: Any, **__: Any) -> None:
    return


def _no_cut(self: Files, draw: Any) -> bool:
    return False


MODES = replace(Calls, "mode_of", _undisturbed)
LANDING = replace(Truth, "settle_late", _never_lands)
FREEZING = replace(Seat, "freeze", _nothing)
CUTTING = replace(Files, "cut", _no_cut)
ENV = replace(Env, "do", _ends_only(Env.do))
REQUEUE = replace(MemoryBackend, "requeue", _no_requeue)
CRASHING = replace(Disturbances, "crash", lambda self, pid, counter="crash": False)
PURGING = replace(Truth, "purge_after_ns", _nothing)

SUPPRESSED: dict[str, Patch] = {
    **dict.fromkeys(("start_refused", "start_dropped", "start_reply_lost", "find_failed", "find_reply_late"), MODES),
    **dict.fromkeys(("call_refused", "commit_failed", "commit_reply_lost", "lost_commit_retried"), MODES),
    **dict.fromkeys(("late_start", "late_open", "late_stop", "late_hold", "late_release", "late_requeue"), LANDING),
    "call_in_deadline_window": LANDING,
    **dict.fromkeys(("requeue_running", "requeue_revived", "requeue_crashed", "requeue_after_outcome"), REQUEUE),
    "bit_restored": REQUEUE,
    "auto_revived": ENV,
    **dict.fromkeys(("node_lost", "stop_on_lost_node"), ENV),
    "find_omitted": replace(Truth, "visible_lag_ns", lambda self, obj: 0),
    "object_purged": PURGING,
    "settled_after_purge": PURGING,
    "id_reused": replace(Truth, "id_for", _nothing),
    **dict.fromkeys(("freeze", "freeze_before_settle", "freeze_mid_commit", "stall_call"), FREEZING),
    "call_past_deadline": replace(Adapter, "admit", _nothing),
    **dict.fromkeys(("crash", "crash_mid_commit", "crash_at_call_commit"), CRASHING),
    "drain": replace(Disturbances, "drain", lambda self, pid: False),
    "revoke": replace(LockTable, "release", _nothing),
    **dict.fromkeys(("machine_crash", "machine_cut_lost_unsynced", "power_cut_lost_unsynced"), CUTTING),
    "corrupt_refused": replace(Files, "change", _nothing),
    "create_after_cancel": replace(Checks, "cancelled", False),
    "open_after_cancel": replace(Checks, "cancelled", False),
    "create_after_settlement": LANDING,
    "swept_after_settlement": replace(Truth, "settle_late", _never_lands),
}
"""Counter -> what takes its effect away; the others are counted in the record or proved below."""


def aimed(seed_class: str, *kinds: str, **more: Any) -> dict[str, Any]:
    """Return a profile with few kinds, so that they do not drown each other."""
    return {"class": seed_class, "kinds": list(kinds), "rate_ppm": 350_000, "tamper": "none", **more}


FOCUS: dict[str, dict[str, Any]] = {
    **{name: aimed("early_cancel", name) for name in ("start_refused", "start_dropped", "start_reply_lost")},
    **dict.fromkeys(
        ("late_start", "create_after_cancel", "create_after_settlement"), aimed("early_cancel", "start_late")
    ),
    "swept_after_settlement": aimed("early_cancel", "start_late"),
    **dict.fromkeys(("late_open", "open_after_cancel"), aimed("early_cancel", "open_late")),
    "late_stop": aimed("early_cancel", "stop_late"),
    **dict.fromkeys(("late_hold", "late_release", "call_in_deadline_window"), aimed("hold_storm", "call_late")),
    **dict.fromkeys(("late_requeue", "requeue_after_outcome"), aimed("requeue_storm", "call_late")),
    **dict.fromkeys(("requeue_running", "requeue_revived"), aimed("requeue_storm", "call_late")),
    **dict.fromkeys(("requeue_crashed", "bit_restored", "auto_revived"), aimed("requeue_storm", "requeue_crash")),
    "call_refused": aimed("hold_storm", "call_refused"),
    "call_past_deadline": aimed("hold_storm", "call_past_deadline"),
    "find_failed": aimed("plain", "find_fails"),
    "find_reply_late": aimed("plain", "find_reply_late"),
    "find_omitted": aimed("plain", "find_omits"),
    "commit_failed": aimed("plain", "commit_fails", store="memory"),
    "commit_reply_lost": aimed("plain", "commit_reply_lost"),
    "lost_commit_retried": aimed("plain", "commit_reply_lost", store="file"),
    **dict.fromkeys(("node_lost", "stop_on_lost_node"), aimed("plain", shape="kubeflow")),
    **dict.fromkeys(("object_purged", "settled_after_purge"), aimed("plain", "object_purged")),
    "id_reused": aimed("plain", "id_reused"),
    "freeze": aimed("plain", "sup_freeze"),
    **{name: aimed("plain", name) for name in ("freeze_before_settle", "freeze_mid_commit", "stall_call")},
    "crash": aimed("plain", "sup_crash"),
    "crash_mid_commit": aimed("plain", "sup_crash", store="file"),
    "crash_at_call_commit": aimed("hold_storm", "crash_at_call_commit"),
    "drain": aimed("plain", "sup_drain"),
    "revoke": aimed("plain", "revoke"),
    **dict.fromkeys(("machine_crash", "machine_cut_lost_unsynced"), aimed("plain", "machine_crash", store="file")),
    "power_cut_lost_unsynced": aimed("plain", "ckpt_power_cut", "slow_publish"),
    "corrupt_refused": aimed("plain", store="file", tamper="swap"),
}
"""Counter -> profile fields under which a few seeds see it."""


def sighting(counter: str) -> int:
    """Return a seed whose run sees the counter."""
    given = {"shape": "slurm", **FOCUS[counter]}
    return next(seed for seed in range(SEEDS) if counter in run(seed, given["shape"], given=given).seen)


@pytest.mark.parametrize("counter", SUPPRESSED)
def test_without_the_effect_a_counter_stays_zero(counter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very run that saw it sees it no more; the faults are drawn as before."""
    seed = sighting(counter)
    monkeypatch.setattr(quiet, "bound", lambda world: 300)
    SUPPRESSED[counter](monkeypatch)
    given = {"shape": "slurm", **FOCUS[counter]}
    skip = (*map(str, range(1, 17)), "X1", "X2", "X3", "L")
    assert counter not in run(seed, given["shape"], given=given, skip=skip).seen


EVENTS: dict[str, ev.Event] = {
    "attempt_abandoned": ev.AttemptAbandoned(n=1, a=1, by="policy"),
    "object_retired": ev.ObjectRetired(obj="1/1/1", at=0),
    "resubmitted": ev.ResubmitRequested(at=0),
    "gave_up": ev.GiveUp(at=0),
    "node_fenced": ev.FenceAuthorised(n=1, obj="1/1/1", at=0),
    "hold_by_person": ev.Hold(by="person", why="person", at=0),
    "hold_by_policy": ev.Hold(by="policy", why="shared", at=0),
    "cessation_resume": ev.Release(by="cessation", at=0),
    "outcome_completed": ev.OutcomeDecided(state="completed", cause="completed", at=0),
    "outcome_failed": ev.OutcomeDecided(state="failed", cause="failed", at=0),
    "outcome_cancelled": ev.OutcomeDecided(state="cancelled", cause="cancelled", at=0),
    "outcome_lost": ev.OutcomeDecided(state="failed", cause="lost", at=0),
    "node_confirmed_dead": ev.EscalationAnswered(id="x", answer="node_confirmed_dead", at=0),
    "esc_held": ev.EscalationRaised(id="x", kind="held", subject="0", at=0),
    "esc_start_unresolved": ev.EscalationRaised(id="x", kind="start_unresolved", subject="1/1", at=0),
    "esc_stop_stuck": ev.EscalationRaised(id="x", kind="stop_stuck", subject="1/1/1", at=0),
    "esc_launch_exhausted": ev.EscalationRaised(id="x", kind="launch_exhausted", subject="1", at=0),
    "esc_object_missing": ev.EscalationRaised(id="x", kind="object_missing", subject="1/1/1", at=0),
}


def counted(event: ev.Event, *, manual: bool = False, purged: bool = False) -> set[str]:
    """Return the counters that an acknowledged event raises."""
    seen: set[str] = set()
    checks = Checks(ev.raw)
    checks.manual = manual
    Ledger(checks, seen, NO_DEFECTS, lambda state, question: None, lambda: purged)._count(event)
    return seen


def test_record_counters_follow_record_events() -> None:
    """Each is raised by its own event, once that is acknowledged, and by no other."""
    for counter, event in EVENTS.items():
        assert counter in counted(event)
        others = [other for other in EVENTS.values() if type(other) is not type(event)]
        assert all(counter not in counted(other) for other in others)
    settled = ev.Settled(at=0)
    assert counted(settled) == set()
    assert counted(settled, manual=True) == {"manual_settled_without_abandon"}
    assert counted(settled, purged=True) == {"settled_after_purge"}
    assert State().version == 0


def test_every_counter_has_its_test() -> None:
    """Nothing that a batch requires goes untested but for what other tests prove."""
    proved = {"manual_settled_without_abandon", "old_trainer_publish", "revoked_owner_commit"}
    proved |= {"tombstoned", "tombstone_refused_commit"}
    assert set(coverage.COUNTERS) == {*SUPPRESSED, *EVENTS, *proved}


def test_a_batch_without_a_required_counter_is_missing_it() -> None:
    """What a shape has no use for is not asked of it; a merge request asks for the common ones only."""
    full = dict.fromkeys(coverage.COUNTERS, 1)
    assert coverage.missing(full, "slurm") == ()
    assert coverage.missing(full | {"crash": 0, "node_lost": 0}, "slurm") == ("crash",)
    assert coverage.missing({}, "kubeflow") == coverage.required("kubeflow")
    assert "requeue_after_outcome" not in coverage.required("slurm", common_only=True)
    assert "requeue_after_outcome" in coverage.required("slurm")
    counts: dict[str, int] = {}
    coverage.count(counts, {"crash", "drain"})
    coverage.count(counts, {"crash"})
    assert counts == {"crash": 2, "drain": 1}

"""Each invariant, planted directly in record events and ground truth, is seen and named; the legal neighbour is not (K7)."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simharness.supervisor import checks as module
from simharness.supervisor.checks import Checks, Violation

Plant = Callable[[Checks], None]
DECLARED = {"event": "job_declared", "abandon": "auto", "timing": {"retry_bound": 3}}


def fresh(*, abandon: str = "auto", skip: tuple[str, ...] = ()) -> Checks:
    """Return checks of a record that holds the declaration."""
    checks = Checks(lambda batch: batch, skip)
    checks.acknowledge(1, [DECLARED | {"abandon": abandon}])
    return checks


def commit(checks: Checks, *events: dict[str, Any]) -> None:
    """Acknowledge the next batch."""
    checks.acknowledge(len(checks.acknowledged) + 1, list(events))


def of(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a raw event."""
    return {"event": kind, **fields}


def running(checks: Checks, obj: str = "1/1/1") -> None:
    """Let an object be created, chosen, opened and placed."""
    n, a, _ = map(int, obj.split("/"))
    commit(checks, of("submission_authorised", n=n, resume=0), of("attempt_authorised", n=n, a=a))
    checks.issued("s", 2, "Start", f"{n}/{a}")
    checks.created(obj, gated=True)
    commit(checks, of("object_seen", obj=obj), of("object_chosen", n=n, obj=obj), of("open_authorised", n=n, obj=obj))
    checks.issued("s", 3, "Open", obj)
    opened(checks, obj)
    checks.changed(obj, "state", "pending", "running")


def opened(checks: Checks, obj: str) -> None:
    """Take the gate away."""
    checks.changed(obj, "gated", True, False)
    checks.changed(obj, "opened", False, True)


def outcome_twice(checks: Checks) -> None:
    commit(checks, of("outcome_decided", state="failed", cause="failed"))
    commit(checks, of("give_up"))


def authorised_after_cancel(checks: Checks) -> None:
    commit(checks, of("cancel_requested"))
    commit(checks, of("submission_authorised", n=1, resume=0))


def version_changes(checks: Checks) -> None:
    commit(checks, of("hold", by="person"))
    checks.acknowledge(2, [of("release", by="person")])


def version_lost(checks: Checks) -> None:
    commit(checks, of("hold", by="person"))
    checks.survived([[DECLARED | {"abandon": "auto"}]])


def corrupt_without_tampering(checks: Checks) -> None:
    checks.read_ends("s", refused=True)


def opened_by_nobody(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    opened(checks, "1/1/1")


def created_ungated(checks: Checks) -> None:
    checks.created("1/1/1", gated=False)


def canonical_stopped(checks: Checks) -> None:
    running(checks)
    checks.stop_landed("1/1/1")


def retired_opened(checks: Checks) -> None:
    running(checks)
    commit(checks, of("object_retired", obj="1/1/1"))


def loose_after_settlement(checks: Checks) -> None:
    running(checks)
    commit(checks, of("settled"))


def alive_after_manual_settlement(checks: Checks) -> None:
    commit(checks, of("settled"))
    checks.created("1/1/1", gated=True)


def tampered_accepted(checks: Checks) -> None:
    checks.tampered()
    checks.read_begins("s")
    checks.read_ends("s", refused=False)


def call_after_refusal(checks: Checks) -> None:
    checks.tampered()
    checks.read_begins("s")
    checks.read_ends("s", refused=True)
    checks.issued("s", 1, "Stop", "1/1/1")


def resumes_below(checks: Checks) -> None:
    commit(checks, of("submission_authorised", n=1, resume=0))
    checks.durable([5])
    checks.resolves("s")
    batch = [of("submission_authorised", n=2, resume=0)]
    checks.proposed("s", 3, batch)
    checks.acknowledge(3, batch)


def resumes_at_what_is_not_durable(checks: Checks) -> None:
    commit(checks, of("submission_authorised", n=1, resume=0))
    commit(checks, of("submission_authorised", n=2, resume=7))


def resumes_below_what_was_durable_before(checks: Checks) -> None:
    """Its resolve was right when it was made, and the record has gone on since."""
    commit(checks, of("submission_authorised", n=1, resume=0))
    checks.resolves("s")
    checks.durable([5])
    checks.proposed("t", 3, [])
    checks.acknowledge(3, [])
    batch = [of("submission_authorised", n=2, resume=0)]
    checks.proposed("s", 4, batch)
    checks.acknowledge(4, batch)


def opened_while_held(checks: Checks) -> None:
    commit(checks, of("hold", by="person"))
    commit(checks, of("open_authorised", n=1, obj="1/1/1"))


def publication_lost(checks: Checks) -> None:
    checks.durable([5])
    checks.listed([3])


def two_opened(checks: Checks) -> None:
    running(checks)
    running(checks, "2/1/2")


def canonical_changes(checks: Checks) -> None:
    commit(checks, of("object_chosen", n=1, obj="1/1/1"))
    commit(checks, of("object_chosen", n=1, obj="1/2/2"))


def open_after_cancel(checks: Checks) -> None:
    commit(checks, of("cancel_requested"))
    checks.issued("s", 2, "Open", "1/1/1")


def start_twice(checks: Checks) -> None:
    commit(checks, of("attempt_authorised", n=1, a=1))
    checks.issued("s", 2, "Start", "1/1")
    checks.issued("s", 2, "Start", "1/1")


def start_unauthorised(checks: Checks) -> None:
    checks.issued("s", 1, "Start", "1/1")


def start_beyond_the_bound(checks: Checks) -> None:
    commit(checks, of("attempt_authorised", n=1, a=4))
    checks.issued("s", 2, "Start", "1/4")


def hold_undone(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    checks.changed("1/1/1", "held", False, True)
    commit(checks, of("hold", by="person"))
    checks.changed("1/1/1", "held", True, False)


def cleaned_up_over_a_known_object(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    commit(checks, of("object_seen", obj="1/1/1"), of("cancel_requested"), of("cleanup_completed"))


def cleaned_up_over_a_listed_object(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    checks.found("s", ["1/1/1"])
    batch = [of("cleanup_completed")]
    checks.proposed("s", 2, batch)
    checks.acknowledge(2, batch)


def opened_after_clean_up(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    checks.issued("s", 1, "Open", "1/1/1")
    commit(checks, of("cleanup_completed"))
    opened(checks, "1/1/1")


def verified_alive(checks: Checks) -> None:
    checks.created("1/1/1", gated=True)
    commit(checks, of("stop_verified", obj="1/1/1"))


def verified_lives_again(checks: Checks) -> None:
    running(checks)
    checks.changed("1/1/1", "state", "running", "ended")
    commit(checks, of("submission_ended", n=1), of("stop_verified", obj="1/1/1"))
    checks.changed("1/1/1", "revived", False, True)
    checks.changed("1/1/1", "state", "ended", "pending")


def verified_with_its_bit_set(checks: Checks) -> None:
    running(checks)
    checks.changed("1/1/1", "state", "running", "ended")
    checks.changed("1/1/1", "bit", False, True)
    commit(checks, of("stop_verified", obj="1/1/1"))


def ceased_with_a_trainer(checks: Checks) -> None:
    checks.trainer("t", alive=True)
    commit(checks, of("release", by="cessation"))


def lives_on_after_cessation(checks: Checks) -> None:
    running(checks)
    checks.changed("1/1/1", "state", "running", "ended")
    commit(checks, of("release", by="cessation"))
    checks.changed("1/1/1", "revived", False, True)
    checks.changed("1/1/1", "state", "ended", "pending")


PLANTS: tuple[tuple[str, Plant], ...] = (
    ("1", outcome_twice),
    ("2", authorised_after_cancel),
    ("3", version_changes),
    ("3", version_lost),
    ("3", corrupt_without_tampering),
    ("4", opened_by_nobody),
    ("4", created_ungated),
    ("5", canonical_stopped),
    ("6", retired_opened),
    ("7", loose_after_settlement),
    ("8", tampered_accepted),
    ("8", call_after_refusal),
    ("10", resumes_below),
    ("10", resumes_at_what_is_not_durable),
    ("10", resumes_below_what_was_durable_before),
    ("10", publication_lost),
    ("11", two_opened),
    ("12", canonical_changes),
    ("13", open_after_cancel),
    ("14", start_twice),
    ("14", start_unauthorised),
    ("14", start_beyond_the_bound),
    ("15", hold_undone),
    ("16", cleaned_up_over_a_known_object),
    ("16", cleaned_up_over_a_listed_object),
    ("16", opened_after_clean_up),
    ("X1", verified_alive),
    ("X1", verified_lives_again),
    ("X1", verified_with_its_bit_set),
    ("X2", ceased_with_a_trainer),
    ("X2", lives_on_after_cessation),
    ("X3", opened_while_held),
)


@pytest.mark.parametrize(("invariant", "plant"), PLANTS)
def test_a_planted_violation_is_named(invariant: str, plant: Plant) -> None:
    """The number is the one of the list, and an invariant that is left out stays silent."""
    with pytest.raises(Violation) as caught:
        plant(fresh())
    assert caught.value.invariant == invariant
    plant(fresh(skip=(*map(str, range(1, 17)), "X1", "X2", "X3")))


def test_nothing_may_live_after_a_manual_settlement() -> None:
    """The second half of 7 holds under the manual policy without an Abandon, and only there."""
    with pytest.raises(Violation, match="invariant 7"):
        alive_after_manual_settlement(fresh(abandon="manual"))
    alive_after_manual_settlement(fresh())
    abandoned = fresh(abandon="manual")
    commit(abandoned, of("attempt_abandoned", n=1, a=1))
    alive_after_manual_settlement(abandoned)


def test_a_legal_life_breaks_nothing() -> None:
    """Start, open, run, lose the node, fence, stop, end, verify, next submission, complete, settle."""
    checks = fresh()
    running(checks)
    commit(checks, of("fence_authorised", n=1, obj="1/1/1"))
    checks.stop_landed("1/1/1")
    checks.changed("1/1/1", "state", "running", "ended")
    commit(checks, of("submission_ended", n=1))
    commit(checks, of("stop_verified", obj="1/1/1"))
    running(checks, "2/1/2")
    checks.changed("2/1/2", "state", "running", "ended")
    commit(checks, of("submission_ended", n=2), of("outcome_decided", state="completed", cause="completed"))
    commit(checks, of("stop_verified", obj="2/1/2"))
    commit(checks, of("settled"))
    checks.created("1/2/3", gated=True)
    checks.everything()


def test_the_checks_import_nothing_of_the_system() -> None:
    """A check must not be computed by the code it checks (K7)."""
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    taken = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in taken if name.startswith("simharness")] == []

"""Every kind against the literal reading, live and after the fact."""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from simharness.contracts.assertions import (
    ASSERTION_TYPES,
    TRAINING_INVARIANTS,
    Assertion,
    SupervisorInvariantsHold,
    SupervisorSettlesWithin,
)
from simharness.contracts.records import Termination
from simharness.contracts.scenario import PeerDecl
from tests.assertions.literal import Reading
from tests.assertions.strategies import CAST, LAST_NS, OF_KIND, runs
from tests.assertions.support import Run, afterwards, live, scenario

ENDS = st.sampled_from((("duration", LAST_NS + 10), ("duration", LAST_NS), ("aborted", LAST_NS)))


def test_the_strategies_cover_the_catalogue() -> None:
    """No kind of §10.1 is left out; invariants of training and of the supervisor have histories of their own."""
    of_supervisor = (SupervisorInvariantsHold, SupervisorSettlesWithin)
    assert {*OF_KIND, *TRAINING_INVARIANTS, *of_supervisor} == set(ASSERTION_TYPES)


@pytest.mark.spec("§10.5", "Per-kind soundness")
@pytest.mark.parametrize("kind", OF_KIND, ids=lambda kind: kind.__struct_config__.tag)
@settings(max_examples=60)
@given(run=runs(), data=st.data(), peers=CAST, end=ENDS)
def test_every_kind_means_what_it_says(
    kind: type[Assertion], run: Run, data: st.DataObject, peers: tuple[PeerDecl, ...], end: tuple[str, int]
) -> None:
    """Outcome and first evidence are those of a literal reading (rulings V1-V7, the per-kind table); a Fail has evidence."""
    assertion = data.draw(OF_KIND[kind])
    reason, end_ns = end
    made, term = scenario((assertion,), peers), Termination(reason=reason, at_ns=end_ns)  # type: ignore[arg-type]
    expected, first = Reading(made, run.records, end_ns, cut=reason != "duration").judge(assertion)
    event(expected)
    (judged,) = afterwards(made, run.records, term)
    assert judged.outcome == expected
    if expected == "Fail":
        assert judged.first == first
    assert live(made, run.records, term) == (judged,)

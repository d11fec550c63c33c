"""The decision function: what it proposes from every reachable state, and its branches one by one (§5.3 of the design)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from simharness.systems.supervisor.config import JobSpec, Policy, Timing
from simharness.systems.supervisor.events import Batch
from simharness.systems.supervisor.fold import extend
from simharness.systems.supervisor.state import State
from tests.systems.supervisor.rig import wander

SHAPES = st.sampled_from(("slurm", "kubeflow"))


@given(seed=st.integers(0, 2**32), shape=SHAPES, shared=st.booleans(), manual=st.booleans(), hold=st.booleans())
@settings(max_examples=60)
def test_every_proposed_commit_is_legal(seed: int, shape: str, shared: bool, manual: bool, hold: bool) -> None:
    """From any reachable state, whatever was lost, late or repeated, what is proposed at the record's version folds."""
    spec = JobSpec(
        job="job",
        shape=shape,  # type: ignore[arg-type]
        shared=shared,
        abandon="manual" if manual else "auto",
        policy=Policy(node_lost="hold" if hold else "resubmit"),
        timing=Timing(esc_age_ns=40 * 10**9),
    )
    proposed = 0

    def on_batch(s: State, batch: Batch) -> None:
        nonlocal proposed
        proposed += 1
        extend(s, (batch,))

    wander(seed, spec, files=False, steps=600, on_batch=on_batch)
    assert proposed

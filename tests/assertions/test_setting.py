"""What an evaluation knows before the first record."""

from hypothesis import given
from hypothesis import strategies as st

from simharness.assertions.setting import from_scenario, from_toml
from simharness.contracts.assertions import Assertion
from tests.assertions.strategies import ASSERTIONS, CAST
from tests.assertions.support import scenario, stage, swim, toml


@given(assertions=st.lists(ASSERTIONS, max_size=4), peers=CAST)
def test_a_bundle_tells_what_the_scenario_told(assertions: list[Assertion], peers) -> None:
    """Both sides start from the same facts: that is the first half of their agreement."""
    made = scenario(assertions, peers)
    assert from_toml(toml(made)) == from_scenario(made)


def test_members() -> None:
    """Timeouts and ticks of a plain node, of an embedded one (ruling S2) and of a stage without one."""
    setting = from_scenario(scenario((), (swim("a", initial_incarnation=7), stage("b", node=True), stage("c"))))
    a, b, c = setting.members
    assert (a.membership, a.suspicion_timeout_ns, a.initial_incarnation, a.tick_period_ns) == ("swim", 6, 7, 1)
    assert (b.kind, b.membership, b.suspicion_timeout_ns) == ("stage", "swim", 6)
    assert (c.membership, c.suspicion_timeout_ns, c.initial_incarnation) == ("stage", None, 0)
    assert setting.member("b") is b
    assert setting.member("x") is None

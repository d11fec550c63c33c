"""What an evaluation knows before the first record."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from simharness.assertions.setting import from_scenario, from_toml
from simharness.assertions.training_facts import facts_of
from simharness.contracts.assertions import Assertion
from simharness.contracts.links import LinkOverrides, RelayDecl
from simharness.contracts.scenario import LinkDecl, MeshDecl
from simharness.scenario.emit import emit
from tests.assertions.strategies import ASSERTIONS, CAST
from tests.assertions.support import scenario, stage, swim, toml
from tests.assertions.training_history import MS, TICK, config
from tests.assertions.training_history import scenario as training_scenario


@given(assertions=st.lists(ASSERTIONS, max_size=4), peers=CAST)
def test_a_bundle_tells_what_the_scenario_told(assertions: list[Assertion], peers) -> None:
    """Both sides start from the same facts: that is the first half of their agreement."""
    made = scenario(assertions, peers)
    assert from_toml(toml(made)) == from_scenario(made)


def test_a_training_job() -> None:
    """Both sides know the job and the links to its hub: meshes, overrides, relayed routes (which are none) and tick periods."""
    overrides = LinkOverrides(latency_ns=9, loss_prob_ppm=5)
    job = training_scenario(config(), ["w3", "w1", "w2"])
    relay = RelayDecl(id="r", ingress_capacity_bps=1, egress_capacity_bps_per_link=1, queue_depth_bytes=1)
    links = (
        LinkDecl(source="w1", target="hub", overrides=overrides),
        LinkDecl(source="w3", target="hub", via="r"),
    )
    hub, *workers = job.peers
    workers[0] = msgspec.structs.replace(workers[0], tick_period_ns_override=7)
    made = msgspec.structs.replace(
        job, meshes=(MeshDecl(peers=("w1", "w2", "hub")),), links=links, relays=(relay,), peers=(hub, *workers)
    )
    facts = from_scenario(made).training
    assert facts == from_toml(emit(made)).training
    assert facts is not None
    assert (facts.hub, facts.workers, facts.ring, facts.checked) == ("hub", ("w1", "w2", "w3"), True, True)
    assert [*facts.links] == ["w1", "w2"]
    assert (facts.links["w1"].latency_ns, facts.links["w1"].loss_prob_ppm, facts.links["w2"].latency_ns) == (9, 5, MS)
    assert facts.ticks_ns == {"hub": TICK, "w1": TICK, "w2": TICK, "w3": 7}
    assert facts_of(scenario((), (swim("a"),)), {}) is None


def test_members() -> None:
    """Timeouts and ticks of a plain node, of an embedded one (ruling S2) and of a stage without one."""
    setting = from_scenario(scenario((), (swim("a", initial_incarnation=7), stage("b", node=True), stage("c"))))
    a, b, c = setting.members
    assert (a.membership, a.suspicion_timeout_ns, a.initial_incarnation, a.tick_period_ns) == ("swim", 6, 7, 1)
    assert (b.kind, b.membership, b.suspicion_timeout_ns) == ("stage", "swim", 6)
    assert (c.membership, c.suspicion_timeout_ns, c.initial_incarnation) == ("stage", None, 0)
    assert setting.member("b") is b
    assert setting.member("x") is None

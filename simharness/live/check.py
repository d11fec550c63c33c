"""What a live run cannot do, said before it begins."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from simharness.contracts.mutations import Mutation, PeerResurrect, kind_of
from simharness.contracts.scenario import Scenario
from simharness.core.errors import InputError, Problem, ScenarioError

HOSTED: Final = ("stage", "swim")
"""The host kinds whose code runs in production too."""

_APPLIED: Final = (
    *("partition", "heal", "latency_spike", "loss_burst", "relay_buffer"),
    *("peer_kill", "peer_resurrect", "worker_exit", "peer_pause", "peer_slow"),
    *("relay_kill", "relay_boot", "relay_capacity_change", "relay_peer_conn_down"),
)
"""The mutations that can be done to real processes that share a machine."""


def check(scenario: Scenario, file: str) -> None:
    """Refuse a scenario that cannot be run live.

    Raises:
        ScenarioError: With everything that stands against it.
    """
    problems = [Problem(file, field, rule) for field, rule in _complaints(scenario)]
    if problems:
        raise ScenarioError(problems)


def check_address(address: str) -> None:
    """Refuse an address that other machines could reach.

    Raises:
        InputError: If it is not the literal address of a loopback interface.
    """
    try:
        loopback = ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        rule = f"{address!r} is no address of the loopback range (127.0.0.0/8 or ::1)"
        raise InputError(file="(command line)", field="--address", rule=rule)


def _complaints(scenario: Scenario) -> Iterator[tuple[str, str]]:
    for index, peer in enumerate(scenario.peers):
        if peer.kind not in HOSTED:
            rule = f"a live run hosts the kinds {', '.join(HOSTED)}; {peer.kind!r} exists in the simulator only"
            yield f"peers[{index}].kind", rule
    kinds = {peer.id: peer.kind for peer in scenario.peers}
    for index, mutation in enumerate(scenario.mutations):
        yield from ((f"mutations[{index}].{field}", rule) for field, rule in _against(mutation, kinds))


def _against(mutation: Mutation, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    kind = kind_of(mutation)
    if kind not in _APPLIED:
        yield "kind", f"{kind} exists in the simulator only; a live run knows {', '.join(_APPLIED)}"
    elif isinstance(mutation, PeerResurrect) and mutation.preserve_state and kinds[mutation.peer] != "stage":
        yield (
            "preserve_state",
            "a live kill is SIGKILL, which leaves no state to preserve; peer_pause freezes a process",
        )

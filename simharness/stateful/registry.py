"""Names of library properties, laws and knob tables, resolved on first use: a name costs no import until it is asked for."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from simharness.core.errors import InputError
from simharness.core.foreign import blame
from simharness.stateful.laws import Law
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.spaces import Space

_LIBRARY: Final = "simharness.stateful.library"

PROPERTIES: Final[Mapping[str, str]] = {
    "asymmetric_loss": f"{_LIBRARY}.relayed:AsymmetricLoss",
    "convergence": f"{_LIBRARY}.clusters:Convergence",
    "demand_served": f"{_LIBRARY}.probes:DemandServed",
    "detection_time": f"{_LIBRARY}.deaths:DetectionTime",
    "gossip_flap": f"{_LIBRARY}.flap:GossipFlap",
    "gossip_flap_healthy": f"{_LIBRARY}.flap:GossipFlapHealthy",
    "healthy_cluster": f"{_LIBRARY}.probes:HealthyCluster",
    "kill_detect": f"{_LIBRARY}.deaths:KillDetect",
    "mesh_under_faults": f"{_LIBRARY}.clusters:MeshUnderFaults",
    "mesh_under_short_faults": f"{_LIBRARY}.clusters:MeshUnderShortFaults",
    "message_size": f"{_LIBRARY}.clusters:MessageSize",
    "names_survive": f"{_LIBRARY}.returns:NamesSurvive",
    "partition_heal": f"{_LIBRARY}.returns:PartitionHeal",
    "pause_excused": f"{_LIBRARY}.returns:PauseExcused",
    "probes_join": f"{_LIBRARY}.probes:ProbesJoin",
    "relay_conn_drop": f"{_LIBRARY}.relayed:RelayConnDrop",
    "relay_hol": f"{_LIBRARY}.relayed:RelayHol",
    "restart_rejoin": f"{_LIBRARY}.returns:RestartRejoin",
    "ring_under_faults": f"{_LIBRARY}.training:RingUnderFaults",
    "rumours_settled": f"{_LIBRARY}.returns:RumoursSettled",
    "server_under_faults": f"{_LIBRARY}.training:ServerUnderFaults",
    "stage_death": f"{_LIBRARY}.stages:StageDeath",
    "suspicion_timers": f"{_LIBRARY}.probes:SuspicionTimers",
}
"""Library property -> its machine."""

SPACES: Final = tuple(name for name in PROPERTIES if "_under_" not in name)
"""The properties whose scenarios follow from a seed; the others are driven by rules."""

LAWS: Final[Mapping[str, str]] = {
    "acks_answer_their_probe": "simharness.stateful.swim_laws:ACKS_ANSWER_THEIR_PROBE",
    "answered_is_not_accused": "simharness.stateful.swim_laws:ANSWERED_IS_NOT_ACCUSED",
    "answered_is_not_buried": "simharness.stateful.swim_laws:ANSWERED_IS_NOT_BURIED",
    "back_in_two_refutes": "simharness.stateful.swim_laws:BACK_IN_TWO_REFUTES",
    "demand_is_served": "simharness.stateful.swim_laws:DEMAND_IS_SERVED",
    "first_detection_in_time": "simharness.stateful.swim_laws:FIRST_DETECTION_IN_TIME",
    "healthy_cluster": "simharness.stateful.swim_laws:HEALTHY_CLUSTER",
    "pause_is_excused": "simharness.stateful.swim_laws:PAUSE_IS_EXCUSED",
    "suspicion_runs_its_time": "simharness.stateful.swim_laws:SUSPICION_RUNS_ITS_TIME",
}

KNOBS: Final[Mapping[str, str]] = {
    "supervisor": "simharness.supervisor.knobs:SUPERVISOR",
    "swim": "simharness.stateful.knobs:SWIM",
    "training": "simharness.training.knobs:TRAINING",
}
"""System -> its table of defects and hunters (ruling K1)."""


def choose(name: str, choices: Iterable[str], *, what: str, field: str = "(arguments)") -> str:
    """Return `name`.

    Raises:
        InputError: If it is not one of the choices; they are named.
    """
    known = tuple(choices)
    if name not in known:
        rule = f"unknown {what} {name!r}; choose from {', '.join(known)}"
        raise InputError(file="(command line)", field=field, rule=rule)
    return name


def resolve(target: str) -> Any:
    """Return what a `module:attribute` string names.

    Raises:
        InputError: If importing it fails, as it does while somebody edits a system.
    """
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:
        raise InputError(file=target, field="(code)", rule=f"cannot be loaded: {blame(error)}") from error


def property_named(name: str) -> type[SimulationMachine]:
    """Return a library property.

    Raises:
        InputError: If there is none of that name.
    """
    found: type[SimulationMachine] = resolve(PROPERTIES[choose(name, PROPERTIES, what="property")])
    return found


def space_named(name: str) -> Space:
    """Return the space of a library property.

    Raises:
        InputError: If there is none of that name.
    """
    machine = resolve(PROPERTIES[choose(name, SPACES, what="space", field="SPACE")])
    space: Space = machine.space
    return space


def law_named(name: str) -> Law | None:
    """Return a law, or None if there is none of that name."""
    law: Law | None = resolve(LAWS[name]) if name in LAWS else None
    return law

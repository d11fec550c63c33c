"""Where the time of every delivery went (§11.3, head-of-line decomposition), taken from the network while a run goes on."""

from typing import Final, NamedTuple

from simharness.contracts.network import Delay

TERMS: Final = (
    "base_latency",
    "edge_serialisation",
    "jitter",
    "cold_dial",
    "relay_ingress",
    "relay_egress",
    "mutations",
)
"""The terms of §11.3, in its order."""


class Part(NamedTuple):
    """One delivery."""

    source: str
    target: str
    tag: str
    sent_ns: int
    at_ns: int
    delay: Delay


class DelayParts:
    """A `DeliveryObserver` that keeps what every delivery's delay consists of."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Delay) -> None:
        """Keep one delivery."""
        self.parts.append(Part(source, target, tag, sent_at_ns, at_ns, delay))

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        """A copy is a delivery like any other."""

    def held(self, host_id: str, at_ns: int) -> None:
        """Pauses of hosts are no delay of the network."""

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        """Clocks of hosts are none either."""


def terms_ns(delay: Delay) -> tuple[int, ...]:
    """Return a delay as the terms of §11.3; they sum to arrival minus send time, like the network's own.

    Waiting for the link and for order counts as serialisation, what a clamp or a reorder adds as jitter, a relay's cold start as
    egress, spikes and floors as active mutations.
    """
    return (
        delay.base_latency,
        delay.serialisation + delay.occupancy_wait + delay.order_wait,
        delay.jitter + delay.clamp + delay.reorder,
        delay.dial,
        delay.relay_ingress,
        delay.relay_egress + delay.relay_cold_start,
        delay.latency_spike + delay.relay_buffer,
    )

"""What the engine needs from its surroundings, as Protocols."""

from typing import Protocol

from simharness.contracts.network import Delay
from simharness.contracts.records import Record


class RecordSink(Protocol):
    """Takes every record of a run (§3.2, engine to bundle writer)."""

    def write_record(self, record: Record) -> None:
        """Take one record. Records may come in any order."""


class LiveEvaluator(Protocol):
    """The streaming side of the assertion evaluator (§10.4)."""

    def observe(self, record: Record) -> None:
        """Take one record, in order of emission."""

    def all_final(self, now_ns: int) -> bool:
        """Tell whether every declared assertion has its final verdict once all dispatches up to `now_ns` are done."""


class DeliveryObserver(Protocol):
    """Sees the delay decomposition of every delivery that reaches a host (§11.3)."""

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Delay) -> None:
        """Take one delivery, just before the host's `recv`."""

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
    """Sees the delay decomposition of every delivery that reaches a host (§11.3), and the host calls that mutations change (K2)."""

    def delivered(self, source: str, target: str, tag: str, sent_at_ns: int, at_ns: int, delay: Delay) -> None:
        """Take one delivery, just before the host's `recv`. `at_ns` is its arrival; a pause may have held it since."""

    def duplicated(self, source: str, target: str, at_ns: int) -> None:
        """Take one delivery that is the copy of a message (`DuplicateBurst`), just after `delivered`."""

    def held(self, host_id: str, at_ns: int) -> None:
        """Take one tick that a pause suppresses, or one message or envelope that it holds."""

    def skewed(self, host_id: str, at_ns: int, shown_ns: int) -> None:
        """Take one call of a host at `at_ns` whose clock shows another time."""

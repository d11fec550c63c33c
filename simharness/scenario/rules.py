"""Rules of one mutation or assertion (§8.2, rulings N13, L8, L13)."""

from typing import Any

from simharness.scenario.schema import Complain
from simharness.scenario.words import shown

_CHANGES = ("ingress_capacity_bps", "egress_capacity_bps_per_link", "queue_depth_bytes")


def check_instant(values: dict[str, Any], duration_ns: int | None, complain: Complain) -> None:
    """Report an `at_ns` after the end of the run."""
    at_ns = values.get("at_ns")
    if duration_ns is not None and at_ns is not None and at_ns > duration_ns:
        complain("at_ns", _late("at_ns", at_ns, duration_ns))


def check_window(values: dict[str, Any], duration_ns: int | None, complain: Complain) -> None:
    """Report a window or a deadline that is out of order or ends after the run; one report for one window."""
    start, end = values.get("window_start_ns"), values.get("window_end_ns")
    if start is not None and end is not None and start > end:
        complain("window_start_ns", f"window_start_ns {start} lies after window_end_ns {end}")
        return
    if duration_ns is None:
        return
    for field, at_ns in (("window_end_ns", end), ("window_start_ns", start)):
        if at_ns is not None and at_ns > duration_ns:
            complain(field, _late(field, at_ns, duration_ns))
            return
    within_ns = values.get("within_ns")
    for field in ("after_ns", "from_ns"):
        since_ns = values.get(field)
        if since_ns is not None and within_ns is not None and since_ns + within_ns > duration_ns:
            complain("within_ns", _late(f"{field} + within_ns", since_ns + within_ns, duration_ns))


def check_count(values: dict[str, Any], complain: Complain) -> None:
    """Report an `event_count` without a bound, or with its bounds crossed (ruling L13). For sound values only."""
    low, high = values.get("min"), values.get("max")
    if low is None and high is None:
        complain("max", "missing; event_count needs min, max or both")
    elif low is not None and high is not None and low > high:
        complain("min", f"min {low} exceeds max {high}")


def check_company(values: dict[str, Any], complain: Complain) -> None:
    """Report a rule about peers among themselves that names one alone: it would hold of anybody (ruling L23)."""
    if len(values.get("peers", ())) == 1:
        complain("peers", "names one peer; what peers hold of each other needs at least two")


def check_partition(values: dict[str, Any], complain: Complain) -> None:
    """Report a peer on both sides of a partition (ruling N13)."""
    side = dict.fromkeys(values.get("peers_a", ()))
    for place, name in enumerate(values.get("peers_b", ())):
        if name in side:
            complain(f"peers_b[{place}]", f"peer {shown(name)} is in both groups")


def check_clock(values: dict[str, Any], complain: Complain) -> None:
    """Report a clock that is set to a time before 0 (ruling M3)."""
    at_ns, offset_ns = values.get("at_ns"), values.get("offset_ns")
    if at_ns is not None and offset_ns is not None and at_ns + offset_ns < 0:
        complain("offset_ns", f"at_ns {at_ns} and offset_ns {offset_ns} set the clock to a time before 0")


def check_change(values: dict[str, Any], complain: Complain) -> None:
    """Report a capacity change that changes nothing. For sound values only."""
    if not any(name in values for name in _CHANGES):
        complain("", f"changes nothing; give at least one of {', '.join(_CHANGES)}")


def _late(what: str, at_ns: int, duration_ns: int) -> str:
    return f"{what} {at_ns} lies after duration_ns {duration_ns}"

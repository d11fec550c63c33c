"""How verdicts, evidence and times look on a terminal and as JSON."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from simharness.bundle.diff import Divergence
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.contracts.assertions import Verdict
from simharness.core import canonical_json
from simharness.core.units import NS_PER_S

_COLOURS: Final = {"Pass": "32", "Fail": "31;1", "Inconclusive": "33;1"}
_EVIDENCE_SHOWN: Final = 3


def seconds(at_ns: int) -> str:
    """Return a virtual time in seconds, exactly: all nine decimals."""
    return f"{at_ns // NS_PER_S}.{at_ns % NS_PER_S:09} s"


def coloured(outcome: str) -> str:
    """Return an outcome, in colour on a terminal that wants it (https://no-color.org)."""
    padded = f"{outcome:<12}"
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return padded
    return f"\x1b[{_COLOURS[outcome]}m{padded}\x1b[0m"


def parameters(verdict: Verdict) -> str:
    """Return an assertion's parameters as `name=value` words, times in seconds."""
    words = []
    for name, value in verdict.parameters.items():
        if name == "kind":
            continue
        if name.endswith("_ns") and isinstance(value, int):
            words.append(f"{name[:-3]}={seconds(value)}")
        elif isinstance(value, list | tuple):
            words.append(f"{name}={','.join(map(str, value))}")
        else:
            words.append(f"{name}={value}")
    return "  ".join(words)


def print_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Print one line a verdict, and below it what it rests on; a Pass needs no evidence on a terminal."""
    for verdict in verdicts:
        print(f"{coloured(verdict.outcome)} {verdict.name} {verdict.kind}  {parameters(verdict)}")
        if verdict.outcome == "Pass":
            continue
        for evidence in verdict.evidence[:_EVIDENCE_SHOWN]:
            print(f"{'':13}at {seconds(evidence.virtual_time_ns)}  {evidence.event_or_snapshot_ref}")
        if len(verdict.evidence) > _EVIDENCE_SHOWN:
            print(f"{'':13}and {len(verdict.evidence) - _EVIDENCE_SHOWN} more")


def print_divergence(found: Divergence, left: str, right: str) -> None:
    """Print where two bundles part: what both have, then what each side has next."""
    print(f"first difference at {found.place}")
    for line in found.before:
        print(f"  {line}")
    for mark, name, lines in (("-", left, found.left), ("+", right, found.right)):
        print(f"{mark * 3} {name}")
        for line in lines or ("(ends here)",):
            print(f"{mark} {line}")


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    print(canonical_json.pretty(value).decode())


def plain(value: object) -> Any:
    """Return structs as plain data, for `print_json`."""
    return msgspec.to_builtins(value)


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if anything failed, 3 if the worst is Inconclusive, else 0. Inconclusive is never a pass (ruling V3)."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "Fail" in outcomes:
        return FAILED
    return INCONCLUSIVE if "Inconclusive" in outcomes else PASSED

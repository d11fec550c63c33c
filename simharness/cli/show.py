"""How verdicts, evidence and times look on a terminal and as JSON."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from simharness.assertions.absence import bounded_kind
from simharness.bundle.diff import Divergence
from simharness.bundle.reader import Bundle
from simharness.cli.absence import remarks
from simharness.cli.main import FAILED, INCONCLUSIVE, PASSED
from simharness.contracts.assertions import Verdict
from simharness.core import canonical_json
from simharness.core.units import NS_PER_S

_COLOURS: Final = {"Fail": "31;1", "Abort": "31;1", "Inconclusive": "33;1", "Pass": "32"}
_EVIDENCE_SHOWN: Final = 3
_LONGEST_QUOTE: Final = 160
_EVENT_LINE: Final = "events.ndjson:"
_ABSENT: Final = "absent:"
_INDENT: Final = " " * 13


def seconds(at_ns: int) -> str:
    """Return a virtual time in seconds, exactly."""
    whole, part = divmod(at_ns, NS_PER_S)
    fraction = f".{part:09}".rstrip("0") if part else ""
    return f"{whole}{fraction} s"


def count(number: int, one: str, many: str = "") -> str:
    """Return a number of things in words that agree; `many` is `one` with an s unless it is given."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def coloured(outcome: str) -> str:
    """Return an outcome, of a verdict or of a run, in colour on a terminal that wants it (https://no-color.org)."""
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


def print_verdicts(verdicts: Sequence[Verdict], quotes: Mapping[str, str]) -> None:
    """Print one line a verdict, below it what it rests on, with its quotes, and a count; a Pass needs no evidence on a terminal."""
    if not verdicts:
        print("no assertion declared: nothing was judged")
        return
    for verdict in verdicts:
        print(f"{coloured(verdict.outcome)} {verdict.name} {verdict.kind}  {parameters(verdict)}".rstrip())
        if verdict.note:
            print(f"{_INDENT}{verdict.note}")
        if verdict.outcome == "Pass":
            remark = f"{_ABSENT}{bounded_kind(verdict)}"
            if remark in quotes:
                print(f"{_INDENT}{quotes[remark]}")
            continue
        for evidence in verdict.evidence[:_EVIDENCE_SHOWN]:
            reference = evidence.event_or_snapshot_ref
            print(f"{_INDENT}at {seconds(evidence.virtual_time_ns)}  {reference}{quotes.get(reference, '')}")
        if len(verdict.evidence) > _EVIDENCE_SHOWN:
            print(f"{_INDENT}and {len(verdict.evidence) - _EVIDENCE_SHOWN} more")
    counts = Counter[str](verdict.outcome for verdict in verdicts)
    print("verdict      " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in _COLOURS if counts[outcome]))


def quotes(verdicts: Iterable[Verdict], bundle: Bundle) -> dict[str, str]:
    """Return the event lines that the shown evidence names, by reference, as `  host kind field=value ...`.

    A Pass that rests on the absence of a kind which nobody is known to record has a remark, by `absent:<kind>` (ruling C10).
    """
    wanted = sorted(
        {
            int(evidence.event_or_snapshot_ref.removeprefix(_EVENT_LINE))
            for verdict in verdicts
            if verdict.outcome != "Pass"
            for evidence in verdict.evidence[:_EVIDENCE_SHOWN]
            if evidence.event_or_snapshot_ref.startswith(_EVENT_LINE)
        }
    )
    lines, found, reached = bundle.lines(), dict[str, str](), 0
    for number in wanted:
        line = next(islice(lines, number - reached, None))
        reached = number + 1
        found[f"{_EVENT_LINE}{number}"] = "  " + _quoted(canonical_json.parse(line))
    named = dict.fromkeys(kind for verdict in verdicts if (kind := bounded_kind(verdict)) is not None)
    return found | {f"{_ABSENT}{kind}": remark for kind, remark in remarks(tuple(named), bundle).items()}


def _quoted(record: dict[str, Any]) -> str:
    event = record["event"]
    words = [record["host_id"] or record["kind_tag"], event["kind"]]
    words += [f"{name}={value}" for name, value in event.items() if name != "kind"]
    text = " ".join(words)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def print_divergence(found: Divergence, left: str, right: str) -> None:
    """Print where two bundles part: what both have, then what each side has next."""
    print(f"first difference at {found.place}")
    for line in found.before:
        print(f"  {line}")
    for mark, name, lines in (("-", left, found.left), ("+", right, found.right)):
        print(f"{mark * 3} {name}")
        for line in lines or ("(ends here)",):
            print(f"{mark} {line}")


def print_defects(defects: Sequence[str]) -> None:
    """Print which defects are switched on, if any: the first line of whatever runs them (ruling K1)."""
    if defects:
        print(f"defects switched on: {', '.join(defects)}")


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

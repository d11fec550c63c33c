"""What a failing example is, and what a reader needs to replay it."""

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from simharness.bundle.lines import encode_line
from simharness.contracts.assertions import Evidence, Verdict
from simharness.contracts.records import Record
from simharness.contracts.scenario import Scenario
from simharness.core.units import NS_PER_MS
from simharness.hosts.kinds import GROUP, Kinds
from simharness.scenario.emit import emit
from simharness.stateful.playing import in_bundle_order
from simharness.stateful.session import Session, short

_MOST_LINES: Final = 6
"""Evidence lines shown in a failure's text."""
_NOT_IN_A_RUN: Final = ("nondeterminism", "disagreement")
"""Failure kinds that one run of the scenario file does not show."""


_NO_LAWS: Final[Mapping[str, str]] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One failing example of a property, complete enough to write and to replay it."""

    property_name: str
    kind: str
    """What failed: an assertion kind, a law, or `engine_abort`, `nondeterminism`, `disagreement`."""
    headline: str
    evidence: tuple[str, ...] = ()
    claim: str | None = None
    """What the law says that it breaks; None if it is no law that fails."""
    scenario: Scenario
    test_id: str = ""
    digest: str = ""
    """Digest of the events of the machine's own run; empty if it did not come to an end."""

    @property
    def shown_by_file(self) -> bool:
        """Whether a run of the scenario file shows the failure; a law, two runs or two judges take the property to see."""
        return self.claim is None and self.kind not in _NOT_IN_A_RUN

    def toml(self) -> str:
        """Return the scenario file: the comment header and the complete scenario."""
        seen = () if self.shown_by_file else ("The property finds this; a run of the file alone does not show it.",)
        header = (
            f"Minimal failing example of the property {self.property_name}.",
            *seen,
            "",
            f"reproduces: {self.headline}",
            f"expected: {'fail-until-fix' if self.shown_by_file else 'pass-now'}",
            "extends: none",
        )
        comment = "\n".join(f"# {line}".rstrip() for line in header)
        return f"{comment}\n\n{emit(self.scenario)}"


class PropertyFailedError(AssertionError):
    """A property does not hold. The text alone lets a reader replay it."""

    def __init__(self, failure: Failure, text: str) -> None:
        self.failure = failure
        super().__init__(text)


@cache
def failed_class(kind: str) -> type[PropertyFailedError]:
    """Return the exception type of a failure kind.

    Hypothesis tells failures apart by type and place, and must not slip from one to another.
    """
    name = "".join(part.capitalize() for part in kind.split("_")) + "Failed"
    return type(name, (PropertyFailedError,), {"__doc__": f"The failure kind `{kind}`.", "__module__": __name__})


def raised(failure: Failure, session: Session) -> PropertyFailedError:
    """Return the exception that reports a failure."""
    return failed_class(failure.kind)(failure, describe(failure, session))


def describe(failure: Failure, session: Session) -> str:
    """Return the text of a failure: what failed, the evidence, where its file will lie, how to replay it, the scenario."""
    scenario = failure.scenario
    size = f"{len(scenario.peers)} peers, {len(scenario.mutations)} mutations, {milliseconds(scenario.duration_ns)}"
    lines = [
        failure.headline,
        *(f"  {line}" for line in (*said(failure), *failure.evidence)),
        f"scenario: {folder(failure, session)}/scenario.toml  ({size}, seed {scenario.seed})",
        *(f"replay:   {line}" for line in replay_lines(failure, session)),
        *(f"look at:  {line}" for line in look_lines(failure, session)),
        "",
        failure.toml(),
    ]
    return "\n".join(lines)


def said(failure: Failure) -> tuple[str, ...]:
    """Return what a law claims, and that it is no part of the file."""
    if failure.claim is None:
        return ()
    return (
        f"{failure.kind} is a law of the property, which no scenario file holds: `simharness run` and `shrink` do not judge it",
        f"it says: {failure.claim or '(its check has no docstring)'}",
    )


def replay_lines(failure: Failure, session: Session) -> tuple[str, ...]:
    """Return the commands that show the failure again: from the file, if a run of it does, and from the search."""
    run = (_run_line(failure, session),) if failure.shown_by_file or not failure.test_id else ()
    if not failure.test_id:
        return run
    options = session.options
    words = ["pytest", failure.test_id]
    if options.seed is not None:
        words.append(f"--hypothesis-seed={options.seed}")
    words.append(f"--sim-profile={options.profile.name}")
    if options.twice:
        words.append("--sim-twice")
    if options.swim_profile is not None:
        words.append(f"--swim-profile={options.swim_profile}")
    words += [f"--swim-defect={defect}" for defect in options.swim_defects]
    return *run, shlex.join(words)


def look_lines(failure: Failure, session: Session) -> tuple[str, ...]:
    """Return what else to look at where a run of the file does not show the failure."""
    if failure.shown_by_file or not failure.test_id:
        return ()
    place = shlex.quote(f"{folder(failure, session)}/bundle")
    if failure.kind == "nondeterminism":
        return (_run_line(failure, session, f" --out {place}"), f"simharness replay {place}")
    return (_run_line(failure, session), f"{place}/events.ndjson")


def _run_line(failure: Failure, session: Session, option: str = "") -> str:
    run = f"simharness run {shlex.quote(f'{folder(failure, session)}/scenario.toml')}{option}"
    foreign = dict.fromkeys(peer.kind for peer in failure.scenario.peers if Kinds().get(peer.kind) is None)
    return f"{run}  # once {', '.join(foreign)} is an entry point of {GROUP}" if foreign else run


def folder(failure: Failure, session: Session) -> str:
    """Return the folder of a failure's artefacts, relative to where pytest runs."""
    return f"{session.options.artefacts}/failures/{folder_name(failure)}"


def folder_name(failure: Failure) -> str:
    """Return a name that no other test shares, whatever its id is made of."""
    test = failure.test_id or failure.property_name
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._") else "-" for char in test)
    return f"{plain[-80:].lstrip('.-')}-{short(test)}"


def of_verdicts(
    verdicts: Sequence[Verdict], records: Sequence[Record], *, claims: Mapping[str, str] = _NO_LAWS, **fields: Any
) -> Failure | None:
    """Return the failure of a judged run: its first Fail in declared order; None if nothing failed.

    Args:
        verdicts: Of the assertions, then of the laws.
        records: The run.
        claims: What each law says, by its name.
        fields: The other fields of a `Failure`.
    """
    failed = next((verdict for verdict in verdicts if verdict.outcome == "Fail"), None)
    if failed is None:
        return None
    about = ", ".join(f"{key}={value}" for key, value in failed.parameters.items() if key != "kind")
    claim = claims.get(failed.kind) if failed.name.startswith("l") else None
    times = [item.virtual_time_ns for item in failed.evidence]
    at_ns = times[-1] if claim is None else min(times)  # a law gives each line that breaks it
    headline = f"{failed.kind}({about}) is Fail at {milliseconds(at_ns)} in {fields['property_name']}"
    shown = failed.evidence[-_MOST_LINES:] if claim is None else failed.evidence[:_MOST_LINES]
    return Failure(kind=failed.kind, headline=headline, evidence=_lines(shown, records), claim=claim, **fields)


def _lines(evidence: Sequence[Evidence], records: Sequence[Record]) -> tuple[str, ...]:
    """Return each piece of evidence with the line it names."""
    events, _ = in_bundle_order(records)
    shown = []
    for item in evidence:
        file, _, line = item.event_or_snapshot_ref.partition(":")
        text = f"  {encode_line(events[int(line)]).decode().strip()}" if line else ""  # type: ignore[arg-type]  # no snapshot
        shown.append(f"{file}:{line}{text}" if line else f"{file} at {milliseconds(item.virtual_time_ns)}")
    return tuple(shown)


def milliseconds(at_ns: int) -> str:
    """Return a time in milliseconds, exact where it is not whole."""
    whole, rest = divmod(at_ns, NS_PER_MS)
    return f"{whole} ms" if not rest else f"{whole}.{rest:06d} ms"

"""Laws: plain checks over the records of a finished run, for what no assertion of the catalogue (§10.1) can see.

A law is judged like an assertion: its verdict stands after those of the scenario's assertions, with the lines that break it as
evidence. It is not written into the scenario file, so `simharness run` replays the bytes and the property judges them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from simharness.assertions.evaluation import EVENTS
from simharness.contracts.assertions import Evidence, Outcome, Verdict
from simharness.contracts.records import Record
from simharness.contracts.scenario import PeerDecl, Scenario
from simharness.core.foreign import shown
from simharness.stateful.playing import in_bundle_order

_MOST_EVIDENCE: Final = 32


class Line(NamedTuple):
    """One event of a run, under its line number in `events.ndjson`."""

    number: int
    at_ns: int
    host: str | None
    kind: str
    event: Mapping[str, Any]


class Story(NamedTuple):
    """What a law is judged on: the scenario and its events in file order."""

    scenario: Scenario
    lines: Sequence[Line]


class Finding(NamedTuple):
    """What a law found: how often there was anything to judge, and the lines that break it."""

    judged: int
    broken: Sequence[Line]


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """A named claim over one run."""

    name: str
    check: Callable[[Story], Finding]
    """Its docstring is the claim."""

    def __post_init__(self) -> None:
        """Refuse what could not be judged.

        Raises:
            TypeError: If the name is no name, or the check cannot be called.
        """
        given: tuple[Any, Any] = self.name, self.check
        if not (isinstance(given[0], str) and given[0] and callable(given[1])):
            rule = "it has to be Law(name='one_holder', check=one_holder), where one_holder takes a Story and returns a Finding"
            raise TypeError(f"Law(name={shown(self.name)}, check={shown(self.check)}) cannot be judged: {rule}")

    def verdict(self, story: Story, place: int) -> Verdict:
        """Judge a run; Inconclusive if there was nothing to judge.

        Raises:
            TypeError: If the check returns no finding.
        """
        found = self.check(story)
        if not _is_finding(found):
            rule = "it has to return Finding(judged, broken): how often there was anything to judge, and the lines that break it"
            raise TypeError(f"the check of the law {self.name} returned {shown(found)}; {rule}")
        judged, broken = found
        outcome: Outcome = "Fail" if broken else "Pass" if judged else "Inconclusive"
        evidence = tuple(Evidence(line.at_ns, f"{EVENTS}:{line.number}") for line in broken[:_MOST_EVIDENCE])
        return Verdict(
            name=f"l{place}", kind=self.name, parameters={"kind": self.name}, outcome=outcome, evidence=evidence
        )


def _is_finding(found: Any) -> bool:
    broken: Any = found.broken if isinstance(found, Finding) else None
    return isinstance(broken, Sequence) and all(isinstance(line, Line) for line in broken)


def judged_by(laws: Sequence[Law], scenario: Scenario, records: Iterable[Record]) -> tuple[Verdict, ...]:
    """Return the verdict of each law on a finished run."""
    if not laws:
        return ()
    story = story_of(scenario, records)
    return tuple(law.verdict(story, place) for place, law in enumerate(laws))


def story_of(scenario: Scenario, records: Iterable[Record]) -> Story:
    """Return a finished run as laws see it."""
    lines = []
    for number, record in enumerate(in_bundle_order(records).events):
        event = record.event  # type: ignore[union-attr]  # no snapshot
        lines.append(Line(number, record.virtual_time_ns, record.host_id, event["kind"], event))
    return Story(scenario, lines)


def swim_peers(scenario: Scenario) -> dict[str, PeerDecl]:
    """Return the peers that are SWIM nodes, by id."""
    return {peer.id: peer for peer in scenario.peers if peer.kind == "swim"}

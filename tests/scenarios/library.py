"""The shipped scenarios as values: loaded, played in memory, and looked into. Each is played once a session."""

from functools import cache
from pathlib import Path
from typing import Any, Final

from simharness.contracts.assertions import Verdict
from simharness.contracts.records import EventRecord, SnapshotRecord
from simharness.contracts.scenario import Scenario
from simharness.core import canonical_json
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.stateful.headers import Header, header_of
from simharness.stateful.playing import Played, play
from tests.tidy.check import ROOT

LIBRARY: Final = ROOT / "scenarios"
FILES: Final = tuple(sorted(path.relative_to(LIBRARY).as_posix() for path in LIBRARY.rglob("*.toml")))
"""Every shipped file, as a path below `scenarios/`."""
S: Final = 10**9
KINDS: Final = Kinds()


def path_of(name: str) -> Path:
    """Where a shipped file stands."""
    return LIBRARY / name


def header(name: str) -> Header:
    """What a shipped file says about itself."""
    return header_of(path_of(name).read_text("utf-8"), file=name)


@cache
def declared(name: str) -> Scenario:
    """A shipped scenario."""
    return load(path_of(name), KINDS).scenario


@cache
def finished(name: str) -> Played:
    """Its run."""
    return play(declared(name), KINDS)


@cache
def verdicts(name: str) -> tuple[Verdict, ...]:
    """What its run is judged."""
    return finished(name).verdicts()


def failed(found: tuple[Verdict, ...]) -> list[str]:
    """The kinds of the assertions that failed, sorted; each must be definite."""
    assert {verdict.outcome for verdict in found} <= {"Pass", "Fail"}
    return sorted(verdict.kind for verdict in found if verdict.outcome == "Fail")


def records(run: Played, *kinds: str) -> list[EventRecord]:
    """The event records of these kinds, in order of emission."""
    return [record for record in run.records if type(record) is EventRecord and record.event["kind"] in kinds]


def count(run: Played, *kinds: str, **fields: Any) -> int:
    """How many events of these kinds have these field values."""
    return sum(all(record.event.get(k) == v for k, v in fields.items()) for record in records(run, *kinds))


def snapshots(run: Played, host: str) -> dict[int, dict[str, Any]]:
    """What a host showed, by time."""
    shown = [record for record in run.records if isinstance(record, SnapshotRecord) and record.host_id == host]
    return {record.virtual_time_ns: canonical_json.parse(record.snapshot) for record in shown}

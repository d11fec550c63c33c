"""Test items: scenario files judged by their header, and machines that cannot be run refused where they stand."""

import inspect
from collections.abc import Iterator
from typing import Any, Final

import pytest

from simharness.contracts.assertions import Verdict
from simharness.core.errors import EngineAbort, RefusedError
from simharness.scenario.loader import load
from simharness.stateful import session
from simharness.stateful.artefacts import write_failure
from simharness.stateful.concluding import aborted
from simharness.stateful.coverage import DelayEffects, check_counter, count
from simharness.stateful.failures import Failure, describe, of_verdicts
from simharness.stateful.headers import Header, header_of
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.playing import Played, play
from simharness.stateful.swim import with_session_options

_LIBRARY: Final = "scenarios"
"""Name of the directories whose TOML files are scenarios (§8.3); a file named on the command line is one anyway."""


class ScenarioFailed(Exception):  # noqa: N818  # named like the outcome it reports
    """A scenario does not show what its header says it shows."""


def collects(path: Any, parent: pytest.Collector) -> bool:
    """Tell whether a file is collected as a scenario."""
    return path.suffix == ".toml" and (parent.session.isinitpath(path) or _LIBRARY in path.parts)


class ScenarioFile(pytest.File):
    """One scenario file; it holds one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Read the header."""
        try:
            header = header_of(self.path.read_text(encoding="utf-8"), file=str(self.path))
        except RefusedError as error:
            raise self.CollectError(str(error)) from None
        except (OSError, UnicodeDecodeError) as error:
            raise self.CollectError(f"file: {self.path}\nfield: (io)\nrule: {error}") from None
        item: ScenarioItem = ScenarioItem.from_parent(self, name=self.path.stem)
        item.header = header
        yield item


class ScenarioItem(pytest.Item):
    """Runs a scenario and compares its verdicts with the expectation of its header."""

    header: Header

    def runtest(self) -> None:
        """Load, run, judge."""
        now = session.current()
        loaded = load(self.path, now.kinds, reconfigure=with_session_options)
        scenario = loaded.scenario
        observer = DelayEffects()
        for mutation in scenario.mutations:
            observer.follow(mutation)
        try:
            played = play(scenario, now.kinds, observer=observer)
        except EngineAbort as abort:
            failure = aborted(abort, scenario, test_id=self.nodeid)
            write_failure(failure, now)
            raise ScenarioFailed(describe(failure, now)) from None
        verdicts = played.verdicts()
        seen = count(played.records, scenario.mutations, verdicts, observer)
        wrong = self._wrong(verdicts, seen.get(self.header.counter or "", 0))
        if wrong is not None:
            raise ScenarioFailed(self._explain(wrong, played, verdicts))

    def _wrong(self, verdicts: tuple[Verdict, ...], counted: int) -> str | None:
        """Return how the run contradicts the header, or None."""
        match self.header.expected:
            case "pass-now":
                others = [verdict for verdict in verdicts if verdict.outcome != "Pass"]
                return f"{len(others)} of {len(verdicts)} verdicts are no Pass" if others else None
            case "fail-until-fix":
                failed = any(verdict.outcome == "Fail" for verdict in verdicts)
                return None if failed else "no verdict is Fail: if the cause is fixed, the header should say pass-now"
            case "sensitivity-study":
                return None if counted else f"counter {self.header.counter} is zero: the study shows nothing"

    def _explain(self, wrong: str, played: Played, verdicts: tuple[Verdict, ...]) -> str:
        now = session.current()
        lines = [f"{self.path}", f"expected: {self.header.expected}; {wrong}"]
        lines += [f"  {verdict.outcome:12} {verdict.name} {verdict.kind}" for verdict in verdicts]
        failure: Failure | None = of_verdicts(
            verdicts,
            played.records,
            property_name=played.scenario.name,
            scenario=played.scenario,
            digest=played.digest(),
            test_id=self.nodeid,
        )
        if failure is not None:
            write_failure(failure, now)
            lines += ["", describe(failure, now)]
        return "\n".join(lines)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is wrong with the run; a traceback only for a bug of ours."""
        if isinstance(excinfo.value, ScenarioFailed | RefusedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int, str]:
        """Return where the scenario stands."""
        return self.path, 0, f"scenario: {self.name}"


class RefusedMachine(pytest.Collector):
    """Stands where a machine was defined that cannot be run."""

    reason = ""

    def collect(self) -> Iterator[pytest.Item]:
        """Say why."""
        raise self.CollectError(self.reason)


def refusal_of(machine: type[SimulationMachine]) -> str | None:
    """Return why a machine cannot be run, with the place where it is defined, or None."""
    name = machine.__qualname__
    if getattr(machine, "scenarios", None) is None:
        return f"{_place(machine)}: {name} has no peers: set `scenarios` to a strategy of base scenarios"
    if not machine.assertions and not machine.laws:
        return f"{_place(machine)}: {name} has no assertion: set `assertions` or `laws`, or it can never fail"
    for counter in machine.requires or ():
        try:
            check_counter(counter, file=_place(machine), field=f"{name}.requires")
        except RefusedError as error:
            return str(error)
    return None


def _place(machine: type[SimulationMachine]) -> str:
    file = inspect.getsourcefile(machine) or machine.__module__
    return f"{file}:{inspect.getsourcelines(machine)[1]}"

"""Structured errors. The command line turns them into exit codes; none of them ever shows a traceback."""

from collections.abc import Iterable
from dataclasses import dataclass


class SimharnessError(Exception):
    """Root of every error that is meant for a user."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in an input file: where it is and which rule it breaks (§8.2). Every part is one line."""

    file: str
    field: str
    rule: str

    def __str__(self) -> str:
        """Return the three-line form of ruling L12."""
        return f"file: {self.file}\nfield: {self.field}\nrule: {self.rule}"


class RefusedError(SimharnessError):
    """Some input was refused: exit code 2. Carries every independent mistake (ruling L17), in the three-line form each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        assert self.problems, "a refusal names at least one rule"
        super().__init__("\n\n".join(map(str, self.problems)))


class ScenarioError(RefusedError):
    """A scenario file was refused."""


class InputError(RefusedError):
    """An argument, or a file other than a scenario, was refused."""

    def __init__(self, *, file: str, field: str, rule: str) -> None:
        self.problem = Problem(file, field, rule)
        super().__init__((self.problem,))


class EngineAbort(SimharnessError):  # noqa: N818  # the spec's own name (§6A.3)
    """The run cannot go on: an action, a timer or a host broke a rule of §4. Exit code 4.

    `rule` is a stable short name such as `unknown-action`; `detail` names host, time and what was seen.
    """

    def __init__(self, *, rule: str, detail: str, host_id: str | None = None, at_ns: int | None = None) -> None:
        self.rule, self.detail, self.host_id, self.at_ns = rule, detail, host_id, at_ns
        where = "" if host_id is None else f" host {host_id}"
        when = "" if at_ns is None else f" at {at_ns} ns"
        super().__init__(f"EngineAbort::{rule}:{where}{when}: {detail}")

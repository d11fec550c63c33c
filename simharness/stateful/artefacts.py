"""What a session leaves on disk: a folder for every failing test, and the verdicts of every property."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from simharness.bundle.folders import put_folder, put_lines
from simharness.core.errors import EngineAbort
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from simharness.stateful.failures import Failure, folder_name, look_lines, replay_lines, said
from simharness.stateful.session import Session

if TYPE_CHECKING:
    from pathlib import Path


def write_failure(failure: Failure, session: Session) -> None:
    """Write `failures/<test>/`: the scenario, the bundle of its run, and a report for a reader. All of it or nothing.

    Raises:
        InputError: If the place is taken or cannot be written.
    """

    def add_bundle(folder: "Path") -> None:
        try:
            loaded = load(folder.joinpath("scenario.toml"), session.kinds)
            run_to_bundle(loaded, folder.joinpath("bundle"), session.kinds, keep_partial=True)
        except EngineAbort:
            assert failure.kind in ("engine_abort", "nondeterminism"), "a run that ended once ends again"

    files = {"scenario.toml": failure.toml().encode(), "report.md": report(failure, session).encode()}
    put_folder(f"{session.root}/failures", folder_name(failure), files, add_bundle)


def report(failure: Failure, session: Session) -> str:
    """Return the report: what failed, the evidence, how to replay it."""
    scenario = failure.scenario
    lines = [
        f"# {failure.property_name}: {failure.kind}",
        "",
        failure.headline,
        *(f"\n{line}" for line in said(failure)),
        "",
        "## Evidence",
        "",
        *(f"    {line}" for line in failure.evidence or ("none but the scenario itself",)),
        "",
        "## Replay",
        "",
        *(f"    {line}" for line in replay_lines(failure, session)),
        "",
        *_looked_at(look_lines(failure, session)),
        "## Scenario",
        "",
        f"- peers: {len(scenario.peers)}",
        f"- mutations: {len(scenario.mutations)}",
        f"- duration_ns: {scenario.duration_ns}",
        f"- seed: {scenario.seed}",
    ]
    if failure.digest:
        lines.append(f"- events digest of the run that failed: {failure.digest}")
    return "\n".join((*lines, ""))


def _looked_at(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the section that says what a run of the file shows though not the failure."""
    found = tuple(lines)
    return ("## What happened", "", *(f"    {line}" for line in found), "") if found else ()


def write_rows(name: str, rows: Iterable[bytes], session: Session) -> None:
    """Write `properties/<name>.ndjson`: one verdict a line, with the number and the seed of its example (§10.3).

    Raises:
        InputError: If it cannot be written.
    """
    put_lines(f"{session.root}/properties", f"{name}.ndjson", b"".join(row + b"\n" for row in rows))

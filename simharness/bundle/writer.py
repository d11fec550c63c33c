"""The bundle writer: takes records in any order, leaves a complete bundle or nothing (§3.2, §9, ruling B9)."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from simharness.bundle.aside import Aside
from simharness.bundle.lines import encode_line
from simharness.bundle.manifest import RunFacts, manifest, sha256_hex
from simharness.bundle.ordering import DEFAULT_LIMIT, LineFile
from simharness.bundle.places import (
    EVENTS,
    MANIFEST,
    SCENARIO,
    SCRATCH,
    SNAPSHOTS,
    check_replaceable,
    structured_io,
)
from simharness.bundle.reader import Bundle
from simharness.bundle.snapshots import SnapshotFiles
from simharness.contracts.records import Record, SnapshotRecord, Termination
from simharness.core.canonical_json import pretty


class BundleWriter:
    """A `RecordSink` that writes the bundle `final`.

    Everything is written in a hidden directory beside `final`, this writer's alone, and renamed by `finish`. `final` may be
    missing, an empty directory, or an older bundle, which then stays until it is replaced. As a context manager the writer cleans
    up after itself: left without `finish` it abandons the bundle or, with `keep_partial`, finishes it as aborted.

    Args:
        final: Where the bundle is to stand.
        scenario_toml: The resolved scenario (ruling B5).
        facts: What the manifest says about the run.
        keep_partial: Keep what was written when the run is broken off.
        memory_limit: How many event lines are held in memory at most.

    Raises:
        InputError: If `final` holds anything but a bundle, or cannot be written.
    """

    def __init__(
        self,
        final: Path,
        *,
        scenario_toml: str,
        facts: RunFacts,
        keep_partial: bool = False,
        memory_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._final, self._facts, self._keep_partial = final, facts, keep_partial
        self._scenario = scenario_toml.encode()
        with structured_io(final):
            check_replaceable(final)
            self._aside = Aside(final)
            self._partial = self._aside.path
            try:
                self._partial.joinpath(SNAPSHOTS).mkdir()
                scratch = self._partial.joinpath(SCRATCH)
                scratch.mkdir()
                self._partial.joinpath(SCENARIO).write_bytes(self._scenario)
                self._events = LineFile(self._partial.joinpath(EVENTS), scratch, memory_limit)
            except BaseException:
                self._aside.close()
                raise
        self._snapshots = SnapshotFiles(self._partial)
        self._open = True

    def write_record(self, record: Record) -> None:
        """Take one record, in any order.

        Raises:
            EngineAbort: `unwritable-event` or `unwritable-snapshot`, if a host's JSON may not enter a bundle (ruling B10).
            InputError: If the operating system refuses a write.
        """
        try:
            if type(record) is SnapshotRecord:
                self._snapshots.add(record)
            else:
                self._events.add(record.virtual_time_ns, record.sequence, encode_line(record))  # type: ignore[arg-type]  # no snapshot
        except OSError:
            with structured_io(self._final):
                raise

    def finish(
        self,
        termination: Termination,
        *,
        finalize_received: bool,
        judge: Callable[[Bundle], object] | None = None,
    ) -> Path:
        """Complete the bundle and put it in place; return its path.

        Args:
            termination: How the run ended.
            finalize_received: Whether the run's hosts were all there to be finalised (manifest).
            judge: Called with the complete but still hidden bundle; writes the verdicts.

        Raises:
            InputError: If the operating system refuses a write, or the place was taken meanwhile.
        """
        assert self._open, "a bundle is finished once"
        with structured_io(self._final):
            facts = manifest(
                self._facts,
                scenario_sha256=sha256_hex(self._scenario),
                termination=termination,
                finalize_received=finalize_received,
                events_sha256=self._events.finish(),
                snapshot_sha256=self._snapshots.finish(),
            )
            shutil.rmtree(self._partial.joinpath(SCRATCH))
            self._partial.joinpath(MANIFEST).write_bytes(pretty(facts))
            if judge is not None:
                judge(Bundle(self._partial))
            self._aside.put(self._final, check_replaceable)
        self._open = False
        self._aside.close()
        return self._final

    def abandon(self) -> None:
        """Remove everything that was written."""
        self._open = False
        self._events.close()
        self._aside.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._open:
            return
        try:
            if self._keep_partial and error is not None:
                detail = f"{type(error).__name__}: {error}"
                end = Termination(reason="aborted", at_ns=self._events.latest_ns, detail=detail)
                self.finish(end, finalize_received=False)
        finally:
            if self._open:
                self.abandon()

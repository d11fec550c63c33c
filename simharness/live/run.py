"""The front door of live runs: a loaded scenario in, a judged bundle out."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from simharness.assertions.post_run import write_verdicts
from simharness.bundle.digest import bundle_digest
from simharness.bundle.manifest import RunFacts
from simharness.bundle.places import check_replaceable, structured_io
from simharness.bundle.reader import Bundle
from simharness.bundle.writer import BundleWriter
from simharness.contracts.assertions import Verdict
from simharness.contracts.records import Termination
from simharness.core.errors import EngineAbort, InputError
from simharness.live.channel import Seen
from simharness.live.check import check, check_address
from simharness.live.coordinator import Coordinator
from simharness.run import facts_of
from simharness.scenario.emit import emit
from simharness.scenario.loader import Loaded

LOOPBACK: Final = "127.0.0.1"
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class LiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """A finished live run: where its bundle stands, what it says, and how well this machine kept time."""

    bundle: Path
    verdicts: tuple[Verdict, ...]
    termination: Termination
    digest: str
    """SHA-256 over events, snapshots and verdicts."""
    late_ns: int
    """How late the latest tick of any peer was, declared pauses left out."""
    tick_period_ns: int
    """The shortest tick period of any peer."""

    @property
    def believable(self) -> bool:
        """Whether no tick came a whole period late: else this machine was too busy for the run that the scenario describes."""
        return self.late_ns < self.tick_period_ns


def run_live(
    loaded: Loaded,
    out: Path,
    *,
    address: str = LOOPBACK,
    keep_partial: bool = False,
    tap: Callable[[Seen], object] | None = None,
    watch: Callable[[int], object] = lambda _: None,
) -> LiveResult:
    """Run a loaded scenario in real time, one process a peer and a relay; write its bundle at `out`, and judge it.

    Nothing is written before the run is over, and no process outlives the call.

    Args:
        loaded: The scenario.
        out: Where the bundle is to stand.
        address: What every socket is bound to; loopback only.
        keep_partial: Keep what was collected when the run fails or is interrupted.
        tap: Takes every input of every host and every frame as it is on the wire.
        watch: Called some times a second with the time since the start, in nanoseconds.

    Raises:
        ScenarioError: If the scenario holds what a live run cannot do.
        InputError: If `address` is not loopback or cannot be had, or `out` cannot be written.
        EngineAbort: If a process fails.
        KeyboardInterrupt: If the run is interrupted, or told to end by SIGTERM or SIGHUP.
    """
    refuse(loaded, out, address)
    scenario = loaded.scenario
    coordinator = Coordinator(scenario, address, tap, watch)
    with _ended_by(_signals()) as signals:
        try:
            termination = _play(coordinator, signals)
        except (EngineAbort, KeyboardInterrupt) as error:
            if keep_partial:
                detail = f"{type(error).__name__}: {error}".removesuffix(": ")
                end = Termination(reason="aborted", at_ns=coordinator.reached_ns, detail=detail)
                _write(loaded, coordinator, out, end, signals)
            raise
        verdicts = _write(loaded, coordinator, out, termination, signals)
    return LiveResult(
        bundle=out,
        verdicts=verdicts,
        termination=termination,
        digest=bundle_digest(out),
        late_ns=coordinator.late_ns,
        tick_period_ns=min(scenario.tick_period_ns(peer) for peer in scenario.peers),
    )


def refuse(loaded: Loaded, out: Path, address: str = LOOPBACK, *, file: str | None = None) -> None:
    """Refuse what can be seen before anything starts; `file` is how the scenario was named.

    Raises:
        ScenarioError: If the scenario holds what a live run cannot do.
        InputError: If `address` is not loopback, or `out` holds something that is no bundle.
    """
    check(loaded.scenario, loaded.scenario_path if file is None else file)
    check_address(address)
    with structured_io(out):
        check_replaceable(out)


def _play(coordinator: Coordinator, signals: Sequence[signal.Signals]) -> Termination:
    async def play() -> Termination:
        task = asyncio.current_task()
        assert task is not None
        for number in signals:  # SIGINT is asyncio's own, and does the same
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await coordinator.play()

    try:
        return asyncio.run(play())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except OSError as error:
        raise InputError(file="(system)", field="(io)", rule=error.strerror or str(error)) from None


def _write(
    loaded: Loaded, coordinator: Coordinator, out: Path, termination: Termination, signals: Sequence[signal.Signals]
) -> tuple[Verdict, ...]:
    for number in signals:
        signal.signal(number, _interrupt)
    verdicts: list[Verdict] = []
    with BundleWriter(out, scenario_toml=emit(loaded.scenario), facts=_facts(loaded)) as writer:
        for record in coordinator.records(termination.at_ns):
            writer.write_record(record)
        writer.finish(
            termination,
            finalize_received=termination.reason == "duration" and coordinator.everybody_lives,
            judge=lambda bundle: verdicts.extend(_judge(bundle, termination)),
        )
    return tuple(verdicts)


def _judge(bundle: Bundle, termination: Termination) -> tuple[Verdict, ...]:
    """Judge a whole run; a partial bundle has no verdicts (ruling B9)."""
    return () if termination.reason == "aborted" else write_verdicts(bundle)


def _facts(loaded: Loaded) -> RunFacts:
    substitutions = ("wall_ms is the time since the common start divided by 10**6",)
    return msgspec.structs.replace(facts_of(loaded), substitutions=substitutions, termination_source="live")


def _signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run like Ctrl-C: those that are not ignored, and only in the main thread, which hears them."""
    if threading.current_thread() is not threading.main_thread():
        return ()
    return tuple(number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def _ended_by(signals: Sequence[signal.Signals]) -> Iterator[Sequence[signal.Signals]]:
    """Put back afterwards what was set for these signals before."""
    before = {number: signal.getsignal(number) for number in signals}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt

"""The pytest plugin: options, scenario files as tests, artefacts of failures, counters and a summary.

It needs no `conftest.py`; installing the package is enough.
"""

import secrets
import signal
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest
from hypothesis import seed as with_seed
from hypothesis import settings

from simharness.bundle.folders import clear_partials
from simharness.core.errors import RefusedError
from simharness.hosts.swim.kind import DEFECT_NAMES, PROFILE_NAMES
from simharness.scenario.loader import load
from simharness.stateful import artefacts, profiles, summary
from simharness.stateful import session as sessions
from simharness.stateful.collecting import RefusedMachine, ScenarioFile, collects, refusal_of
from simharness.stateful.everything import import_everything
from simharness.stateful.failures import folder
from simharness.stateful.machine import SimulationMachine
from simharness.stateful.playing import Played, play
from simharness.stateful.session import ROOT, Options, Session
from simharness.stateful.swim import with_session_options

_SEED: Final = "simharness_seed"
_REPORTED: Final = "_simharness"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; see `--help`."""
    group = parser.getgroup("simharness", "deterministic simulation")
    group.addoption("--sim-profile", metavar="NAME", help=f"how much to try: {', '.join(profiles.PROFILES)} (dev)")
    group.addoption("--sim-twice", action="store_true", help="run every example twice and compare the digests")
    group.addoption("--sim-coverage", action="store_true", help="fail if a required counter of a property stays zero")
    group.addoption("--sim-artefacts", metavar="DIR", default=ROOT, help=f"where failures are written ({ROOT})")
    group.addoption("--swim-profile", metavar="NAME", help=f"profile of every SWIM peer: {', '.join(PROFILE_NAMES)}")
    group.addoption("--swim-defect", metavar="NAME", action="append", default=[], help="switch a defect on, repeatable")


@pytest.hookimpl(trylast=True)  # after Hypothesis has read its own options and loaded its profile
def pytest_configure(config: pytest.Config) -> None:
    """Put the session in force and import the package."""
    options = _options(config)
    import_everything()
    profiles.register()
    if config.getoption("sim_profile") is not None:
        settings.load_profile(f"sim-{options.profile.name}")
    if config.getoption("hypothesis_seed", None) is not None:
        settings.register_profile("sim-seeded", settings(), database=None, report_multiple_bugs=False, print_blob=False)
        settings.load_profile("sim-seeded")
    session = Session(options)
    sessions.start(session)
    config.pluginmanager.register(_Recorder(config, session), "simharness-recorder")


def _options(config: pytest.Config) -> Options:
    """Read the command line.

    Raises:
        UsageError: If a name is unknown; the choices are named.
    """
    profile = _choice("--sim-profile", config.getoption("sim_profile") or "dev", tuple(profiles.PROFILES))
    swim_profile = config.getoption("swim_profile")
    if swim_profile is not None:
        _choice("--swim-profile", swim_profile, PROFILE_NAMES)
    for defect in config.getoption("swim_defect"):
        _choice("--swim-defect", defect, DEFECT_NAMES)
    return Options(
        profile=profiles.PROFILES[profile],
        twice=config.getoption("sim_twice"),
        coverage=config.getoption("sim_coverage"),
        swim_profile=swim_profile,
        swim_defects=tuple(dict.fromkeys(config.getoption("swim_defect"))),
        seed=_seed(config, derandomize=profiles.PROFILES[profile].derandomize),
        artefacts=config.getoption("sim_artefacts"),
        directory=str(config.invocation_params.dir),
    )


def _choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise pytest.UsageError(f"{option}: {value!r} is unknown; choose from {', '.join(choices)}")
    return value


def _seed(config: pytest.Config, *, derandomize: bool) -> int | str:
    """Return the seed of the machines: the one given, the controller's, 0 for a fixed profile, or a new one."""
    given = config.getoption("hypothesis_seed", None)
    if given is not None:
        return int(given) if str(given).lstrip("-").isdigit() else str(given)
    sent: int | str | None = getattr(config, "workerinput", {}).get(_SEED)
    if sent is not None:
        return sent
    return 0 if derandomize else secrets.randbits(32)


def pytest_collect_file(file_path: Any, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenario files."""
    if not collects(file_path, parent):
        return None
    collector: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Collector | None:
    """Refuse a machine that cannot be run, in place of its test."""
    machine = getattr(obj, "machine", None)
    if not (isinstance(machine, type) and issubclass(machine, SimulationMachine)):
        return None
    reason = refusal_of(machine)
    if reason is None:
        return None
    refused: RefusedMachine = RefusedMachine.from_parent(collector, name=name)
    refused.reason = reason
    return refused


@pytest.fixture
def scenario() -> Callable[[str], Played]:
    """Return a function that loads and runs a scenario file in memory, under the session's SWIM options."""

    def run(path: str) -> Played:
        kinds = sessions.current().kinds
        return play(load(path, kinds, reconfigure=with_session_options).scenario, kinds)

    return run


class _Recorder:
    """Follows the session: seeds machines, writes artefacts, gathers summaries from the workers."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config, self._session = config, session
        self._is_worker = hasattr(config, "workerinput")
        self._summaries: list[summary.PropertySummary] = []
        self._shared_names: frozenset[str] = frozenset()
        self._silent: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the controller's seed."""
        node.workerinput[_SEED] = self._session.options.seed

    def pytest_report_header(self) -> list[str]:
        """Say what the session runs under."""
        options = self._session.options
        lines = [f"simharness: profile {options.profile.name}, --hypothesis-seed={options.seed}"]
        if options.swim_profile is not None or options.swim_defects:
            defects = ", ".join(options.swim_defects) or "none"
            lines.append(f"simharness: swim profile {options.swim_profile}, defects switched on: {defects}")
        return lines

    def pytest_sessionstart(self) -> None:
        """Let SIGTERM end the session as Ctrl-C does, so that nothing half-written stays behind."""
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Seed every machine; find names that two properties share."""
        names: list[str] = []
        for item in items:
            machine = _machine_of(item)
            if machine is not None:
                names.append(machine.name)
                if self._session.options.seed is not None:
                    with_seed(self._session.options.seed)(machine)
        self._shared_names = frozenset(name for name in names if names.count(name) > 1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say which test runs."""
        self._session.test_id = item.nodeid

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Fail a property that passed without saying enough."""
        result = yield
        for name, ledger in self._session.open_ledgers().items():
            wrong = summary.too_inconclusive(ledger.outcomes)
            if wrong is not None:
                pytest.fail(f"{name}: {wrong}", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write what the test leaves, and send its summary with the report."""
        report = yield
        if call.when == "call":
            machine = _machine_of(item)
            requires = () if machine is None else required_counters(machine)
            found = []
            for name, ledger in self._session.close_test().items():
                found.append(summary.plain(summary.summary_of(name, ledger, requires)))
                report.sections += self._write(name, ledger)
                report.sections += _cut_short(item, ledger)
            if found:
                setattr(report, _REPORTED, found)  # travels with the report, from a worker too
        return report

    def _write(self, name: str, ledger: sessions.Ledger) -> Iterator[tuple[str, str]]:
        """Write rows and failures; yield a section of the report for each, or for what kept it from being written."""
        session = self._session
        try:
            shared = name in self._shared_names
            artefacts.write_rows(f"{name}-{sessions.short(session.test_id)}" if shared else name, ledger.rows, session)
            for failure in ledger.failures.values():
                artefacts.write_failure(failure, session)
                yield "simharness", f"written: {folder(failure, session)}/"
        except RefusedError as error:
            yield "simharness", f"not written:\n{error}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather a summary, whoever ran the test."""
        self._summaries += map(summary.from_plain, getattr(report, _REPORTED, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Sweep up, and fail the batch if a required counter never rose."""
        if self._is_worker:
            return
        clear_partials(f"{self._session.root}/failures")
        if self._session.options.coverage:
            self._silent = summary.silent_counters(summary.added_up(self._summaries))
            if self._silent and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table of the properties."""
        if self._summaries:
            writer = terminalreporter._tw  # noqa: SLF001  # pytest offers its width and colours nowhere else
            shown = summary.table(
                summary.added_up(self._summaries), width=writer.fullwidth, colour=bool(writer.hasmarkup)
            )
            terminalreporter.write_line("")
            terminalreporter.write(shown)
            for line in summary.doubtful_passes(summary.added_up(self._summaries)):
                terminalreporter.write_line(f"simharness: {line}", yellow=True)
        for line in self._silent:
            terminalreporter.write_line(f"simharness coverage: {line}", red=True)


def _cut_short(item: pytest.Item, ledger: sessions.Ledger) -> Iterator[tuple[str, str]]:
    """Yield a section if a limit of Hypothesis ended the shrinking: another machine may end it elsewhere."""
    for line in getattr(item, "hypothesis_statistics", "").splitlines():
        if ledger.failures and "Stopped because" in line and ("shrunk" in line or "shrinking" in line):
            yield (
                "simharness",
                f"shrinking did not end by itself:{line.partition('Stopped')[2].removeprefix(' because')}",
            )


def required_counters(machine: type[SimulationMachine]) -> tuple[str, ...]:
    """Return the counters that `--sim-coverage` wants of a machine."""
    return machine.faults.kinds if machine.requires is None else machine.requires


def _machine_of(item: pytest.Item) -> type[SimulationMachine] | None:
    machine = getattr(getattr(item, "cls", None), "machine", None)
    return machine if isinstance(machine, type) and issubclass(machine, SimulationMachine) else None

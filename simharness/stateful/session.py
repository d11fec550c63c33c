"""What one test session was asked for, and what it has seen so far. Set by the pytest plugin, passed on through `current`."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from simharness.core.streams import siphash
from simharness.hosts.kinds import Kinds
from simharness.stateful.profiles import DEV, Profile

ROOT: Final = ".simharness"
"""Where a session writes, relative to the directory that pytest runs in."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The session's settings; each has a command-line option of the same name."""

    profile: Profile = DEV
    twice: bool = False
    """Run every example twice and compare the digests."""
    coverage: bool = False
    swim_profile: str | None = None
    swim_defects: tuple[str, ...] = ()
    seed: int | str | None = None
    """The Hypothesis seed of every machine; None leaves the choice to Hypothesis."""
    artefacts: str = ROOT
    """Where the session writes, as messages show it."""
    directory: str = "."
    """What `artefacts` is relative to."""


class Ledger:
    """What one property has done: examples, verdicts, counters, the latest failure of each kind."""

    def __init__(self) -> None:
        self.examples = 0
        self.rules = 0
        self.reruns = 0
        self.diverged = False
        """Whether two runs of one example differed: from then on every example runs twice."""
        self.outcomes: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.rows: list[bytes] = []
        self.bounded: dict[str, tuple[tuple[str, ...], bool]] = {}
        """Kinds of events that a Pass has bounded: which kinds hosts may record, and whether those are all."""
        self.failures: dict[str, Any] = {}
        """The last `Failure` of each failure kind; Hypothesis runs the minimal example last."""


class Session:
    """One session: its options, the host kinds it knows, and a ledger for each property."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.kinds = KINDS
        self.test_id = ""
        """Node id of the running test, if pytest runs it."""
        self._ledgers: dict[str, dict[str, Ledger]] = {}

    def ledger(self, name: str) -> Ledger:
        """Return the ledger of a property in the running test."""
        return self._ledgers.setdefault(self.test_id, {}).setdefault(name, Ledger())

    def open_ledgers(self) -> dict[str, Ledger]:
        """Return the ledgers of the running test, by property name."""
        return self._ledgers.get(self.test_id, {})

    def close_test(self) -> dict[str, Ledger]:
        """Take the ledgers of the running test, by property name."""
        return self._ledgers.pop(self.test_id, {})

    @property
    def root(self) -> str:
        """Where files go."""
        place = self.options.artefacts
        return place if place.startswith("/") else f"{self.options.directory}/{place}"


def short(test_id: str) -> str:
    """Return six hex digits that tell tests apart."""
    return f"{siphash(test_id.encode()) & 0xFFFFFF:06x}"


KINDS: Final = Kinds()
"""The host kinds of this process; strategies register the kinds that are handed to them."""

_CURRENT: Final[ContextVar[Session]] = ContextVar("simharness_session")


def current() -> Session:
    """Return the session in force; without one, a new one with every option at its default."""
    session = _CURRENT.get(None)
    if session is None:
        session = Session(Options())
        _CURRENT.set(session)
    return session


def start(session: Session) -> None:
    """Put `session` in force."""
    _CURRENT.set(session)


@contextmanager
def using(options: Options) -> Iterator[Session]:
    """Run a block under a session of its own, as hunters do: nothing that happens inside reaches the outer one."""
    token = _CURRENT.set(Session(options))
    try:
        yield _CURRENT.get()
    finally:
        _CURRENT.reset(token)

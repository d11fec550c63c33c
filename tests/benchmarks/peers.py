"""How fast a member that is killed is detected: kinship and memberlist beside our own live SWIM, with the same LAN settings.

Nothing but what pip and apt install: kinship (PyPI), golang-go and golang-github-hashicorp-memberlist-dev (Debian). What is
missing is skipped, and a line says so.
"""

import importlib.util
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from math import log10
from pathlib import Path
from typing import Any, Final, NamedTuple

import tomli_w

from simharness.bundle.reader import Bundle
from simharness.live.run import run_live
from simharness.run import run_to_bundle
from simharness.scenario.loader import load
from tests.benchmarks.measuring import Row, Scale, Spread
from tests.benchmarks.meshes import KINDS

HERE: Final = Path(__file__).parent
GOCODE: Final = Path("/usr/share/gocode")
MEMBERLIST: Final = GOCODE / "src/github.com/hashicorp/memberlist"
MS: Final = 10**6
PATIENCE_S: Final = 60


class Settings(NamedTuple):
    """What all are given; the defaults are memberlist's for a LAN. Gossip and Lifeguard stay as each has them."""

    interval_ms: int = 1_000
    timeout_ms: int = 500
    mult: int = 4
    indirect: int = 3
    settle_s: float = 3.0
    """From the cluster's being complete to the kill; a part of an interval comes on top, another each round."""
    tick_ms: int = 50
    """Ours has ticks, the others have timers."""

    def suspicion_ms(self, members: int) -> int:
        """Return the shortest suspicion timeout, by memberlist's formula."""
        return round(self.mult * max(1.0, log10(members)) * self.interval_ms)


class Found(NamedTuple):
    """One kill: seconds until each survivor held the victim dead, and how often anybody held a live member dead."""

    after_s: tuple[float, ...]
    false_deaths: int
    survivors: int


# --- members that are processes of others ------------------------------------------------------------------------------


class Cluster:
    """Member processes that print `at`, `up` and `down` lines; a line counts when it is read, for all alike."""

    def __init__(self, argv: Sequence[str], settings: Settings) -> None:
        self._argv, self._settings = argv, settings
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._rest: dict[str, bytes] = {}
        self._lines = selectors.DefaultSelector()
        self.up: dict[str, set[str]] = {}
        self.down: list[tuple[float, str, str]] = []
        self.address = self._victim = ""

    def start(self, name: str) -> None:
        """Start a member that joins the first one, and wait until it listens."""
        settings, seed = self._settings, self.address
        unit = "" if self._argv[0] == sys.executable else "s"
        flags = {
            "name": name,
            "interval": f"{settings.interval_ms / 1000}{unit}",
            "timeout": f"{settings.timeout_ms / 1000}{unit}",
            "mult": str(settings.mult),
            "indirect": str(settings.indirect),
        } | ({"seed": seed} if seed else {})
        words = [word for flag, value in flags.items() for word in (f"-{flag}", value)]
        process = subprocess.Popen([*self._argv, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        self._members[name], self._rest[name], self.up[name] = process, b"", set()
        self._lines.register(process.stdout, selectors.EVENT_READ, name)
        if not seed:
            self.read_until(lambda: bool(self.address))

    def kill(self, name: str) -> float:
        """Kill a member and return when."""
        self._victim = name
        self._members[name].kill()
        return time.monotonic()

    def read_until(self, done: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
        """Take lines until something is so, or the time is over; tell which."""
        until = time.monotonic() + within_s
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._lines.select(left):
                self._take(str(key.data), os.read(key.fd, 1 << 16), key.fileobj)
        return True

    def _take(self, name: str, data: bytes, pipe: Any) -> None:
        if not data:
            self._lines.unregister(pipe)
            assert name == self._victim, f"{self._argv[-1]}: {name} has ended by itself"
        *lines, self._rest[name] = (self._rest[name] + data).split(b"\n")
        for line in lines:
            word, _, other = line.decode().partition(" ")
            match word:
                case "at":
                    self.address = self.address or other
                case "up" if other != name:
                    self.up[name].add(other)
                case "down":
                    self.down.append((time.monotonic(), name, other))

    def close(self) -> None:
        """End all members."""
        for process in self._members.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._lines.close()


@contextmanager
def cluster(argv: Sequence[str], settings: Settings, names: Sequence[str]) -> Iterator[Cluster]:
    """Give a cluster in which everybody knows everybody."""
    members = Cluster(argv, settings)
    try:
        for name in names:
            members.start(name)
        complete = members.read_until(lambda: all(len(known) == len(names) - 1 for known in members.up.values()))
        assert complete, f"{argv[-1]}: not everybody knows everybody after {PATIENCE_S} s"
        yield members
    finally:
        members.close()


def kill_a_process(argv: Sequence[str], settings: Settings, size: int, turn: int) -> Found:
    """Kill one member of a cluster of others' processes."""
    names = [f"m{place}" for place in range(size)]
    victim = names[1 + turn % (size - 1)]  # whoever it is; not the seed, so that all systems are alike
    with cluster(argv, settings, names) as members:
        members.read_until(lambda: False, settings.settle_s + _phase_ms(settings, turn) / 1000)
        at_s = members.kill(victim)

        def known() -> set[str]:
            return {by for _, by, whom in members.down if whom == victim and by != victim}

        members.read_until(lambda: len(known()) == size - 1)
        first = {by: when - at_s for when, by, whom in reversed(members.down) if whom == victim and when >= at_s}
        wrong = [when for when, by, whom in members.down if whom != victim or when < at_s]
    return Found(tuple(first.values()), len(wrong), size - 1)


def _phase_ms(settings: Settings, turn: int) -> int:
    """Return another part of a probe interval each turn: when a kill comes is not aligned with the probes."""
    return turn * 389 % settings.interval_ms


# --- ours ----------------------------------------------------------------------------------------------------------------


def scenario(settings: Settings, size: int, turn: int, *, guarded: bool) -> dict[str, Any]:
    """Return a cluster of our own, of which one is killed."""
    suspicion_ms = settings.suspicion_ms(size)
    table = {
        "probe_interval_ns": settings.interval_ms * MS,
        "probe_timeout_ns": settings.timeout_ms * MS,
        "suspicion_timeout_ns": suspicion_ms * MS,
        "indirect_ping_fanout": settings.indirect,
    }
    table |= {"lifeguard": {"confirmations": settings.mult - 2}} if guarded else {}
    killed_ms = int(settings.settle_s * 1000) + _phase_ms(settings, turn)
    longest_ms = (size + 2) * settings.interval_ms + suspicion_ms * (6 if guarded else 1)
    free = {"jitter_stddev_ns": 0, "loss_prob_ppm": 0, "reorder_prob_ppm": 0, "bandwidth_bps": 10**10}
    open_ = {"cold_dial_penalty_ns": 0, "cache_warm_after_ns": 0, "cache_invalidate_after_idle_ns": 3_600 * 1000 * MS}
    names = [f"m{place}" for place in range(size)]
    return {
        "name": "peers",
        "seed": turn,
        "duration_ns": (killed_ms + longest_ms) * MS,
        "default_tick": {"period_ns": settings.tick_ms * MS},
        "default_link": {"latency_ns": 0} | free | open_,  # loopback alone
        "peers": [{"id": name, "kind": "swim", "initial_state": "alive", "kind_config": table} for name in names],
        "meshes": [{"shape": "full"}],
        "mutations": [{"at_ns": killed_ms * MS, "kind": "peer_kill", "peer": names[1 + turn % (size - 1)]}],
    }


def kill_one_of_ours(settings: Settings, size: int, turn: int, *, guarded: bool = False, live: bool = True) -> Found:
    """Kill one member of a live run of ours, or of a simulated one."""
    document = scenario(settings, size, turn, guarded=guarded)
    [kill] = document["mutations"]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "peers.toml")
        file.write_text(tomli_w.dumps(document), encoding="utf-8")
        loaded, place = load(file, KINDS), Path(directory, "bundle")
        bundle = Bundle(run_live(loaded, place).bundle if live else run_to_bundle(loaded, place, KINDS).bundle)
        dead = [
            (line.virtual_time_ns - kill["at_ns"], str(line.host_id), line.event["peer"])
            for line in bundle.events()
            if line.event["kind"] == "SwimTransition" and line.event["to"] == "Dead"
        ]
    first = {by: at_ns / 1000 / MS for at_ns, by, whom in reversed(dead) if whom == kill["peer"] and at_ns >= 0}
    wrong = [at_ns for at_ns, _, whom in dead if whom != kill["peer"] or at_ns < 0]
    return Found(tuple(first.values()), len(wrong), size - 1)


# --- all beside each other ---------------------------------------------------------------------------------------------


Kill = Callable[[Settings, int, int], Found]


def peers(scale: Scale) -> list[Row]:
    """Detection of a SIGKILLed member on loopback: ours live, kinship and memberlist, at the same time in each round."""
    settings = Settings(300, 150, settle_s=0.3, tick_ms=50) if scale.tiny else Settings()
    rounds, sizes = scale.of(10, 1), (3,) if scale.tiny else (5, 8)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        systems, missing = _systems(scratch, tiny=scale.tiny)
        pool = stack.enter_context(ThreadPoolExecutor(len(systems)))
        rows = [Row(name, f"skipped: {why}") for name, why in missing.items()]
        for size in sizes:
            turns: dict[str, list[Found]] = {name: [] for name in systems}
            for turn in range(rounds):
                started = {name: pool.submit(kill, settings, size, turn) for name, kill in systems.items()}
                for name, future in started.items():
                    turns[name].append(future.result())
            rows += [row for name, found in turns.items() for row in _rows(f"{name}, {size} members", found)]
    return rows


def _systems(scratch: Path, *, tiny: bool) -> tuple[dict[str, Kill], dict[str, str]]:
    """Return what there is here, and why the rest is not."""
    systems: dict[str, Kill] = {
        "ours, live": kill_one_of_ours,
        "ours, simulated": partial(kill_one_of_ours, live=False),
        "ours, live, Lifeguard": partial(kill_one_of_ours, guarded=True),
    }
    missing: dict[str, str] = {}
    if tiny:
        systems.pop("ours, live, Lifeguard")
    if importlib.util.find_spec("kinship") is None:
        missing["kinship"] = "not installed (pip install kinship)"
    else:
        systems["kinship"] = partial(kill_a_process, (sys.executable, str(HERE / "kinship_member.py")))
    if tiny:
        missing["memberlist"] = "takes a minute to build"
    elif shutil.which("go") is None or not MEMBERLIST.is_dir():
        missing["memberlist"] = "not installed (apt-get install golang-go golang-github-hashicorp-memberlist-dev)"
    else:
        systems["memberlist"] = partial(kill_a_process, (str(_built(scratch)),))
    return systems, missing


def _built(scratch: Path) -> Path:
    """Build the member of a memberlist cluster from Debian's packages."""
    program = scratch / "memberlist_member"
    subprocess.run(
        ["go", "build", "-o", program, HERE / "memberlist_member.go"],
        check=True,
        cwd=scratch,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "GOPATH": str(GOCODE),
            "GO111MODULE": "off",
            "GOCACHE": str(scratch / "cache"),
        },
    )
    return program


def _rows(what: str, found: Sequence[Found]) -> list[Row]:
    firsts = [min(item.after_s) for item in found if item.after_s]
    everybody = [seconds for item in found for seconds in item.after_s]
    lasts = [max(item.after_s) for item in found if len(item.after_s) == item.survivors]
    missed = sum(item.survivors - len(item.after_s) for item in found)
    false_deaths = sum(item.false_deaths for item in found)
    told = [
        f"{name} {Spread.over(values).shown(' s')}"
        for name, values in (("first", firsts), ("every", everybody), ("last", lasts))
        if values
    ]
    return [Row(f"{what}, {len(found)} kills", "  ".join([*told, f"false deaths {false_deaths}", *_missed(missed)]))]


def _missed(missed: int) -> list[str]:
    return [f"not detected by {missed}"] if missed else []

"""A tiny registry of host kinds, and scenarios as text, for the tests of the loader."""

from collections.abc import Mapping
from typing import Any

from simharness.contracts.host import Codec, Complaint, Host, HostContext, HostKind, PeerFacts, Validated
from simharness.contracts.mutations import AIMED_KINDS
from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.loader import loads


class FakeKind:
    """Knows `rate` (an integer, default 7) and anything under `free`; accepts initial_state `up` only.

    A kind that accepts worker exits names all that it accepts, `peer_slow` too; another names nothing.
    """

    def __init__(self, kind_tag: str, *, accepts_worker_exit: bool) -> None:
        self.kind_tag = kind_tag
        self.accepts_worker_exit = accepts_worker_exit
        if accepts_worker_exit:
            self.accepts = AIMED_KINDS

    @property
    def codec(self) -> Codec:
        raise NotImplementedError

    def new(self, context: HostContext) -> Host:
        raise NotImplementedError

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        complaints = [
            Complaint(f"kind_config.{key}", f"{self.kind_tag} has no such knob")
            for key in config
            if key not in ("rate", "free", "friends")
        ]
        if facts.initial_state != "up":
            complaints.append(Complaint("initial_state", f"{self.kind_tag} starts up"))
        if type(config.get("rate", 7)) is not int:
            complaints.append(Complaint("kind_config.rate", "rate is a whole number of turns"))
        for place, name in enumerate(config.get("friends", ())):
            if name not in facts.peer_ids:
                complaints.append(Complaint(f"kind_config.friends[{place}]", f"no friend\n{name}"))
        return Validated({"rate": 7, **config}, tuple(complaints))


class Kinds:
    """`swim`-like and `stage`-like stand-ins."""

    def __init__(self) -> None:
        self._kinds: dict[str, HostKind] = {
            "plain": FakeKind("plain", accepts_worker_exit=False),
            "worker": FakeKind("worker", accepts_worker_exit=True),
        }

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._kinds))

    def get(self, name: str) -> HostKind | None:
        return self._kinds.get(name)


KINDS = Kinds()

HEAD = """
name = "base"
seed = 7
duration_ns = 60_000
"""
TICK = """
[default_tick]
period_ns = 100
"""
LINK = """
[default_link]
latency_ns = 20
jitter_stddev_ns = 0
loss_prob_ppm = 0
reorder_prob_ppm = 0
bandwidth_bps = 1_000
cold_dial_penalty_ns = 0
cache_warm_after_ns = 0
cache_invalidate_after_idle_ns = 3_600
"""
TOP = HEAD + TICK + LINK


def peer(name: str, kind: str = "plain", rest: str = "") -> str:
    return f'[[peers]]\nid = "{name}"\nkind = "{kind}"\ninitial_state = "up"\n{rest}\n'


def relay(name: str, rest: str = "") -> str:
    return (
        f'[[relays]]\nid = "{name}"\ningress_capacity_bps = 5\negress_capacity_bps_per_link = 5\n'
        f"queue_depth_bytes = 0\n{rest}\n"
    )


def link(source: str, target: str, rest: str = "") -> str:
    return f'[[links]]\nfrom = "{source}"\nto = "{target}"\n{rest}\n'


def via(source: str, target: str, through: str, rest: str = "") -> str:
    return link(source, target, f'via = "{through}"\n{rest}')


def mutation(kind: str, rest: str = "", at_ns: int = 5) -> str:
    return f'[[mutations]]\nat_ns = {at_ns}\nkind = "{kind}"\n{rest}\n'


def assertion(kind: str, rest: str = "") -> str:
    return f'[[assertions]]\nkind = "{kind}"\n{rest}\n'


ABC = peer("a") + peer("b") + peer("c", "worker")
BASE = TOP + ABC


def problems(text: str) -> list[Problem]:
    """Return why a text is refused; none if it loads."""
    try:
        loads(text, KINDS, name="x.toml")
    except ScenarioError as error:
        return list(error.problems)
    return []


def broken(text: str) -> list[tuple[str, str]]:
    """Return (field, rule) of every problem."""
    return [(problem.field, problem.rule) for problem in problems(text)]

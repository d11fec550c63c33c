"""Configuration of a node, and the checking of a raw `kind_config` table. Imports no node code: `check` must stay fast."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

MAX_INCARNATION: Final = 2**63 - 1
"""Highest incarnation on the wire (ruling S3)."""

MIN_MESSAGE_BYTES: Final = 1_000
"""Smallest byte cap: below it the largest PingReq with one update, or one name, could never be sent."""

MIN_LIFEGUARD_BYTES: Final = 1_300
"""The same with Lifeguard, whose updates name an accuser."""

MAX_TEXT_BYTES: Final = 256
"""Longest name, relay URL or node name, in bytes of its JSON text, so that one entry fits the smallest cap."""

JOIN_RETRY_INTERVALS: Final = 10
"""Probe intervals between the JoinRequests of a node that nobody has answered."""


class Defect(StrEnum):
    """A rule of the deployed version, switched back on, or a planted one. Each is one `if`, at the place that says what it does."""

    REFUTE_STALE_CLAIM = "REFUTE_STALE_CLAIM"
    HEARSAY_OVER_EVIDENCE = "HEARSAY_OVER_EVIDENCE"
    TIMER_SURVIVES_REFUTATION = "TIMER_SURVIVES_REFUTATION"
    ONE_STEP_REFUTE = "ONE_STEP_REFUTE"
    FALSE_DEATH_ERASES_NAMES = "FALSE_DEATH_ERASES_NAMES"
    DEMAND_QUEUE_STUCK = "DEMAND_QUEUE_STUCK"
    PROBE_KEY_SHARED = "PROBE_KEY_SHARED"
    COMBINED_PIGGYBACK = "COMBINED_PIGGYBACK"
    ACK_DISPATCHED_AS_PING = "ACK_DISPATCHED_AS_PING"
    UNORDERED_MEMBERS = "UNORDERED_MEMBERS"
    OWN_PAUSE_COUNTED = "OWN_PAUSE_COUNTED"
    TIMER_SURVIVES_PAUSE = "TIMER_SURVIVES_PAUSE"
    TIMER_SURVIVES_ACK = "TIMER_SURVIVES_ACK"
    CLAIM_SURVIVES_ACK = "CLAIM_SURVIVES_ACK"


NEVER_DEPLOYED: Final = (
    Defect.ACK_DISPATCHED_AS_PING,
    Defect.UNORDERED_MEMBERS,
    Defect.TIMER_SURVIVES_PAUSE,
    Defect.TIMER_SURVIVES_ACK,
    Defect.CLAIM_SURVIVES_ACK,
)
"""What no capture of a deployment shows: of the simulator that this one replaces, of chance, and planted."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Defects and defaults that belong together. `ticks` and `counts` are defaults by field name."""

    defects: frozenset[Defect] = frozenset()
    ticks: Mapping[str, int] = {}
    counts: Mapping[str, int] = {}


_COUNTS: Final = {"indirect_ping_fanout": 3, "gossip_lambda": 3, "max_piggyback": 6, "max_message_bytes": 4_096}

PROFILES: Final[Mapping[str, Profile]] = {
    "current": Profile(counts=_COUNTS),
    "deployed": Profile(  # the three N3 runs of 2026-05-20
        defects=frozenset(Defect).difference(NEVER_DEPLOYED),
        ticks={
            "probe_interval_ns": 10,
            "probe_timeout_ns": 15,
            "suspicion_timeout_ns": 60,
            "dead_reprobe_interval_ns": 100,
        },
        counts={**_COUNTS, "indirect_ping_fanout": 2, "max_piggyback": 8, "max_message_bytes": 0},
    ),
}


class Lifeguard(msgspec.Struct, frozen=True, kw_only=True):
    """How far a node doubts itself before it blames others; the defaults are those of the paper's evaluation."""

    max_health_score: int = 8
    """Highest Local Health score: probe interval and timeout are at most multiplied by one more."""
    max_suspicion_factor: int = 6
    """What the suspicion timeout is multiplied with while nobody else confirms a suspicion."""
    confirmations: int = 3
    """Independent suspicions that bring the timeout back to the configured one."""


class SwimConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One node's configuration. Periods are in ticks unless the name says `_ns`."""

    tick_period_ns: int
    probe_interval: int
    probe_timeout: int
    suspicion_timeout: int
    indirect_probes: int = 3
    dead_reprobe_interval: int = 0
    gossip_lambda: int = 3
    max_piggyback: int = 6
    max_message_bytes: int = 4_096
    join_at_ns: int = 0
    leave_at_ns: int | None = None
    names: tuple[str, ...] = ()
    relay_url: str | None = None
    node_name: str | None = None
    defects: frozenset[Defect] = frozenset()
    lifeguard: Lifeguard | None = None


ALIASES: Final = {"indirect_probes": "indirect_ping_fanout", "retransmit_mult": "gossip_lambda"}
_LEAST_TICKS: Final = {
    "probe_interval_ns": 1,
    "probe_timeout_ns": 1,
    "suspicion_timeout_ns": 1,
    "dead_reprobe_interval_ns": 0,
    "join_at_ns": 0,
    "leave_at_ns": 1,
}
_LEAST_COUNT: Final = {
    "indirect_ping_fanout": 1,
    "gossip_lambda": 1,
    "max_piggyback": 1,
    "max_message_bytes": 0,
    "initial_incarnation": 0,
}
_OTHERS: Final = ("seeds", "names", "metadata", "probe_mode", "profile", "defects", "lifeguard")
_LIFEGUARD_BOUNDS: Final = {"max_health_score": (0, 64), "max_suspicion_factor": (1, 1_000), "confirmations": (0, 16)}
FIELDS: Final = (*_LEAST_TICKS, *_LEAST_COUNT, *_OTHERS)
"""Every field of the table under its canonical name."""

Resolved = dict[str, object]
Complaints = list[tuple[str, str]]


def resolve(
    raw: Mapping[str, object],
    *,
    tick_period_ns: int,
    peer_ids: Sequence[str],
    initial_state: str = "alive",
    own_id: str | None = None,
) -> tuple[Resolved | None, Complaints]:
    """Check a raw `kind_config` and fill in the defaults of its profile and fields.

    Returns:
        The resolved table (aliases under their canonical name, durations in ns, TOML-able, order of `FIELDS`; resolving
        it again gives it back), or None; and every mistake as (field inside the table, one-line rule).
    """
    check = _Check(raw, tick_period_ns)
    check.keys()
    profile = check.choice("profile", PROFILES, "current")
    base = PROFILES[profile]
    for field, least in _LEAST_TICKS.items():
        default = base.ticks.get(field)
        check.duration(field, least, None if default is None else default * tick_period_ns)
    for field, least in _LEAST_COUNT.items():
        check.count(field, least, base.counts.get(field, 0))
    check.derived_durations()
    check.relations()
    check.seeds(peer_ids, own_id, needed=initial_state == "joining")
    check.names()
    check.metadata()
    check.choice("probe_mode", ("periodic",), "periodic")
    check.defects(base)
    check.lifeguard()
    resolved = {field: check.found[field] for field in FIELDS if field in check.found}
    return (None if check.complaints else resolved), check.complaints


class _Check:
    """One pass over one table; collects what is right and what is wrong."""

    def __init__(self, raw: Mapping[str, object], tick_period_ns: int) -> None:
        self.complaints: Complaints = []
        self.found: Resolved = {}
        self._tick = tick_period_ns
        self._raw: dict[str, tuple[str, object]] = {}
        self._unknown: list[str] = []
        for spelling, value in raw.items():
            field = ALIASES.get(spelling, spelling)
            if field not in FIELDS:
                self._unknown.append(spelling)
            elif field in self._raw:
                self.wrong(spelling, f"{self._raw[field][0]} and {spelling} are two spellings of one field; write one")
            else:
                self._raw[field] = (spelling, value)

    def wrong(self, field: str, rule: str) -> None:
        """Note one mistake."""
        self.complaints.append((field, rule))

    def keys(self) -> None:
        """Refuse unknown fields."""
        for spelling in self._unknown:
            self.wrong(spelling, f"unknown field; a swim table has {', '.join(FIELDS)}")

    def _integer(self, field: str, rule: str, least: int) -> int | None:
        """Take an integer field. A bool is not an integer, and neither is 5.0."""
        spelling, value = self._raw[field]
        if type(value) is not int or not least <= value <= MAX_INCARNATION:
            self.wrong(spelling, rule)
            return None
        self.found[field] = value
        return value

    def duration(self, field: str, least_ticks: int, default: int | None) -> None:
        """Take a duration in ns: whole ticks, at least `least_ticks` of them."""
        if field not in self._raw:
            if default is not None:
                self.found[field] = default
            return
        rule = f"must be an integer number of nanoseconds, a whole multiple of the tick ({self._tick} ns)"
        if least_ticks:
            rule += ", at least one tick"
        value = self._integer(field, rule, least_ticks * self._tick)
        if value is not None and value % self._tick:
            self.wrong(self._raw[field][0], rule)
            del self.found[field]

    def count(self, field: str, least: int, default: int) -> None:
        """Take a plain integer."""
        if field not in self._raw:
            self.found[field] = default
            return
        value = self._integer(field, f"must be an integer of at least {least} and at most 2**63-1", least)
        if field == "max_message_bytes" and value is not None and 0 < value < MIN_MESSAGE_BYTES:
            self.wrong(
                field, f"must be 0 (no cap) or at least {MIN_MESSAGE_BYTES}, so that every message can carry news"
            )
            del self.found[field]

    def derived_durations(self) -> None:
        """Fill in the durations that follow from others; name the required ones that are missing."""
        for field in ("probe_interval_ns", "suspicion_timeout_ns"):
            if field not in self._raw and field not in self.found:
                self.wrong(field, 'required; only profile = "deployed" has a default')
        interval = self.found.get("probe_interval_ns")
        if isinstance(interval, int):
            third = max(1, interval // 3 // self._tick) * self._tick
            for field, default in (("probe_timeout_ns", third), ("dead_reprobe_interval_ns", 5 * interval)):
                if field not in self._raw:
                    self.found.setdefault(field, default)
        if "join_at_ns" not in self._raw:
            self.found["join_at_ns"] = 0

    def relations(self) -> None:
        """Check rules between fields, each only when both sides are well formed (ruling L17: one mistake, one error)."""
        for smaller, larger in (
            ("probe_interval_ns", "suspicion_timeout_ns"),
            ("probe_timeout_ns", "suspicion_timeout_ns"),
            ("join_at_ns", "leave_at_ns"),
        ):
            low, high = self.found.get(smaller), self.found.get(larger)
            if isinstance(low, int) and isinstance(high, int) and low >= high:
                self.wrong(smaller, f"must be smaller than {larger} ({low} >= {high})")

    def choice(self, field: str, choices: Sequence[str] | Mapping[str, object], default: str) -> str:
        """Take one of a closed list of words; on a mistake go on with the default."""
        spelling, value = self._raw.get(field, (field, default))
        if not isinstance(value, str) or value not in choices:
            self.wrong(spelling, f"must be one of {', '.join(choices)}")
            return default
        self.found[field] = value
        return value

    def _strings(self, field: str) -> list[tuple[int, str]]:
        """Take a list of distinct strings; returns the well-formed ones with their index."""
        _, value = self._raw.get(field, (field, []))
        if not isinstance(value, list | tuple):
            self.wrong(field, "must be a list of strings")
            return []
        good: list[tuple[int, str]] = []
        seen: list[str] = []
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self.wrong(f"{field}[{index}]", "must be a string")
            elif item in seen:
                self.wrong(f"{field}[{index}]", f"{item!r} is listed twice")
            else:
                seen.append(item)
                good.append((index, item))
        self.found[field] = seen
        return good

    def seeds(self, peer_ids: Sequence[str], own_id: str | None, *, needed: bool) -> None:
        """Take the seeds: declared peers other than the node itself."""
        good = self._strings("seeds")
        known = frozenset(peer_ids) if good else frozenset()
        for index, seed in good:
            if seed not in known:
                self.wrong(f"seeds[{index}]", f"{seed!r} is not a declared peer")
            elif seed == own_id:
                self.wrong(f"seeds[{index}]", "a node is no seed of its own")
        if needed and not good and "seeds" not in {field.partition("[")[0] for field, _ in self.complaints}:
            self.wrong("seeds", 'initial_state = "joining" needs at least one seed')

    def names(self) -> None:
        """Take the names that the node registers."""
        for index, name in self._strings("names"):
            self._text(f"names[{index}]", name)

    def _text(self, field: str, value: object) -> bool:
        if isinstance(value, str) and value and json_text_bytes(value) <= MAX_TEXT_BYTES:
            return True
        self.wrong(field, f"must be a non-empty string of at most {MAX_TEXT_BYTES} bytes as JSON text")
        return False

    def metadata(self) -> None:
        """Take the metadata table; what is absent stays absent."""
        _, value = self._raw.get("metadata", ("metadata", {}))
        if not isinstance(value, Mapping):
            self.wrong("metadata", "must be a table with relay_url and node_name")
            return
        taken: dict[str, object] = {}
        for key, text in value.items():
            if key not in ("relay_url", "node_name"):
                self.wrong(f"metadata.{key}", "unknown field; metadata has relay_url, node_name")
            elif self._text(f"metadata.{key}", text):
                taken[key] = text
        if taken:
            self.found["metadata"] = {key: taken[key] for key in ("relay_url", "node_name") if key in taken}

    def defects(self, profile: Profile) -> None:
        """Take the defects: the profile's and those named, in the order of the enum."""
        named: list[str] = []
        for index, name in self._strings("defects"):
            if name in Defect.__members__:
                named.append(name)
            else:
                self.wrong(f"defects[{index}]", f"must be one of {', '.join(Defect.__members__)}")
        self.found["defects"] = [
            defect.value for defect in Defect if defect in profile.defects or defect.value in named
        ]

    def lifeguard(self) -> None:
        """Take the Lifeguard table: true for all its defaults; false, like an absent one, for none of it."""
        _, value = self._raw.get("lifeguard", ("lifeguard", False))
        if value is False:
            return
        if value is not True and not isinstance(value, Mapping):
            self.wrong("lifeguard", f"must be true, false or a table with {', '.join(_LIFEGUARD_BOUNDS)}")
            return
        table: Mapping[str, object] = {} if value is True else value
        for key in table:
            if key not in _LIFEGUARD_BOUNDS:
                known = ", ".join(_LIFEGUARD_BOUNDS)
                self.wrong(f"lifeguard.{key}", f"unknown field; lifeguard has {known}")
        defaults = msgspec.structs.asdict(Lifeguard())
        taken = {key: table.get(key, default) for key, default in defaults.items()}
        for key, (low, high) in _LIFEGUARD_BOUNDS.items():
            number = taken[key]
            if type(number) is not int or not low <= number <= high:
                self.wrong(f"lifeguard.{key}", f"must be an integer from {low} to {high}")
        cap = self.found.get("max_message_bytes", 0)
        if isinstance(cap, int) and 0 < cap < MIN_LIFEGUARD_BYTES:
            rule = f"with lifeguard, must be 0 (no cap) or at least {MIN_LIFEGUARD_BYTES}: its news name an accuser"
            self.wrong("max_message_bytes", rule)
        self.found["lifeguard"] = taken


def json_text_bytes(text: str) -> int:
    """Return the size of `text` as a JSON string, quotes included."""
    return len(msgspec.json.encode(text))


def config_from(resolved: Mapping[str, Any], tick_period_ns: int) -> SwimConfig:
    """Build a node's configuration from a resolved table.

    Args:
        resolved: What `resolve` returned.
        tick_period_ns: The node's tick.
    """
    metadata: Mapping[str, str] = resolved.get("metadata", {})
    return SwimConfig(
        tick_period_ns=tick_period_ns,
        probe_interval=resolved["probe_interval_ns"] // tick_period_ns,
        probe_timeout=resolved["probe_timeout_ns"] // tick_period_ns,
        suspicion_timeout=resolved["suspicion_timeout_ns"] // tick_period_ns,
        indirect_probes=resolved["indirect_ping_fanout"],
        dead_reprobe_interval=resolved["dead_reprobe_interval_ns"] // tick_period_ns,
        gossip_lambda=resolved["gossip_lambda"],
        max_piggyback=resolved["max_piggyback"],
        max_message_bytes=resolved["max_message_bytes"],
        join_at_ns=resolved["join_at_ns"],
        leave_at_ns=resolved.get("leave_at_ns"),
        names=tuple(resolved["names"]),
        relay_url=metadata.get("relay_url"),
        node_name=metadata.get("node_name"),
        defects=frozenset(map(Defect, resolved["defects"])),
        lifeguard=Lifeguard(**resolved["lifeguard"]) if "lifeguard" in resolved else None,
    )

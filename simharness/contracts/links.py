"""Link and relay policies (§5.2, §5A.2) and the names of legs."""

from typing import Any, Final, Literal

import msgspec

Occupancy = Literal["arrival", "wire"]
"""What keeps a link busy: `arrival` is §5.4 to the letter, `wire` frees it when the last byte leaves (ruling N1)."""


class LinkPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Policy of one directed link. All durations in nanoseconds, probabilities in parts per million."""

    latency_ns: int
    jitter_stddev_ns: int
    loss_prob_ppm: int
    reorder_prob_ppm: int
    bandwidth_bps: int
    """Bytes (not bits) a second."""
    cold_dial_penalty_ns: int
    cache_warm_after_ns: int
    cache_invalidate_after_idle_ns: int
    occupancy: Occupancy = "arrival"


LINK_FIELDS: Final = tuple(field for field in LinkPolicy.__struct_fields__ if field != "occupancy")
"""The eight integer fields of §5.2, in its order."""


class LinkOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """Any subset of a `LinkPolicy`; None means: not given here."""

    latency_ns: int | None = None
    jitter_stddev_ns: int | None = None
    loss_prob_ppm: int | None = None
    reorder_prob_ppm: int | None = None
    bandwidth_bps: int | None = None
    cold_dial_penalty_ns: int | None = None
    cache_warm_after_ns: int | None = None
    cache_invalidate_after_idle_ns: int | None = None
    occupancy: Occupancy | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields that are set, in declaration order."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}

    def over(self, base: LinkPolicy) -> LinkPolicy:
        """Return `base` with the given fields replaced."""
        given = self.given()
        return msgspec.structs.replace(base, **given) if given else base


class LinkRef(msgspec.Struct, frozen=True, kw_only=True, order=True, rename={"source": "from", "target": "to"}):
    """Names a directed leg, or a host pair routed through a relay, which means both its legs (ruling N17)."""

    source: str
    target: str


class RelayDecl(msgspec.Struct, frozen=True, kw_only=True):
    """A relay and its policy (§5A.2). Capacities in bytes a second, depth in bytes."""

    id: str
    ingress_capacity_bps: int
    egress_capacity_bps_per_link: int
    queue_depth_bytes: int
    queue_discipline: Literal["fifo"] = "fifo"
    cold_start_penalty_ns: int = 0

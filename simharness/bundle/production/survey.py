"""The first look at a simulated bundle: who took part, and how each of them ended."""

import re
import tomllib
from typing import Any, Final, NamedTuple

from simharness.bundle.places import SCENARIO
from simharness.bundle.production.names import STAGE
from simharness.bundle.reader import Bundle

_NUMBERED: Final = re.compile(r".*?([0-9]{1,9})")


class Survey(NamedTuple):
    """What a bundle says about its run as a whole."""

    scenario: str
    """Its name."""
    hosts: tuple[str, ...]
    """Every declared peer in scenario order, then whoever else left a record."""
    relays: tuple[str, ...]
    stages: dict[str, int]
    """Stage hosts and the index of each."""
    endings: dict[str, str]
    """Why the process of a host ended by itself."""
    dead: tuple[str, ...]
    """The peers that were killed and did not return."""
    hops: dict[tuple[str, str], str]
    """Which relay stands between two hosts, where one was seen to."""
    engine: bool
    """Whether any record belongs to no node."""


def survey(bundle: Bundle) -> Survey:
    """Read a bundle once.

    Raises:
        InputError: If a file of it is malformed.
    """
    document = _document(bundle)
    peers = _declared(bundle, document, "peers")
    relays = [relay["id"] for relay in _declared(bundle, document, "relays")]
    hosts = {peer["id"]: peer.get("kind") for peer in peers}
    endings, hops = dict[str, str](), dict[tuple[str, str], str]()
    dead = dict[str, bool]()
    engine = False
    for line in bundle.events():
        event = line.event
        if line.host_id is not None:
            hosts.setdefault(line.host_id, line.kind_tag)
            if event.get("kind") == "worker_exited" and type(event.get("reason")) is str:
                endings[line.host_id] = event["reason"]
        elif line.kind_tag == "mutation":
            engine = True
            _follow(event.get("mutation"), dead, endings)
        else:
            engine = engine or owner(event, relays) is None
            if event.get("kind") == "RelayEnqueue":
                hops[str(event.get("from")), str(event.get("to"))] = str(event.get("relay"))
    for snapshot in bundle.snapshots():
        hosts.setdefault(snapshot.host_id, snapshot.kind_tag)
    name = document.get("name")
    return Survey(
        scenario=name if type(name) is str else "run",
        hosts=tuple(hosts),
        relays=tuple(relay for relay in dict.fromkeys(relays) if relay not in hosts),
        stages=_indices([host for host, kind in hosts.items() if kind == STAGE]),
        endings=endings,
        dead=tuple(host for host, gone in dead.items() if gone),
        hops=hops,
        engine=engine,
    )


def owner(event: dict[str, Any], relays: list[str] | tuple[str, ...]) -> str | None:
    """Return the relay that a record without a host belongs to, or None if it belongs to the engine."""
    for field in ("relay", "from"):
        if event.get(field) in relays:
            relay: str = event[field]
            return relay
    return None


def _follow(mutation: Any, dead: dict[str, bool], endings: dict[str, str]) -> None:
    """Follow kills and returns."""
    if not isinstance(mutation, dict) or type(mutation.get("peer")) is not str:
        return
    if mutation.get("kind") == "peer_kill":
        dead[mutation["peer"]] = True
    elif mutation.get("kind") == "peer_resurrect":
        dead[mutation["peer"]] = False
        endings.pop(mutation["peer"], None)


def _indices(stages: list[str]) -> dict[str, int]:
    """Number the stages: by the numbers that their ids end in if those differ, else in declared order."""
    ends = [_NUMBERED.fullmatch(stage) for stage in stages]
    numbers = [int(end[1]) for end in ends if end is not None]
    if len(dict.fromkeys(numbers)) != len(stages):
        numbers = [*range(len(stages))]
    return dict(zip(stages, numbers, strict=True))


def _document(bundle: Bundle) -> dict[str, Any]:
    try:
        return tomllib.loads(bundle.scenario_text)
    except (ValueError, RecursionError) as error:
        raise bundle.malformed(SCENARIO, "(root)", f"not TOML: {error}") from None


def _declared(bundle: Bundle, document: dict[str, Any], table: str) -> list[dict[str, Any]]:
    entries = document.get(table, [])
    if not isinstance(entries, list):
        raise bundle.malformed(SCENARIO, table, "must be an array of tables")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or type(entry.get("id")) is not str:
            raise bundle.malformed(SCENARIO, f"{table}[{index}].id", "must be a string")
    return entries

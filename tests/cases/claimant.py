"""A host that feeds claims: at given times it sends given claims to given peers, in bytes of its own making."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from simharness.contracts.host import Action, HostContext, PeerFacts, Send, Validated
from simharness.hosts.kinds import Kinds
from simharness.hosts.swim.codec import Malformed, SwimCodec
from tests.cases.base import Document

NAME: Final = "claimant"
_SENDER: Final = list(hashlib.sha256(b"z").digest())


class Claim(NamedTuple):
    """What is said, to whom, when: `state` of `about` at `incarnation`."""

    at_ns: int
    to: str
    about: str
    state: str
    incarnation: int


def payload(claim: Claim) -> bytes:
    """Return a Ping, or an Ack that answers no probe, that carries the claim, straight from the wire rules."""
    subject = list(hashlib.sha256(claim.about.encode()).digest())
    update = {"node_id": subject, "state": claim.state, "incarnation": claim.incarnation}
    piggyback = json.dumps([update], separators=(",", ":")).encode()
    message = {"from": _SENDER, "sequence": 0, "piggyback": list(piggyback)}
    return json.dumps(message, separators=(",", ":")).encode()


class _Claimant:
    kind_tag = NAME

    def __init__(self, host_id: str, script: list[Claim], tag: str) -> None:
        self.id, self._script, self._tag = host_id, sorted(script), tag

    def tick(self, now_ns: int) -> Sequence[Action]:
        due = [claim for claim in self._script if claim.at_ns <= now_ns]
        del self._script[: len(due)]
        return [Send(claim.to, Malformed(self._tag, payload(claim), "made by hand")) for claim in due]

    def recv(self, message: Any, now_ns: int) -> Sequence[Action]:
        return ()

    def snapshot(self) -> bytes:
        return b"{}"


class ClaimantKind:
    """`kind_config`: script, a list of claims as arrays; tag, the type of the messages that carry them."""

    kind_tag = NAME
    codec = SwimCodec()
    accepts_worker_exit = False

    def validate(self, config: Mapping[str, Any], facts: PeerFacts) -> Validated:
        return Validated(dict(config))

    def new(self, context: HostContext) -> _Claimant:
        return _Claimant(context.host_id, [Claim(*row) for row in context.config["script"]], context.config["tag"])


def with_claims(document: Document, claims: Sequence[Claim], *, message: str = "Ack") -> Document:
    """Return the document with one more peer, the claimant `z`, whose ticks are a hundredth of the others'.

    Whoever gets its claims in an Ack learns nothing of the claimant; a Ping makes its sender a member.
    """
    peer = {
        "id": "z",
        "kind": NAME,
        "initial_state": "ready",
        "tick_period_ns_override": document["default_tick"]["period_ns"] // 100,
        "kind_config": {"script": [list(claim) for claim in claims], "tag": f"swactor_dist::{message}"},
    }
    return document | {"peers": [*document["peers"], peer]}


def kinds() -> Kinds:
    """Return the registry with the claimant in it."""
    registry = Kinds()
    registry.register(ClaimantKind())
    return registry

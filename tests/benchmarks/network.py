"""The network alone (§12 phase 2): send queries at the rate of a scenario, with outcomes that repeat."""

import hashlib

from simharness.network.model import LinkNetwork
from tests.benchmarks.measuring import Row, Scale, Spread, rounds
from tests.benchmarks.meshes import echo_text, loaded

_PEERS = 50


def sends(scale: Scale) -> list[Row]:
    """Sends a second over a noisy mesh of 2,450 links; two rounds must answer alike."""
    scenario = loaded(echo_text(_PEERS, 1_000_000_000, records=False))
    names = [peer.id for peer in scenario.peers]
    pairs = [(one, other) for one in names for other in names if one != other]
    count = scale.of(200_000, 2_000)
    digests: list[str] = []

    def work() -> None:
        network = LinkNetwork(scenario)
        send = network.send
        digest = hashlib.sha256()
        for step in range(count):
            source, target = pairs[step * 7 % len(pairs)]
            outcome = send(source, target, 64, step * 1_000)
            digest.update(repr(outcome[:2]).encode() if step % 97 == 0 else b"")
        digests.append(digest.hexdigest())

    (times,) = rounds({"sends": work}, scale.of(5, 1)).values()
    assert len(set(digests)) == 1
    return [Row("network alone, noisy links", Spread.over([count / taken for taken in times]).shown(" sends a second"))]

"""SWIM: node-seconds of virtual time a processor second, events recorded."""

from tests.benchmarks.measuring import Row, Scale, Spread, rounds
from tests.benchmarks.meshes import loaded, run_recording, swim_text


def node_seconds(scale: Scale) -> list[Row]:
    """A healthy cluster of 5, 50 and 200 peers, current profile, a snapshot a second."""
    rows = []
    for peers, seconds, count in ((5, 120, 5), (50, 60, 3), (200, 20, 3)):
        virtual_s = scale.of(seconds, 2)
        if scale.tiny and peers > 5:
            continue
        scenario = loaded(swim_text(peers, virtual_s * 10**9))
        (times,) = rounds({"run": lambda scenario=scenario: run_recording(scenario)}, scale.of(count, 1)).values()
        rates = Spread.over([peers * virtual_s / taken for taken in times])
        what = f"SWIM, {peers} peers"
        if peers == 200:
            rows.append(Row.at_least(what, rates, 2_000, 10_000, " node-seconds a second"))
        else:
            rows.append(Row(what, rates.shown(" node-seconds a second")))
    return rows

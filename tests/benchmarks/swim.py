"""SWIM: node-seconds of virtual time a processor second, events recorded."""

from tests.benchmarks.measuring import Row, Scale, Spread, rounds
from tests.benchmarks.meshes import loaded, scratch, swim_text

_UNIT = " node-seconds a second"


def node_seconds(scale: Scale) -> list[Row]:
    """A healthy cluster of 5, 50 and 200 peers, current profile, events recorded."""
    rows = []
    for peers, seconds, count in ((5, 60, 5), (50, 60, 3), (200, 60, 3)):
        if scale.tiny and peers > 5:
            continue
        virtual_s = scale.of(seconds, 2)
        for snapshots in (False, True):
            scenario = loaded(swim_text(peers, virtual_s * 10**9, snapshots=snapshots))
            with scratch() as bundles:
                work = {"run": lambda scenario=scenario, bundles=bundles: bundles.run_recording(scenario)}
                (times,) = rounds(work, scale.of(count, 1)).values()
            rates = Spread.over([peers * virtual_s / max(taken, 1e-9) for taken in times])
            what = f"SWIM, {peers} peers{', a snapshot a second' if snapshots else ''}"
            if peers == 200:
                rows.append(Row.at_least(what, rates, 2_000, 10_000, _UNIT))
            else:
                rows.append(Row(what, rates.shown(_UNIT)))
    return rows

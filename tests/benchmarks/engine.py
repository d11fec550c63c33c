"""The engine against a bare heap loop and against SimPy, with and without recording, and as runs grow."""

from pathlib import Path

from tests.benchmarks.baselines import heap_loop, simpy_mesh
from tests.benchmarks.measuring import Row, Scale, Spread, child, processor_s, ratio, rounds
from tests.benchmarks.meshes import echo_text, loaded, run_dropping, scratch

PEERS = 8
EVENTS_A_SECOND = PEERS * 100 * (1 + 2 * (PEERS - 1))
"""Of virtual time: a tick, a ping to each other peer, its pong, all a hundred times."""


def engine_ratios(scale: Scale) -> list[Row]:
    """Events a second of the same mesh in three hands, in one run."""
    names = [f"p{place}" for place in range(PEERS)]
    duration_ns = scale.of(5_000_000_000, 50_000_000)
    scenario = loaded(echo_text(PEERS, duration_ns, records=False))
    counts = {
        "engine": run_dropping(scenario),
        "heap": heap_loop(names, duration_ns),
        "simpy": simpy_mesh(names, duration_ns),
    }
    times = rounds(
        {
            "engine": lambda: run_dropping(scenario),
            "heap": lambda: heap_loop(names, duration_ns),
            "simpy": lambda: simpy_mesh(names, duration_ns),
        },
        scale.of(7, 1),
    )
    rates = {name: [counts[name] / max(seconds, 1e-9) for seconds in times[name]] for name in times}
    return [
        Row.at_least("engine / bare heap loop, events a second", ratio(rates["engine"], rates["heap"]), 0.25, 0.4),
        Row.at_least("engine / SimPy, events a second", ratio(rates["engine"], rates["simpy"]), 1.0, 1.5),
        *(Row(f"{name}: events a second", Spread.over(rates[name]).shown("")) for name in rates),
    ]


def recording(scale: Scale) -> list[Row]:
    """The same mesh, one event recorded for each receive, with and without a bundle."""
    duration_ns = scale.of(5_000_000_000, 50_000_000)
    silent = loaded(echo_text(PEERS, duration_ns, records=False))
    speaking = loaded(echo_text(PEERS, duration_ns, records=True))
    with scratch() as bundles:
        times = rounds(
            {
                "silent": lambda: run_dropping(silent),
                "dropped": lambda: run_dropping(speaking),
                "written": lambda: bundles.run_recording(speaking),
            },
            scale.of(7, 1),
        )
    return [
        Row.at_most("recording to a bundle / hosts that record nothing", ratio(times["written"], times["silent"]), 2.0),
        Row("recording to a bundle / records dropped", ratio(times["written"], times["dropped"]).shown()),
    ]


def growth(scale: Scale) -> list[Row]:
    """Processor time an event, and peak memory, as a recorded run grows; each size in a process of its own."""
    sizes = [100, 1_000] if scale.tiny else [10_000, 100_000, 1_000_000, *([10_000_000] if scale.huge else [])]
    here = Path.cwd()
    rows, costs = [], []
    for size in sizes:
        spent = [
            child(["-m", "tests.benchmarks.engine", str(size)], here)
            for _ in range(1 if scale.tiny or size > 10**6 else 3)
        ]
        assert all(one.code == 0 for one in spent), spent[0].output
        costs.append(min(float(one.output) for one in spent))
        memory = max(one.memory_mib for one in spent)
        rows.append(Row(f"{size:,} events", f"{costs[-1] * 1e6:.2f} us an event, {memory:,.0f} MiB at most"))
    worst = max(costs) / min(costs)
    rows.append(
        Row(
            f"dearest / cheapest event from {sizes[0]:,} to {sizes[-1]:,}",
            f"{worst:.2f}x",
            "at most 1.3x",
            worst <= 1.3,
        )
    )
    return rows


def _one_size(events: int) -> float:
    """Return the processor seconds an event of one recorded run of about that many events."""
    scenario = loaded(echo_text(PEERS, events * 1_000_000_000 // EVENTS_A_SECOND, records=True))
    with scratch() as bundles:
        bundles.run_recording(loaded(echo_text(PEERS, 20_000_000, records=True)))
        counts: list[int] = []
        return processor_s(lambda: counts.append(bundles.run_recording(scenario))) / counts[0]


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{_one_size(int(sys.argv[1]))}\n")

"""`python -m tests.benchmarks [--huge] [name...]`: prints what things cost, beside their budgets. Asserts nothing about time."""

import sys
from collections.abc import Callable, Sequence

from tests.benchmarks import engine, lifeguard, live, network, peers, processes, swim, training
from tests.benchmarks.measuring import Row, Scale

BENCHMARKS: dict[str, Callable[[Scale], list[Row]]] = {
    "engine": engine.engine_ratios,
    "recording": engine.recording,
    "growth": engine.growth,
    "network": network.sends,
    "swim": swim.node_seconds,
    "lifeguard": lifeguard.lifeguard,
    "check": processes.check,
    "run": processes.run,
    "mesh": processes.large_mesh,
    "live": live.endings,
    "peers": peers.peers,
    "training": training.training,
    "training_growth": training.training_growth,
    "training_sweep": training.training_sweep,
    "training_steady": training.training_steady,
}


def main(names: Sequence[str], scale: Scale) -> None:
    """Run the named benchmarks, or all of them, and print a table of each as it is done."""
    for name in names or BENCHMARKS:
        sys.stdout.write(f"\n{name}: {(BENCHMARKS[name].__doc__ or '').splitlines()[0]}\n")
        for row in BENCHMARKS[name](scale):
            verdict = "" if row.met is None else "met" if row.met else "MISSED"
            sys.stdout.write(f"  {row.what:<58} {row.measured:<46} {verdict:<7} {row.budget}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    wanted = [name for name in arguments if name != "--huge"]
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]}; choose from {', '.join(BENCHMARKS)}")
    main(wanted, Scale(huge="--huge" in arguments))

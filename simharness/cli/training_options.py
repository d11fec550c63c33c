"""The options of `simharness training`, beside the parser of the whole command line."""

import argparse
from collections.abc import Callable
from typing import Final

ACTIONS: Final = ("report", "scenarios", "bench", "crosscheck", "findings")


def add_training(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the world of data-parallel training."""
    training = command("training", "data-parallel training: report, fault scenarios, benchmarks, cross-check, findings")
    training.add_argument("action", choices=ACTIONS, help="what to do")
    training.add_argument(
        "names", nargs="*", metavar="NAME", help="scenario files (scenarios/training), or of findings: one of them"
    )
    training.add_argument("--out", metavar="PLACE", help="report, bench: directory; crosscheck: file for the record")
    training.add_argument("--from", dest="source", metavar="FILE", help="report, crosscheck: from what was recorded")
    training.add_argument("--quick", action="store_true", help="report, bench: fewer schedules and sizes")
    training.add_argument("--no-html", action="store_true", help="report: no page, which needs the extra `report`")
    training.add_argument("--sweep", metavar="FILE", help="report: rows of a sweep, NDJSON")
    training.add_argument("--knobs", metavar="FILE", help="report: the kill table, JSON")
    training.add_argument("--defect", metavar="NAME", action="append", default=[], help="scenarios: switch it on")
    training.add_argument("--without", action="store_true", help="findings: without what was wrong")

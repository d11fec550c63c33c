"""The options of `simharness training`, each of its actions with its own, beside the parser of the whole command line."""

import argparse
from collections.abc import Callable

_SCENARIO = "scenario file, or the bare name of one of scenarios/training (all of those)"


def add_training(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the world of data-parallel training."""
    training = command("training", "data-parallel training: report, fault scenarios, benchmarks, cross-check, findings")
    actions = training.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        found = actions.add_parser(name, help=what, description=what, epilog=training.epilog)
        found.add_argument(  # given before the action, it holds too
            "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object instead of text"
        )
        return found

    report = action("report", "run every schedule under both strategies, measure, and write report.json and index.html")
    report.add_argument("names", nargs="*", metavar="NAME", help=_SCENARIO)
    report.add_argument("--out", metavar="DIR", help="where (.simharness/training)")
    report.add_argument("--from", dest="source", metavar="FILE", help="render this report.json; nothing is run")
    report.add_argument("--quick", action="store_true", help="fewer schedules, seeds and sizes")
    report.add_argument("--no-html", action="store_true", help="no page, which needs the extra `report`")
    report.add_argument("--sweep", metavar="FILE", help="show these rows of a sweep, NDJSON, and run no seeds")
    report.add_argument("--knobs", metavar="FILE", help="show this kill table, JSON")

    scenarios = action("scenarios", "run scenario files, and say of one that fails when it broke")
    scenarios.add_argument("names", nargs="*", metavar="NAME", help=_SCENARIO)
    scenarios.add_argument(
        "--defect", metavar="NAME", action="append", default=[], help="switch it on and guards off, repeatable"
    )

    bench = action("bench", "compute, simulate and measure what a step takes")
    bench.add_argument("--quick", action="store_true", help="fewer sizes")
    bench.add_argument("--out", metavar="DIR", help="write bench.json here")

    crosscheck = action("crosscheck", "compare our arithmetic with PyTorch's DDP, run now (extra `torch`) or recorded")
    crosscheck.add_argument("--out", metavar="FILE", help="record what PyTorch gave")
    crosscheck.add_argument("--from", dest="source", metavar="FILE", help="take what was recorded")

    findings = action("findings", "list what was found wrong, or show one again: exit 1 while its effect is there")
    findings.add_argument("names", nargs="*", metavar="NAME", help="a finding to show again")
    findings.add_argument("--without", action="store_true", help="show it without what was wrong")

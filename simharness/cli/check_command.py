"""`simharness check`: validate and say so."""

import argparse

from simharness.cli.main import PASSED
from simharness.core import canonical_json
from simharness.core.errors import Problem, ScenarioError
from simharness.hosts.kinds import Kinds
from simharness.scenario.loader import load
from simharness.scenario.words import printable


def run(args: argparse.Namespace) -> int:
    """Validate every file; report the mistakes of all of them together."""
    kinds = Kinds()
    reports, problems = [], list[Problem]()
    for file in args.files:
        try:
            scenario = load(file, kinds).scenario
        except ScenarioError as error:
            problems += error.problems
            continue
        counts = {
            "peers": len(scenario.peers),
            "relays": len(scenario.relays),
            "mutations": len(scenario.mutations),
            "snapshots": len(scenario.snapshots),
            "assertions": len(scenario.assertions),
        }
        shown = printable(file)
        reports.append({"file": shown, "name": scenario.name, "seed": scenario.seed, **counts})
        if not args.json:
            print(f"ok  {shown}  " + "  ".join(f"{count} {what}" for what, count in counts.items()))
    if problems:
        raise ScenarioError(problems)
    if args.json:
        print(canonical_json.pretty({"files": reports}).decode())
    return PASSED

"""`simharness diff`: the first line in which two bundles differ."""

import argparse
from pathlib import Path

from simharness.bundle.diff import first_divergence
from simharness.bundle.manifest import sha256_hex
from simharness.bundle.places import SCENARIO
from simharness.bundle.reader import Bundle
from simharness.cli import show
from simharness.cli.main import FAILED, PASSED


def run(args: argparse.Namespace) -> int:
    """Compare two bundles; exit 1 if they differ."""
    found = first_divergence(_described(args.first), _described(args.second), args.context)
    if args.json:
        show.print_json({"equal": found is None, "divergence": None if found is None else found._asdict()})
    elif found is None:
        print("events, snapshots and verdicts are equal")
    else:
        show.print_divergence(found, args.first, args.second)
    return PASSED if found is None else FAILED


def _described(path: str) -> Bundle:
    """Return a bundle whose manifest can be read and is its scenario's. Events are what is compared: they may be edited."""
    bundle = Bundle(Path(path))
    if sha256_hex(bundle.scenario_text.encode()) != bundle.manifest["scenario_sha256"]:
        raise bundle.malformed(SCENARIO, "scenario_sha256", "the file and its hash in the manifest do not agree")
    return bundle

"""`simharness diff`: the first line in which two bundles differ."""

import argparse
from pathlib import Path

from simharness.bundle.diff import first_divergence
from simharness.bundle.reader import Bundle
from simharness.cli import show
from simharness.cli.main import FAILED, PASSED


def run(args: argparse.Namespace) -> int:
    """Compare two bundles; exit 1 if they differ."""
    found = first_divergence(Bundle(Path(args.first)), Bundle(Path(args.second)), args.context)
    if args.json:
        show.print_json({"equal": found is None, "divergence": None if found is None else found._asdict()})
    elif found is None:
        print("events, snapshots and verdicts are equal")
    else:
        show.print_divergence(found, args.first, args.second)
    return PASSED if found is None else FAILED

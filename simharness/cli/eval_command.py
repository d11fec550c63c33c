"""`simharness eval`: judge a bundle again."""

import argparse

from simharness.assertions.post_run import write_verdicts
from simharness.cli import show
from simharness.cli.bundles import opened
from simharness.scenario.words import printable


def run(args: argparse.Namespace) -> int:
    """Check the bundle's hashes, evaluate its assertions, rewrite `verdicts.json`."""
    bundle = opened(args.bundle)
    before = bundle.verdicts
    verdicts = write_verdicts(bundle)
    changed = before is not None and before != bundle.verdicts
    if args.json:
        show.print_json({"bundle": printable(args.bundle), "changed": changed, "verdicts": show.plain(verdicts)})
    else:
        show.print_verdicts(verdicts, show.quotes(verdicts, bundle))
        if changed:
            print("the verdicts differ from those that stood in the bundle")
    return show.exit_code(verdicts)

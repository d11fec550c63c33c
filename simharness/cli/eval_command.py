"""`simharness eval`: judge a bundle again."""

import argparse
from typing import Any

from simharness.assertions.post_run import write_verdicts
from simharness.bundle.reader import Bundle
from simharness.cli import show
from simharness.cli.bundles import opened
from simharness.core.errors import InputError
from simharness.scenario.words import printable


def run(args: argparse.Namespace) -> int:
    """Check the bundle's hashes, evaluate its assertions, rewrite `verdicts.json`."""
    bundle = opened(args.bundle)
    before, readable = _standing(bundle)
    verdicts = write_verdicts(bundle)
    changed = not readable or (before is not None and before != bundle.verdicts)
    if args.json:
        show.print_json({"bundle": printable(args.bundle), "changed": changed, "verdicts": show.plain(verdicts)})
    else:
        show.print_verdicts(verdicts, show.quotes(verdicts, bundle))
        if not readable:
            print("the verdicts replace a verdicts.json that could not be read")
        elif changed:
            print("the verdicts differ from those that stood in the bundle")
    return show.exit_code(verdicts)


def _standing(bundle: Bundle) -> tuple[list[dict[str, Any]] | None, bool]:
    """Return the verdicts that stand in the bundle, if any, and whether they can be read: they are replaced in either case."""
    try:
        return bundle.verdicts, True
    except InputError:
        return None, False

"""`simharness export`: a bundle in another form."""

import argparse
from pathlib import Path

from simharness.bundle.production.export import export
from simharness.bundle.production.opening import open_bundle
from simharness.cli import show
from simharness.cli.main import PASSED
from simharness.scenario.words import printable


def run(args: argparse.Namespace) -> int:
    """Check the bundle's hashes and write the archive."""
    written = export(open_bundle(Path(args.bundle)), Path(args.out))
    archive = printable(str(written.archive))
    if args.json:
        show.print_json(written._asdict() | {"archive": archive})
    else:
        print(f"archive      {archive}")
        print(f"sha256       {written.sha256}")
        print(
            f"holds        {written.nodes} nodes, {written.typed} typed and {written.custom} custom events, "
            f"{written.derived} derived ones, {written.snapshots} snapshots"
        )
        for text in written.substitutions:
            print(f"substitutes  {text}")
    return PASSED

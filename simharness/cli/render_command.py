"""`simharness render`: what production's post-processor makes of a run."""

import argparse
from pathlib import Path

from simharness.bundle.production.opening import open_capture
from simharness.bundle.render.rendering import render
from simharness.cli import show
from simharness.cli.main import PASSED
from simharness.scenario.words import printable


def run(args: argparse.Namespace) -> int:
    """Read a bundle or an archive and write its summary and tables; name the record types that no schema knows."""
    capture = open_capture(Path(args.source))
    rendered = render(capture, Path(args.out), args.node)
    place = printable(str(rendered.directory))
    if args.json:
        unknown = dict(capture.unknown_types)
        show.print_json({"source": printable(args.source), "out": place, "files": rendered.files, "unknown": unknown})
        return PASSED
    print(f"rendered     {place}  {show.count(len(rendered.files), 'file')}")
    for name, count in capture.unknown_types.items():
        print(f"unknown      {printable(name)} x {count}: not a type of production's schema, passed through")
    return PASSED

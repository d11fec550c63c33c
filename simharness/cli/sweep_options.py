"""The options that only `simharness sweep training` has."""

import argparse
from collections.abc import Callable


def add_training(sweep: argparse.ArgumentParser, *, count: Callable[[str], int]) -> None:
    """Add them; `count` reads a small positive number."""
    only = "training: only this one, repeatable (all)"
    sweep.add_argument("--strategy", metavar="NAME", action="append", default=[], help=only)
    sweep.add_argument("--policy", metavar="NAME", action="append", default=[], help=only)
    sweep.add_argument("--max-workers", type=count, metavar="N", help="training: at most so many workers (12)")
    sweep.add_argument("--twice", action="store_true", help="training: run every case twice and compare the digests")
    sweep.add_argument("--trace", action="store_true", help="training: print the timeline of the one case")
    sweep.add_argument("--emit", metavar="FILE", help="training: write the scenario of the one case")

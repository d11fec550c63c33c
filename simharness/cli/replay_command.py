"""`simharness replay`: run a bundle's scenario again and compare."""

import argparse
import tempfile
from pathlib import Path

from simharness.bundle.diff import first_divergence
from simharness.bundle.digest import bundle_digest
from simharness.bundle.reader import Bundle
from simharness.cli import progress, show
from simharness.cli.bundles import opened
from simharness.cli.main import FAILED, PASSED
from simharness.core.errors import InputError
from simharness.core.limits import UNLIMITED
from simharness.hosts.kinds import Kinds
from simharness.run import defects_of, run_to_bundle
from simharness.scenario.loader import load


def run(args: argparse.Namespace) -> int:
    """Replay into a scratch directory; exit 1 if the digests differ, and show the first divergence."""
    original = opened(args.bundle)
    if original.manifest["termination"].get("source") == "live":
        rule = (
            "a live run has no second time; `simharness run` simulates its scenario. The two always differ, since no clock is "
            "that exact: `simharness calibrate --live` says whether they are alike"
        )
        raise InputError(file=str(original.root.joinpath("manifest.json")), field="termination.source", rule=rule)
    if original.manifest["termination"].get("reason") == "aborted":
        rule = "this bundle is partial: its run was broken off, and a replay would go on to the end; `simharness run` runs it"
        raise InputError(file=str(original.root.joinpath("manifest.json")), field="termination.reason", rule=rule)
    recorded = bundle_digest(original.root)
    kinds = Kinds()
    loaded = load(original.root.joinpath("scenario.toml"), kinds)
    if not args.json:
        show.print_defects(defects_of(loaded.scenario))
    with tempfile.TemporaryDirectory(prefix="simharness-replay-") as scratch:
        result = run_to_bundle(loaded, Path(scratch, "bundle"), kinds, drive=progress.finish, limits=UNLIMITED)
        same = result.digest == recorded
        found = None if same else first_divergence(original, Bundle(result.bundle), context=3)
    if args.json:
        divergence = None if found is None else found._asdict()
        show.print_json({"equal": same, "recorded": recorded, "replayed": result.digest, "divergence": divergence})
    elif same:
        print(f"replayed to the same digest {recorded}")
    else:
        assert found is not None, "digests differ only where some file does"
        show.print_divergence(found, "recorded", "replayed")
    return PASSED if same else FAILED

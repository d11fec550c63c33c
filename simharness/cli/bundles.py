"""Opening bundles that the command line names."""

from pathlib import Path

from simharness.bundle.reader import Bundle
from simharness.core.errors import RefusedError


def opened(path: str) -> Bundle:
    """Return the bundle at `path`, its hashes checked.

    Raises:
        RefusedError: If it is no bundle, or a file differs from its hash in the manifest.
    """
    bundle = Bundle(Path(path))
    problems = bundle.verify()
    if problems:
        raise RefusedError(problems)
    return bundle

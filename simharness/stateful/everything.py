"""Imports the whole package, so that what Hypothesis sees of it does not depend on which test runs first.

Hypothesis takes constants from imported modules into some of its draws. Our own strategies are closed to that; a `@given` test
over plain integers is not, and a worker that runs half of the tests would see half of the constants.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages


def import_everything() -> tuple[str, ...]:
    """Import every module of the package; return the names of those whose optional dependency is not installed."""
    missing: list[str] = []
    package = find_spec("simharness")
    assert package is not None
    for found in walk_packages(package.submodule_search_locations, "simharness.", onerror=missing.append):
        if found.name.endswith(".__main__"):
            continue
        try:
            import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == "simharness" or find_spec(error.name) is not None:
                raise
            missing.append(found.name)
    return tuple(missing)

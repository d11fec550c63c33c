"""Loads a scenario: read the chain, merge, check everything, build (§8). Reads files and does nothing else."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import NamedTuple

from simharness.contracts.host import KindRegistry
from simharness.contracts.scenario import Scenario
from simharness.scenario.build import Reconfigure, build
from simharness.scenario.document import merge
from simharness.scenario.extends import FIELD, extends_of, read_chain, relative_to_tree, tree_of
from simharness.scenario.groups import tables_in
from simharness.scenario.reading import SourceFile, parse, refuse


class Source(NamedTuple):
    """One file that a scenario was read from."""

    path: str
    """Relative to the scenario tree, with forward slashes."""
    sha256: str
    """Of the bytes of the file, in hexadecimal."""


class Loaded(NamedTuple):
    """A scenario and where it came from (ruling B5)."""

    scenario: Scenario
    sources: tuple[Source, ...]
    """The file itself, its base, the base of that, and so on."""

    @property
    def scenario_path(self) -> str:
        """The path of the file itself, relative to the scenario tree."""
        return self.sources[0].path


def load(
    path: str | os.PathLike[str],
    kinds: KindRegistry,
    *,
    seed: int | None = None,
    reconfigure: Reconfigure | None = None,
) -> Loaded:
    """Load a scenario file with everything it extends.

    Args:
        path: The file. Its scenario tree, which no base may leave, is the nearest ancestor directory named `scenarios`,
            else its own directory (ruling L16).
        kinds: The host kinds, which validate their own `kind_config`.
        seed: Replaces the seed of the file.
        reconfigure: Pure function of a peer's kind and raw `kind_config` (its kind's table merged in) to the one to use instead,
            before validation.

    Raises:
        ScenarioError: With every independent mistake (ruling L17).
    """
    chain = read_chain(os.fspath(path))
    scenario = _validated(chain, kinds, seed, reconfigure)
    tree = tree_of(chain[0].real)
    return Loaded(scenario, tuple(Source(relative_to_tree(file.real, tree), file.sha256) for file in chain))


def loads(
    text: str,
    kinds: KindRegistry,
    *,
    name: str = "(text)",
    seed: int | None = None,
    reconfigure: Reconfigure | None = None,
) -> Scenario:
    """Load a scenario from TOML text, which cannot extend a file. `name` stands for the file in messages; see `load`.

    Raises:
        ScenarioError: With every independent mistake.
    """
    file = SourceFile(shown=name, real="", sha256="", table=parse(text, name))
    if extends_of(file) is not None:
        raise refuse(name, FIELD, "a scenario that is not a file cannot extend one")
    return _validated((file,), kinds, seed, reconfigure)


def _validated(
    chain: Sequence[SourceFile], kinds: KindRegistry, seed: int | None, reconfigure: Reconfigure | None
) -> Scenario:
    try:
        with redirect_stdout(sys.stderr):  # kinds are foreign code, and may print (ruling C9)
            document = merge(chain, tables_in(chain, kinds))
            if seed is not None:
                document.override("seed", seed, "(option)")
            return build(document, kinds, reconfigure)
    except RecursionError:
        raise refuse(chain[0].shown, "(root)", "nested too deeply") from None

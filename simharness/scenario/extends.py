"""The chain of files that `[base] extends` names (§8.1, rulings L4, L16)."""

import os
import stat

from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.reading import SourceFile, read_file, refuse
from simharness.scenario.words import key_shown, printable, shown, type_word, unknown

FIELD = "base.extends"


def tree_of(real: str) -> str:
    """Return the scenario tree of a file: the nearest ancestor directory named `scenarios`, else its own directory."""
    own = folder = os.path.dirname(real)  # noqa: PTH120
    while os.path.basename(folder) != "scenarios":  # noqa: PTH119
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return own
        folder = above
    return folder


def relative_to_tree(real: str, tree: str) -> str:
    """Return a path relative to the scenario tree, with forward slashes; bytes that are not UTF-8 are escaped.

    The locale has no say in how the name is decoded: the path goes into the manifest.
    """
    return os.fsencode(os.path.relpath(real, tree).replace(os.sep, "/")).decode(errors="backslashreplace")


def read_chain(path: str) -> tuple[SourceFile, ...]:
    """Read a file and all it extends: the file first, its base next, and so on.

    Raises:
        ScenarioError: If a file cannot be read or parsed, leaves the tree, or the chain comes back to itself.
    """
    chain = [read_file(os.path.realpath(path), printable(path))]
    tree = tree_of(chain[0].real)
    while (wanted := extends_of(chain[-1])) is not None:
        child = chain[-1]
        if "\0" in wanted or "://" in wanted or not wanted:
            raise refuse(child.shown, FIELD, f"{shown(wanted)} is not the path of a file")
        folder = os.path.dirname(child.real)  # noqa: PTH120
        real = os.path.realpath(os.path.join(folder, wanted))  # noqa: PTH118
        _check_base(child, wanted, real, tree)
        visited = [file.real for file in chain]
        name = printable(os.path.normpath(os.path.join(os.path.dirname(child.shown), wanted)))  # noqa: PTH118, PTH120
        if real in visited:
            loop = [file.shown for file in chain[visited.index(real) :]]
            raise refuse(child.shown, FIELD, f"extends itself: {' -> '.join([*loop, loop[0]])}")
        chain.append(_read_base(real, name, child))
    return tuple(chain)


def extends_of(file: SourceFile) -> str | None:
    """Return what `[base] extends` of a file names, or None.

    Raises:
        ScenarioError: If `[base]` is not a table of that one string.
    """
    base = file.table.get("base", {})
    if not isinstance(base, dict):
        raise refuse(file.shown, "base", f"must be a table, not {type_word(base)}")
    problems = [
        Problem(file.shown, f"base.{key_shown(key)}", unknown("field", key, ("extends",)))
        for key in base
        if key != "extends"
    ]
    if problems:
        raise ScenarioError(problems)
    wanted = base.get("extends")
    if wanted is not None and not isinstance(wanted, str):
        raise refuse(file.shown, FIELD, f"must be a string, not {type_word(wanted)}")
    return wanted


def _check_base(child: SourceFile, wanted: str, real: str, tree: str) -> None:
    """Refuse a base outside the tree before looking at it, and one that is no regular file before opening it."""
    if os.path.commonpath([real, tree]) != tree:
        raise refuse(child.shown, FIELD, f"{shown(wanted)} leaves the scenario tree {printable(tree)}")
    try:
        mode = os.stat(real).st_mode  # noqa: PTH116
    except OSError as error:
        raise refuse(child.shown, FIELD, f"{shown(wanted)} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise refuse(child.shown, FIELD, f"{shown(wanted)} is not a regular file")


def _read_base(real: str, name: str, child: SourceFile) -> SourceFile:
    """Read a base; its refusal names the file that extends it as well."""
    try:
        return read_file(real, name)
    except ScenarioError as error:
        raise ScenarioError(
            Problem(problem.file, problem.field, f"{problem.rule} (extended by {child.shown})")
            for problem in error.problems
        ) from None

"""Where two bundles part: the first difference, with what stands before and after it."""

from collections import deque
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import NamedTuple

from simharness.bundle.places import EVENTS, VERDICTS
from simharness.bundle.reader import Bundle


class Divergence(NamedTuple):
    """The first difference of two bundles. A side that ended before it has no lines left."""

    place: str
    """`<file>:<0-based line>`."""
    before: tuple[str, ...]
    """The last lines that both have."""
    left: tuple[str, ...]
    right: tuple[str, ...]
    """The differing line of each side and what follows it."""


def first_divergence(left: Bundle, right: Bundle, context: int = 3) -> Divergence | None:
    """Return the first difference of two bundles, or None if events, snapshots and verdicts are the same bytes.

    Events are compared first, then snapshots in path order, then verdicts: what the bundle digest covers.

    Raises:
        InputError: If a bundle cannot be read.
    """
    found = _compare(EVENTS, left.lines(), right.lines(), context)
    paths = sorted(dict.fromkeys((*left.snapshot_paths(), *right.snapshot_paths())))
    for path in (*paths, VERDICTS):
        found = found or _compare(path, _file_lines(left, path), _file_lines(right, path), context)
    return found


def _compare(path: str, left: Iterator[bytes], right: Iterator[bytes], context: int) -> Divergence | None:
    before: deque[bytes] = deque(maxlen=context)
    for number, (ours, theirs) in enumerate(zip_longest(left, right)):
        if ours != theirs:
            here, there = _rest(ours, left, context), _rest(theirs, right, context)
            return Divergence(f"{path}:{number}", _text(before), _text(here), _text(there))
        before.append(ours)
    return None


def _rest(line: bytes | None, following: Iterator[bytes], context: int) -> list[bytes]:
    return [] if line is None else [line, *islice(following, context)]


def _file_lines(bundle: Bundle, path: str) -> Iterator[bytes]:
    file = bundle.root.joinpath(path)
    return iter(file.read_bytes().splitlines(keepends=True) if file.is_file() else ())


def _text(lines: deque[bytes] | list[bytes]) -> tuple[str, ...]:
    return tuple(line.decode(errors="replace").removesuffix("\n") for line in lines)

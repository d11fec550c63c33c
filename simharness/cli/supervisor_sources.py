"""The sources that a verdict about the job supervisor rests on, as one digest."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_ROOMS: Final = ("systems/supervisor", "supervisor", "disk")


def source_digest() -> str:
    """Return the SHA-256 over names and contents of every module of system, world and disk."""
    whole = sha256()
    for name, data in _sources():
        whole.update(f"{name} {len(data)}\n".encode() + data)
    return whole.hexdigest()


def _sources() -> Iterator[tuple[str, bytes]]:
    for room in _ROOMS:
        for path in sorted(_PACKAGE.joinpath(room).rglob("*.py")):
            yield path.relative_to(_PACKAGE).as_posix(), path.read_bytes()

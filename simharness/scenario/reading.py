"""One file to one TOML table. Every way in which that can fail is one structured `Problem` (§8.2, rulings L12, L18).

The language is TOML 1.0, as the standard library reads it; where that library learns a later version, so does this.
"""

import hashlib
import os
import stat
import tomllib
from typing import Any, Final, NamedTuple

from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.words import first_line

MAX_FILE_BYTES: Final = 64 * 2**20
"""Largest scenario file that is read (ruling L18)."""

_BOM_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


class SourceFile(NamedTuple):
    """One file of an `extends` chain, parsed and nothing more."""

    shown: str
    """The name that messages use."""
    real: str
    """Absolute path with symbolic links resolved."""
    sha256: str
    table: dict[str, Any]


def refuse(file: str, field: str, rule: str) -> ScenarioError:
    """Return the refusal of a file for one reason."""
    return ScenarioError([Problem(file, field, rule)])


def read_file(real: str, shown: str) -> SourceFile:
    """Read and parse one file.

    Raises:
        ScenarioError: Field `(io)` if it is not a readable regular file of at most 64 MiB, `(root)` if it is not TOML.
    """
    raw = _read_bytes(real, shown)
    return SourceFile(shown, real, hashlib.sha256(raw).hexdigest(), parse(_decode(raw, shown), shown))


def _read_bytes(real: str, shown: str) -> bytes:
    try:
        about = os.stat(real)  # noqa: PTH116  # before opening: opening a FIFO would block (ruling L16)
        if not stat.S_ISREG(about.st_mode):
            raise refuse(shown, "(io)", "not a regular file")
        if about.st_size > MAX_FILE_BYTES:
            raise refuse(shown, "(io)", f"{about.st_size} bytes; a scenario file has at most {MAX_FILE_BYTES}")
        with open(real, "rb") as file:  # noqa: PTH123
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise refuse(shown, "(io)", f"cannot be read: {first_line(error.strerror or str(error))}") from None


def _decode(raw: bytes, shown: str) -> str:
    if raw.startswith(_BOM_UTF16):
        raise refuse(shown, "(root)", "is UTF-16 text (byte order mark); save the file as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte, place = raw[error.start], error.start
        raise refuse(shown, "(root)", f"is not UTF-8 text: byte 0x{byte:02x} at offset {place}") from None


def parse(text: str, shown: str) -> dict[str, Any]:
    """Parse TOML text.

    Raises:
        ScenarioError: Field `(root)`, with the first line of what the parser says; also for text without any key.
    """
    if text.startswith("\ufeff"):
        raise refuse(shown, "(root)", "starts with a UTF-8 byte order mark (BOM); save the file without one")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse(shown, "(root)", f"not TOML: {first_line(str(error))}") from None
    except RecursionError:
        raise refuse(shown, "(root)", "nested too deeply") from None
    except ValueError:  # Python's own limit on the length of a decimal number
        raise refuse(shown, "(root)", "an integer is too long; seeds, times and sizes are 0 to 2**64-1 (u64)") from None
    if not table:
        raise refuse(shown, "(root)", "holds no key; a scenario needs at least name, seed, duration_ns and peers")
    return table

"""The load-bearing artefacts of §14 and their pins.

`python -m tests.pin_artefacts` writes the present SHA-256 of each into tests/relaxations.toml and prints what changed.
"""

import hashlib
import sys
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
PINS: Final = Path(__file__).with_name("relaxations.toml")
WATCHED: Final = (
    "tests/tidy/*.py",
    "tests/tidy/*.toml",
    "tests/tidy/planted/*.txt",
    "tests/layers.toml",
    "tests/test_layers.py",
    "tests/spec_index.toml",
    "tests/test_spec_index.py",
    "tests/test_tidy.py",
    "tests/test_relaxations.py",
    "tests/pin_artefacts.py",
    "tests/**/*digests*.toml",
    "tests/**/*tolerances*.toml",
    "simharness/**/*tolerances*.toml",
    "scenarios/**/*digests*.toml",
    "scenarios/parity/*.toml",
    "properties/exemptions.toml",
    "properties/explanations.toml",
)
"""Checker, table, exemptions; layers; spec index; digests; tolerances. A pattern may match nothing yet."""

_HEAD: Final = """\
# The load-bearing artefacts that enforce the spec (§14). `values` are published constants that some test must assert, to the
# letter. `files` are pinned by SHA-256; `python -m tests.pin_artefacts` refreshes them. A change that relaxes a contract (a
# widened tolerance, a removed assertion, a rule taken off a room, an exemption, another digest) is a commit of its own whose
# subject names the relaxation and whose body justifies it. A tightening may land in any commit.
"""


class Pins(NamedTuple):
    """What tests/relaxations.toml holds: constants by name, and SHA-256 by path."""

    values: dict[str, str]
    files: dict[str, str]


def load_pins() -> Pins:
    """Read the checked-in pins."""
    return Pins(**tomllib.loads(PINS.read_text("utf-8")))


def artefacts() -> dict[str, str]:
    """Return path -> SHA-256 of every watched file, in path order."""
    paths = sorted({path for pattern in WATCHED for path in ROOT.glob(pattern)})
    return {path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def differences(pinned: dict[str, str], present: dict[str, str]) -> list[str]:
    """Return what changed, was added or went away, one line each."""
    names = sorted(pinned.keys() | present.keys())
    words = {name: _change(pinned.get(name), present.get(name)) for name in names}
    return [f"{name} {word}" for name, word in words.items() if word]


def _change(pinned: str | None, present: str | None) -> str:
    if pinned == present:
        return ""
    return "is new" if pinned is None else "is gone" if present is None else "has changed"


def main() -> None:
    """Refresh the file pins; values are edited by hand."""
    pins, present = load_pins(), artefacts()
    lines = [_HEAD, "[values]", *(f'{name} = "{value}"' for name, value in pins.values.items())]
    lines += ["", "[files]", *(f'"{name}" = "{digest}"' for name, digest in present.items()), ""]
    PINS.write_text("\n".join(lines), "utf-8")
    for line in differences(pins.files, present):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()

"""Names of output that nobody named: they follow from where the scenario file lies (rulings C1, C3)."""

import hashlib
import re
from pathlib import Path
from typing import Final

_LOSSY: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]*")
_SCENARIOS: Final = "scenarios"
_LONGEST: Final = 120
_DIGITS: Final = 8


def place_name(parts: tuple[str, ...]) -> str:
    """Return a directory name for the path of a file: `-` between its parts, `_` for whatever is unusual, no suffix."""
    return _LOSSY.sub("_", "-".join(Path(*parts).with_suffix("").parts))


def default_name(file: str) -> str:
    """Return the name for a scenario file: its path below the working directory, without a leading `scenarios`.

    A name that another file could have too ends in the first digits of the SHA-256 of the file's whole path: so no two files share
    one.
    """
    real, here = Path(file).resolve(), Path.cwd()
    below = real.is_relative_to(here)
    parts = real.relative_to(here).parts if below else real.parts[-2:]
    in_tree = below and len(parts) > 1 and parts[0] == _SCENARIOS
    parts = parts[1:] if in_tree else parts
    name = place_name(parts).lstrip(".-") or _SCENARIOS
    plain = below and len(name) <= _LONGEST and all(_PLAIN.fullmatch(part) for part in parts)
    if plain and real.suffix == ".toml" and (in_tree or not here.joinpath(_SCENARIOS, *parts).exists()):
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(str(real).encode(errors='surrogateescape')).hexdigest()[:_DIGITS]}"

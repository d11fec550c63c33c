"""The files that minimising writes: how they are known again, and the command that shows how they fail."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_OURS: Final = re.compile(rb"# [^\n]*\n#\n# reproduces: invariant [^\n]*, minimised\n")


def is_minimised(data: bytes) -> bool:
    """Tell whether a file is one that minimising wrote."""
    return _OURS.match(data) is not None


def replay_line(place: Path, defects: Sequence[str]) -> str:
    """Return the command that shows how a minimised file fails: its scenario has no defect, and passes under `run`."""
    words = [word for name in defects for word in ("--defect", name)]
    return shlex.join(["simharness", "supervisor", "replay", "--from", str(place), *words])

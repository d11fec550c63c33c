"""Where things lie in the collector's layout, and how large they may be."""

import re
from typing import Any, Final, TypeGuard

MANIFEST: Final = "MANIFEST.json"
BOOT: Final = "boot.json"
FINALIZE: Final = "finalize.json"
EVENTS: Final = "events"
SNAPSHOTS: Final = "snapshots"
EXACT: Final = "exact"
"""What production's form has no field for, file by file beside `events/`, and once for all snapshots. Production skips it."""
EXACT_SNAPSHOTS: Final = "snapshots.json"

LONGEST_FILE: Final = 64 * 2**20
"""Bytes of one file at most."""
LONGEST_ARCHIVE: Final = 2**30
"""Bytes of an archive at most, unpacked: it is read into memory."""
MOST_FILES: Final = 1_000_000

_LABEL: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")
LABEL_RULE: Final = "a label is 1 to 128 characters of A-Z a-z 0-9 . _ - and does not start with a dot"


def is_label(text: Any) -> TypeGuard[str]:
    """Tell whether `text` may name a node's directory, and files that are named after it."""
    return isinstance(text, str) and _LABEL.fullmatch(text) is not None


def events_name(batch: int) -> str:
    """Return the name of an event file; batches count from 1."""
    return f"events-{batch:06}.json"


def snapshot_name(number: int) -> str:
    """Return the name of a snapshot file; numbers count from 1."""
    return f"snapshot-{number:06}.json"

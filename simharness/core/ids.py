"""Identifiers of peers and relays (§5.1, ruling L9)."""

import re
from typing import Final, NewType

HostId = NewType("HostId", str)
"""A peer of the scenario. Sorts lexicographically (§7.3)."""

RelayId = NewType("RelayId", str)
"""A relay. Shares one namespace with `HostId` (§5A)."""

ID_RULE: Final = "an id is 1 to 64 characters of A-Z a-z 0-9 . _ - and does not start with a dot"
_ID: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}")


def is_valid_id(text: str) -> bool:
    """Tell whether `text` may name a peer or a relay; ids become directory names (ruling L9)."""
    return _ID.fullmatch(text) is not None

"""The form of a record on disk: one file a batch, each chained to the one before (§8.2 of the design), and the tombstone."""

import hashlib
from typing import Final

import msgspec

from simharness.systems.supervisor.events import Batch, JobDeclared, OutcomeState, encode_batch

TOMBSTONE: Final = "TOMB"
RECORD: Final = "r"
"""First letter of a batch's file; its version in six digits or more follows."""

TEMPORARY: Final = "t"
"""First letter of a file that is no record yet."""

GENESIS: Final = ""
"""What the first batch is chained to."""


class RecordCorrupt(Exception):  # noqa: N818 - the design's word: a verdict on a record, not an error of ours
    """A record that must not be acted upon: where, and which rule it breaks."""

    def __init__(self, *, file: str, rule: str) -> None:
        super().__init__(f"file: {file}\nrule: {rule}")
        self.file, self.rule = file, rule


class RecordForeign(RecordCorrupt):
    """A record in order, but another job's."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file: batch, its digest, its mutation id, the digest before."""

    e: Batch
    h: str
    m: str
    p: str


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stays of a record that was pruned. `head`: digest of its last batch."""

    job: str
    version: int
    head: str
    outcome: OutcomeState


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_ENTRIES: Final = msgspec.json.Decoder(Entry)
_TOMBSTONES: Final = msgspec.json.Decoder(Tombstone)


def record_name(version: int) -> str:
    """Return the name of the file of a version, counted from 1."""
    return f"{RECORD}{version:06}"


def version_of(name: str) -> int | None:
    """Return the version whose file has this name, or None if it is no batch's name."""
    digits = name.removeprefix(RECORD)
    if not (digits.isascii() and digits.isdecimal()):
        return None
    version = int(digits)
    return version if record_name(version) == name and version > 0 else None


def temporary_name(mutation_id: str) -> str:
    """Return the name under which a batch is written: a mutation's own, so that nothing is ever written into a linked file."""
    return f"{TEMPORARY}-{mutation_id.replace('#', '-')}"


def chain(previous: str, batch: Batch, mutation_id: str) -> Entry:
    """Return the entry of a batch that follows the one of digest `previous`."""
    digest = hashlib.blake2b(previous.encode(), digest_size=16)
    digest.update(encode_batch(batch))
    digest.update(mutation_id.encode())
    return Entry(e=batch, h=digest.hexdigest(), m=mutation_id, p=previous)


def encode_entry(entry: Entry) -> bytes:
    """Return the content of an entry's file: canonical JSON."""
    return _ENCODER.encode(entry)


def decode_entry(name: str, data: bytes) -> Entry:
    """Return an entry as its file says it.

    Raises:
        RecordCorrupt: If the file is not JSON of the schema.
    """
    try:
        return _ENTRIES.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordCorrupt(file=name, rule="a batch is one JSON object of the record's schema") from None


def verify_entry(name: str, data: bytes, entry: Entry, previous: str) -> None:
    """Check that a file is, to the byte, the one that followed `previous` when it was written (R17).

    Raises:
        RecordCorrupt: If it is not.
    """
    if entry.p != previous:
        raise RecordCorrupt(file=name, rule="a batch names the digest of the batch before it")
    if encode_entry(chain(previous, entry.e, entry.m)) != data:
        raise RecordCorrupt(file=name, rule="a batch's bytes are canonical and match its digest")


def check_owner(name: str, entry: Entry, job: str) -> None:
    """Check that the first batch declares this job.

    Raises:
        RecordForeign: If it declares another.
        RecordCorrupt: If it declares none.
    """
    first = entry.e[0] if entry.e else None
    if not isinstance(first, JobDeclared):
        raise RecordCorrupt(file=name, rule="a record begins with its job's declaration")
    if first.job != job:
        raise RecordForeign(file=name, rule=f"the directory holds the record of job {first.job}, not of {job}")


def encode_tombstone(tombstone: Tombstone) -> bytes:
    """Return the content of the tombstone's file."""
    return _ENCODER.encode(tombstone)


def check_tombstone(data: bytes, job: str) -> Tombstone:
    """Return the tombstone of a record.

    Raises:
        RecordCorrupt: If the file is none.
        RecordForeign: If it is another job's.
    """
    try:
        tombstone = _TOMBSTONES.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RecordCorrupt(file=TOMBSTONE, rule="a tombstone is one JSON object of its schema") from None
    if tombstone.job != job:
        rule = f"the directory holds the tombstone of job {tombstone.job}, not of {job}"
        raise RecordForeign(file=TOMBSTONE, rule=rule)
    return tombstone

"""Reading bundles (§9). Lines end at byte 0x0A and nowhere else (ruling B10); whatever is malformed is an `InputError`."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from heapq import merge
from pathlib import Path
from typing import Any, NamedTuple

from simharness.bundle.manifest import sha256_hex
from simharness.bundle.places import EVENTS, MANIFEST, SCENARIO, SNAPSHOTS, VERDICTS, put_file, structured_io
from simharness.core.canonical_json import parse
from simharness.core.errors import InputError, Problem
from simharness.core.units import U64_MAX


class EventLine(NamedTuple):
    """One line of `events.ndjson`; `line` counts from 0."""

    line: int
    virtual_time_ns: int
    host_id: str | None
    kind_tag: str
    event: dict[str, Any]


class SnapshotFile(NamedTuple):
    """One file of `snapshots/<host_id>/<number>.json`."""

    virtual_time_ns: int
    host_id: str
    number: int
    kind_tag: str
    snapshot: dict[str, Any]


class Bundle:
    """A bundle directory. Nothing is read before it is asked for.

    Raises:
        InputError: If `root` is not a directory; from every member, if the file it reads is missing or malformed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        if not root.is_dir():
            raise InputError(file=str(root), field="(root)", rule="a bundle is a directory")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, its hashes checked for form only."""
        value = self._json(MANIFEST)
        manifest: dict[str, Any] = self._typed(value, dict, MANIFEST, "(root)")
        hashes = self._typed(manifest.get("snapshot_sha256"), dict, MANIFEST, "snapshot_sha256")
        self._typed(manifest.get("termination"), dict, MANIFEST, "termination")
        for name in ("scenario_sha256", "events_ndjson_sha256"):
            self._typed(manifest.get(name), str, MANIFEST, name)
        for path, sha256 in hashes.items():
            self._typed(sha256, str, MANIFEST, f"snapshot_sha256.{path}")
        return manifest

    @property
    def scenario_text(self) -> str:
        """The text of `scenario.toml`."""
        try:
            return self._bytes(SCENARIO).decode()
        except UnicodeDecodeError:
            raise self.malformed(SCENARIO, "(root)", "not UTF-8") from None

    @property
    def verdicts(self) -> list[dict[str, Any]] | None:
        """The verdicts as written, or None if there are none yet."""
        if not self.root.joinpath(VERDICTS).exists():
            return None
        verdicts: list[dict[str, Any]] = self._typed(self._json(VERDICTS), list, VERDICTS, "(root)")
        return verdicts

    def lines(self) -> Iterator[bytes]:
        """Yield the event lines, newline included."""
        with structured_io(self.root), self.root.joinpath(EVENTS).open("rb") as file:
            yield from file

    def events(self) -> Iterator[EventLine]:
        """Yield the events in file order; times never go back."""
        last_ns = 0
        for number, line in enumerate(self.lines()):
            where = f"line {number}"
            try:
                at_ns, host_id, kind_tag, event = _envelope(parse(line), "event")
            except ValueError as error:
                raise self.malformed(EVENTS, where, str(error)) from None
            if at_ns < last_ns:
                raise self.malformed(EVENTS, where, "virtual_time_ns goes back")
            last_ns = at_ns
            yield EventLine(number, at_ns, host_id, kind_tag, event)

    def snapshots(self) -> Iterator[SnapshotFile]:
        """Yield the snapshots by time, then host, then number. At most one a host is held in memory."""
        return merge(*map(self._host_snapshots, self._hosts()), key=lambda item: item[:3])

    def snapshot_paths(self) -> list[str]:
        """Return the relative paths of all snapshot files, in path order."""
        return sorted(f"{SNAPSHOTS}/{host}/{number}.json" for host in self._hosts() for number in self._numbers(host))

    def verify(self) -> tuple[Problem, ...]:
        """Compare every hash of the manifest with the file it names; return what does not agree."""
        manifest = self.manifest
        stated: dict[str, str] = manifest["snapshot_sha256"]
        problems: list[tuple[str, str]] = []
        if sha256_hex(self._bytes(SCENARIO)) != manifest["scenario_sha256"]:
            problems.append((SCENARIO, "scenario_sha256"))
        if self._sha256(EVENTS) != manifest["events_ndjson_sha256"]:
            problems.append((EVENTS, "events_ndjson_sha256"))
        present = dict.fromkeys(self.snapshot_paths())
        problems += [
            (path, "snapshot_sha256")
            for path in sorted(present | stated)
            if path not in present or path not in stated or self._sha256(path) != stated[path]
        ]
        return tuple(
            Problem(str(self.root.joinpath(path)), field, "the file and its hash in the manifest do not agree")
            for path, field in problems
        )

    def put_verdicts(self, data: bytes) -> None:
        """Write `verdicts.json` in one step.

        Raises:
            InputError: If the operating system refuses.
        """
        with structured_io(self.root):
            put_file(self.root.joinpath(VERDICTS), data)

    def malformed(self, path: str, field: str, rule: str) -> InputError:
        """Return the refusal of one of the bundle's files."""
        return InputError(file=str(self.root.joinpath(path)), field=field, rule=rule)

    def _hosts(self) -> list[str]:
        with structured_io(self.root):
            return sorted(entry.name for entry in self.root.joinpath(SNAPSHOTS).iterdir())

    def _numbers(self, host: str) -> range:
        """Return the numbers of one host's snapshots: from 0 without a gap."""
        with structured_io(self.root):
            names = sorted(entry.name for entry in self.root.joinpath(SNAPSHOTS, host).iterdir())
        numbers = range(len(names))
        missing = [name for name in _named(numbers) if name not in names]
        if missing:  # as many as there are others
            rule = f"{missing[0]} is missing, and {next(name for name in names if name not in _named(numbers))} is not expected"
            raise self.malformed(
                f"{SNAPSHOTS}/{host}", "(names)", f"{rule}: {len(names)} snapshots are named 0.json, 1.json and so on"
            )
        return numbers

    def _host_snapshots(self, host: str) -> Iterator[SnapshotFile]:
        for number in self._numbers(host):
            path = f"{SNAPSHOTS}/{host}/{number}.json"
            try:
                at_ns, host_id, kind_tag, snapshot = _envelope(self._json(path), "snapshot")
            except ValueError as error:
                raise self.malformed(path, "(root)", str(error)) from None
            if host_id != host:
                raise self.malformed(path, "host_id", f"lies in the directory of {host}")
            yield SnapshotFile(at_ns, host, number, kind_tag, snapshot)

    def _json(self, path: str) -> Any:
        try:
            return parse(self._bytes(path))
        except ValueError as error:
            raise self.malformed(path, "(root)", f"not JSON: {error}") from None

    def _bytes(self, path: str) -> bytes:
        file = self.root.joinpath(path)
        with structured_io(file):
            return file.read_bytes()

    def _sha256(self, path: str) -> str:
        file = self.root.joinpath(path)
        with structured_io(file), file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def _typed(self, value: Any, kind: type, path: str, field: str) -> Any:
        if not isinstance(value, kind):
            raise self.malformed(path, field, f"must be a {kind.__name__}")
        return value


def _named(numbers: range) -> list[str]:
    return [f"{number}.json" for number in numbers]


def _envelope(value: Any, payload: str) -> tuple[int, str | None, str, dict[str, Any]]:
    """Take an envelope apart (§9.2).

    Raises:
        ValueError: If it has other keys, another order of keys, or other types.
    """
    if not isinstance(value, dict) or [*value] != ["virtual_time_ns", "host_id", "kind_tag", payload]:
        raise ValueError(f"must be an object of virtual_time_ns, host_id, kind_tag, {payload}")
    at_ns, host_id, kind_tag, body = value.values()
    if type(at_ns) is not int or not 0 <= at_ns <= U64_MAX:
        raise ValueError("virtual_time_ns must be an unsigned 64-bit integer")
    if host_id is not None and type(host_id) is not str:
        raise ValueError("host_id must be a string or null")
    if type(kind_tag) is not str or type(body) is not dict:
        raise ValueError(f"kind_tag must be a string and {payload} an object")
    return at_ns, host_id, kind_tag, body

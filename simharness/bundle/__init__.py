"""The bundle on disk (§9): writer, reader, digests and the first difference between two bundles.

Order of `events.ndjson`: by (virtual time, run-wide record sequence); a host's snapshots likewise, numbered from 0 (ruling B1).
"""

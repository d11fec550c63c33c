"""Identifiers, units, keyed random streams, canonical JSON and error types. Imports nothing of simharness."""

"""Tests of the job supervisor: its record, decisions, backend, stores, checkpoints and loop."""

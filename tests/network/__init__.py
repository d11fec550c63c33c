"""Tests of the network room (§5, §5A)."""

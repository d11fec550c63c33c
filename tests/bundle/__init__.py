"""Tests of `simharness.bundle`."""

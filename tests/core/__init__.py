"""Tests of `simharness.core`."""

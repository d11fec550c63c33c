"""Tests of `simharness.assertions`."""

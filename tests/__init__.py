"""Tests of the package; this directory mirrors it."""

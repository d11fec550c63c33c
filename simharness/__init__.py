"""Deterministic simulation of distributed protocols, driven by Hypothesis. Start at `simharness.run` and `simharness.stateful`."""

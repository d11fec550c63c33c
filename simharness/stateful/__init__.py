"""Hypothesis over the engine: the host-kind conformance suite, and what properties are made of."""

"""Deterministic simulation of distributed protocols, driven by Hypothesis."""

from simharness.core.version import VERSION as __version__

__all__ = ["__version__"]

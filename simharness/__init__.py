"""Deterministic simulation of distributed protocols, driven by Hypothesis."""

__version__ = "0.1.0"

__all__ = ["__version__"]

"""Adapters from systems to the host Protocol (§6), and the registry of kinds."""

"""Frozen data and Protocols that cross a boundary (§3.2). Holds no implementation."""

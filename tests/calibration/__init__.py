"""Calibration (§11)."""

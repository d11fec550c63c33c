"""Fidelity of the simulator against captured runs (§11). Floats live here, and no run ever sees one."""

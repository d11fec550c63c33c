"""Disks of simulated machines, which lose what was not synced, and real directories behind the same port (ruling K3)."""

"""The world of data-parallel training (ruling K5): its runs as step tables, benchmarks, cross-check, findings, and the report."""

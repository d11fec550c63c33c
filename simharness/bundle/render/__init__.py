"""What production's post-processor makes of a run: `summary.md`, `reachability.tsv`, `timeline-*.tsv` (§9.5).

Written from a `Capture`, so the same for a simulated bundle, its export, a live bundle and a production archive.
"""

"""The supervisor of a pipeline stage: registers its name, watches its worker process, and goes down with it (§6A)."""

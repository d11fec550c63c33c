"""Virtual clock, scheduling queue, dispatch and actions (§4). Knows no host kind and no system."""

"""The host kinds of data-parallel training: they translate between its processes and the host Protocol, and decide nothing."""

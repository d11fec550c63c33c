"""The SWIM host kind (§6.2): translates between the production node and the host Protocol, and decides nothing."""

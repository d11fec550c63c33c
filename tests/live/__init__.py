"""Real processes and sockets on loopback: budgets are generous, for the machine may be busy."""

"""Live runs: one operating-system process a peer, real UDP sockets on loopback. The front door is `run.run_live`."""

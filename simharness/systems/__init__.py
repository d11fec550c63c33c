"""The code under test. Each system is sans-IO, imports only its own package, and runs without the simulator."""

"""The training system without the simulator."""

"""The simulated processes around the supervisors, one generator function each."""

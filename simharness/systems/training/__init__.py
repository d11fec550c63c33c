"""Data-parallel training (sans-IO): workers that reduce gradients over a ring or through a parameter server, and their hub."""

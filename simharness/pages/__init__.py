"""What HTML reports have in common: the frame and style of a page that needs nothing but itself, and its figures."""

"""The library's properties (§10.3): each a space, what must hold in it, a budget, and the defects that it exists for."""

"""The stage host kind (§6A): the production supervisor, with or without a SWIM node in the same process (ruling S2)."""

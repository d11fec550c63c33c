"""The command line: what a user types, sees and gets back."""

"""The assertion evaluator (§10): one fold a kind, driven over a finished bundle or over a running stream."""

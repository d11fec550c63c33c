"""A job supervisor: keeps one job alive on one batch scheduler, whatever crashes, is lost, or lands late (sans-IO)."""

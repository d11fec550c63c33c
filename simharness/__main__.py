"""`python -m simharness`."""

from simharness.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())

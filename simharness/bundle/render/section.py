"""A section of the summary: a fold over the records, then over the snapshots."""

from simharness.bundle.production.capture import NodeEvent, NodeSnapshot


class Section:
    """One section. It is always there: what it has nothing of, it says in words."""

    heading = ""

    def event(self, event: NodeEvent) -> None:
        """Take a record; they come by (`wall_ms`, label, `monotonic_seq`)."""

    def snapshot(self, snapshot: NodeSnapshot) -> None:
        """Take a snapshot, after every record; they come in the same order."""

    def lines(self) -> list[str]:
        """Return the text below the heading."""
        raise NotImplementedError

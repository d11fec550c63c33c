"""A run that is broken off: by default nothing is kept, on demand what was collected."""

from pathlib import Path

import pytest

from simharness.bundle.reader import Bundle
from simharness.live.run import run_live
from tests.live.support import MESH, MS, head, loaded, mutation, swim


@pytest.mark.parametrize("keep", [False, True])
def test_an_interrupted_run(tmp_path: Path, *, keep: bool) -> None:
    """Kept, it is a bundle marked as aborted, without verdicts and without mutations that never came."""

    def interrupt(now_ns: int) -> None:
        if now_ns > 700 * MS:
            raise KeyboardInterrupt

    scenario = loaded(
        tmp_path, head(60_000), swim("a"), swim("b"), MESH, mutation("heal", 100), mutation("heal", 50_000)
    )
    with pytest.raises(KeyboardInterrupt):
        run_live(scenario, tmp_path.joinpath("out"), keep_partial=keep, watch=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live.toml", *(["out"] if keep else [])]
    if keep:
        bundle = Bundle(tmp_path.joinpath("out"))
        end = bundle.manifest["termination"]
        assert (end["reason"], end["source"], end["detail"]) == ("aborted", "live", "KeyboardInterrupt")
        assert bundle.manifest["finalize_received"] is False
        assert bundle.verdicts is None
        assert [line.event["index"] for line in bundle.events() if line.kind_tag == "mutation"] == [0]
        assert any(line.event["kind"] == "MessageReceived" for line in bundle.events())

"""Identities (reference section 1)."""

import pytest

from simharness.systems.swim.ids import Directory, id_json, node_id

KNOWN = {
    "orchestrator": "11376b7e2acf0c93001f16d10c7ef82ecc88f2292851ba9a5fb14767c7d027ec",
    "worker_a": "e28ee474bf8ceae2b1ca2edcadfeb45227390b1e63cd8d24f60b73b3335698b3",
    "worker_b": "4caa8400a5d80e025e9818b7c42bda282ef11c59ae88eff9a9364ad23eb0ded0",
    "stage-0": "cffb39700a27e2e72c65afa3bd967dff7ecdd0367c78e90e925ddbcfd3f1fe38",
    "a": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "d": "18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4",
}


@pytest.mark.parametrize(("host", "digest"), KNOWN.items())
def test_reference_ids(host: str, digest: str) -> None:
    """The id of a host is SHA-256 of its name."""
    assert node_id(host).hex() == digest


def test_order_is_by_bytes_not_by_name() -> None:
    """Host order and member order differ."""
    assert sorted("abcd", key=node_id) == ["d", "c", "b", "a"]
    workers = ["orchestrator", "worker_a", "worker_b"]
    assert sorted(workers, key=node_id) == ["orchestrator", "worker_b", "worker_a"]


def test_directory_names_known_ids_and_shows_others_in_hex() -> None:
    """An unknown id is rendered as hex, and does not grow the shared table."""
    directory = Directory(["a", "b"])
    assert directory.name(node_id("a")) == "a"
    assert directory.host(node_id("z")) is None
    assert directory.name(node_id("z")) == node_id("z").hex()
    assert directory.twin(node_id("z")).endswith(b'"peer":"%b"' % node_id("z").hex().encode())
    assert id_json(node_id("a")).startswith(b"[202,151,129,")

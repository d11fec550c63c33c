"""Slow, obvious second versions of what the loader decides about links and meshes."""

from collections.abc import Sequence
from itertools import permutations


def mesh_pairs(shape: str, members: Sequence[str]) -> list[tuple[str, str]]:
    """List the ordered pairs of a mesh the plain way."""
    size = len(members)
    match shape:
        case "full":
            edges = list(permutations(range(size), 2))
        case "star":
            edges = [(0, leaf) for leaf in range(1, size)]
        case "chain":
            edges = [(place, place + 1) for place in range(size - 1)]
        case _:
            edges = [(place, (place + 1) % size) for place in range(size)]
    both = [pair for a, b in edges if a != b for pair in ((a, b), (b, a))]
    return sorted({(members[a], members[b]) for a, b in both})


def one_route_each(
    peers: Sequence[str],
    relays: Sequence[str],
    links: Sequence[tuple[str, str, str]],
    meshes: Sequence[tuple[str, Sequence[str]]],
) -> bool:
    """Say by brute force whether §5A allows these: at most one route for each ordered host pair, one relay on each."""
    pairs = [(source, target) for source, target, _ in links]
    if len({*pairs}) < len(pairs) or any(source == target for source, target in pairs):
        return False
    if any(through and (source in relays or target in relays) for source, target, through in links):
        return False
    if any(source in relays and target in relays for source, target in pairs):
        return False
    direct = {pair for shape, members in meshes for pair in mesh_pairs(shape, members)}
    plain = {(source, target) for source, target, through in links if not through}
    for pair in permutations(peers, 2):
        routes = [""] if pair in direct | plain else []
        routes += [
            one for one in relays if (*pair, one) in links or ((pair[0], one) in plain and (one, pair[1]) in plain)
        ]
        if len(routes) > 1:
            return False
    return True

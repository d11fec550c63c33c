"""Every rule of §8.2, one mistake at a time: the exact field and the exact rule, and nothing else."""

import pytest

from simharness.contracts.mutations import MUTATION_TYPES
from tests.scenario.support import (
    ABC,
    BASE,
    HEAD,
    LINK,
    TICK,
    TOP,
    assertion,
    broken,
    link,
    mutation,
    peer,
    problems,
    relay,
)

U64 = "must be an integer from 0 to 18446744073709551615"
PPM = "must be an integer from 0 to 1000000"
POSITIVE = "must be an integer from 1 to 18446744073709551615"
MISSING = "missing; this field is required"
ID = "an id is 1 to 64 characters of A-Z a-z 0-9 . _ - and does not start with a dot"


def top(old: str, new: str) -> str:
    """Return the sound scenario with one line of its head replaced."""
    assert old in BASE
    return BASE.replace(old, new)


HEAD_MISTAKES = [
    (top('name = "base"', ""), "name", MISSING),
    (top('name = "base"', 'name = ""'), "name", "must not be empty"),
    (top('name = "base"', "name = 3"), "name", "must be a string, not an integer"),
    (top("seed = 7", ""), "seed", MISSING),
    (top("seed = 7", "seed = true"), "seed", "must be an integer, not a boolean"),
    (top("seed = 7", "seed = 7.0"), "seed", "must be an integer, not a float"),
    (top("seed = 7", "seed = -1"), "seed", U64),
    (top("seed = 7", "seed = 18446744073709551616"), "seed", U64),
    (top("seed = 7", "sed = 7"), "sed", "unknown field; write seed"),
    (top("duration_ns = 60_000", "duration_ms = 6"), "duration_ms", "unknown field; write duration_ns"),
    (
        top("duration_ns = 60_000", "duration_ns = 0x1_0000_0000_0000_0000")
        + mutation("heal")
        + assertion("convergence_after", 'after_ns = 5\nwithin_ns = 5\npeers = ["a", "b"]'),
        "duration_ns",
        U64,
    ),
    (top("period_ns = 100", "period_ns = 0"), "default_tick.period_ns", POSITIVE),
    (top("period_ns = 100", "period_ms = 1"), "default_tick.period_ms", "unknown field; write period_ns"),
    (HEAD + LINK + ABC, "default_tick", "missing; this table is required"),
    (HEAD + TICK + ABC, "default_link", "missing; this table is required"),
    (HEAD + "default_tick = 5" + LINK + ABC, "default_tick", "must be a table, not an integer"),
    (TOP, "peers", "missing; a scenario has at least one peer"),
    (HEAD + "peers = []" + TICK + LINK, "peers", "missing; a scenario has at least one peer"),
    (HEAD + "peers = 3" + TICK + LINK, "peers", "must be an array of tables, not an integer"),
    (HEAD + "snapshots = [3]" + TICK + LINK + ABC, "snapshots[0]", "must be a table, not an integer"),
    (BASE + "[[snapshot]]\nat_ns = 3", "snapshot", "unknown field; write snapshots"),
    (TOP + ABC.replace("[[peers]]", "[[peer]]"), "peer", "unknown field; write peers"),
    (
        HEAD + "early_terminate_on_all_assertions_resolved = true" + TICK + LINK + ABC,
        "early_terminate_on_all_assertions_resolved",
        "needs at least one assertion to resolve",
    ),
    (
        HEAD + "early_terminate_on_all_assertions_resolved = 1" + TICK + LINK + ABC,
        "early_terminate_on_all_assertions_resolved",
        "must be a boolean, not an integer",
    ),
]

LINK_MISTAKES = [
    (top("latency_ns = 20", "latency_ms = 20"), "default_link.latency_ms", "unknown field; write latency_ns"),
    (top("latency_ns = 20", "latency_ns = -20"), "default_link.latency_ns", U64),
    (top("latency_ns = 20", 'latency_ns = "20"'), "default_link.latency_ns", "must be an integer, not a string"),
    (top("latency_ns = 20", "latency_ns = {}"), "default_link.latency_ns", "must be an integer, not a table"),
    (top("loss_prob_ppm = 0", "loss_prob_ppm = 1_000_001"), "default_link.loss_prob_ppm", PPM),
    (top("loss_prob_ppm = 0", "loss_prob = 0"), "default_link.loss_prob", "unknown field; write loss_prob_ppm"),
    (top("reorder_prob_ppm = 0", "reorder_prob_ppm = -1"), "default_link.reorder_prob_ppm", PPM),
    (top("bandwidth_bps = 1_000", "bandwidth_bps = 0"), "default_link.bandwidth_bps", POSITIVE),
    (
        top("latency_ns = 20", 'latency_ns = 20\noccupancy = "wires"'),
        "default_link.occupancy",
        "unknown value; write wire",
    ),
    *((top(line, ""), f"default_link.{line.split()[0]}", MISSING) for line in LINK.strip().splitlines()[1:]),
    (BASE + link("a", "b", "latency_ms = 3"), "links[0].latency_ms", "unknown field; write latency_ns"),
    (BASE + link("a", "b", "jitter_stddev_ns = 1.5"), "links[0].jitter_stddev_ns", "must be an integer, not a float"),
    (BASE + '[[links]]\nfrom = "a"', "links[0].to", MISSING),
    (BASE + link("a", "zed"), "links[0].to", "undeclared peer or relay 'zed'"),
    (BASE + "[[meshes]]\nlatency_us = 3", "meshes[0].latency_us", "unknown field; write latency_ns"),
    (BASE + '[[meshes]]\nshape = "rings"', "meshes[0].shape", "unknown value; write ring"),
    (BASE + "[[meshes]]\nshape = 3", "meshes[0].shape", "must be a string, not an integer"),
    (BASE + '[[meshes]]\npeers = ["a", "z"]', "meshes[0].peers[1]", "undeclared peer 'z'"),
    (BASE + '[[meshes]]\npeers = ["a"]', "meshes[0].peers", "a mesh joins at least two peers"),
    (BASE + '[[meshes]]\npeers = ["a", "b", "a"]', "meshes[0].peers[2]", "duplicate peer 'a'; see peers[0]"),
    (BASE + relay("R") + '[[meshes]]\npeers = ["a", "R"]', "meshes[0].peers[1]", "'R' is a relay, not a peer"),
]

PEER_MISTAKES = [
    (BASE + peer("a"), "peers[3].id", "duplicate id 'a'; first declared at peers[0]"),
    (BASE + peer("A"), "peers[3].id", "id 'A' differs only in case from 'a' at peers[0]"),
    (BASE + relay("b"), "relays[0].id", "duplicate id 'b'; first declared at peers[1]"),
    (BASE + relay("R") + relay("r"), "relays[1].id", "id 'r' differs only in case from 'R' at relays[0]"),
    *((BASE + peer(name), "peers[3].id", ID) for name in ("", "x/y", "..", ".x", "x y", "é", "x" * 65, r"a\nb")),
    (BASE + peer("d", rest="colour = 3"), "peers[3].colour", None),
    (BASE + peer("d", rest="tick_period_ns_override = 0"), "peers[3].tick_period_ns_override", POSITIVE),
    (BASE + peer("d", rest="tick_period_ns = 5"), "peers[3].tick_period_ns", None),
    (BASE + peer("d", rest="kind_config = 5"), "peers[3].kind_config", "must be a table, not an integer"),
    (BASE + peer("d", "Plain"), "peers[3].kind", "unknown host kind 'Plain'; write plain"),
    (BASE + peer("d", "zzz"), "peers[3].kind", "unknown host kind 'zzz'; known: plain, worker"),
    (BASE + '[[peers]]\nid = "d"\nkind = "plain"', "peers[3].initial_state", MISSING),
    (BASE + '[[peers]]\nkind = "plain"\ninitial_state = "up"', "peers[3].id", MISSING),
    (BASE + relay("R", "cold_start_penalty_ms = 3"), "relays[0].cold_start_penalty_ms", None),
    (BASE + relay("R", 'queue_discipline = "lifo"'), "relays[0].queue_discipline", "unknown value; write fifo"),
    (BASE + relay("R").replace("ingress_capacity_bps = 5", ""), "relays[0].ingress_capacity_bps", MISSING),
    (
        BASE + relay("R").replace("ingress_capacity_bps = 5", "ingress_capacity_bps = 0"),
        "relays[0].ingress_capacity_bps",
        POSITIVE,
    ),
]

SPIKE = "factor_x100 = 300\nduration_ns = 5\n"
MUTATION_MISTAKES = [
    (BASE + mutation("peer_kill", 'peer = "z"'), "mutations[0].peer", "undeclared peer 'z'"),
    (BASE + relay("R") + mutation("peer_kill", 'peer = "R"'), "mutations[0].peer", "'R' is a relay, not a peer"),
    (
        BASE + mutation("PeerKill", 'peer = "a"'),
        "mutations[0].kind",
        "unknown mutation kind 'PeerKill'; write peer_kill",
    ),
    (BASE + "[[mutations]]\nat_ns = 3", "mutations[0].kind", MISSING),
    (BASE + "[[mutations]]\nat_ns = 3\nkind = 3", "mutations[0].kind", "must be a string, not an integer"),
    (BASE + '[[mutations]]\nkind = "heal"', "mutations[0].at_ns", MISSING),
    (BASE + mutation("heal", at_ns=60_001), "mutations[0].at_ns", "at_ns 60001 lies after duration_ns 60000"),
    (BASE + mutation("heal", 'peer = "a"'), "mutations[0].peer", "unknown field; known: kind, at_ns"),
    (BASE + mutation("peer_resurrect", 'peer = "a"\npreserve_state = 1'), "mutations[0].preserve_state", None),
    (
        BASE + mutation("partition", 'peers_a = ["a", "b"]\npeers_b = ["c", "b"]'),
        "mutations[0].peers_b[1]",
        "peer 'b' is in both groups",
    ),
    (BASE + mutation("partition", 'peers_a = ["a"]\npeers_b = []'), "mutations[0].peers_b", "must not be empty"),
    (BASE + mutation("partition", 'peers_a = ["a"]\npeers_b = "b"'), "mutations[0].peers_b", None),
    (BASE + mutation("partition", 'peers_a = ["a"]\npeers_b = [3]'), "mutations[0].peers_b[0]", None),
    (
        BASE + mutation("worker_exit", 'peer = "a"\nreason = "x"'),
        "mutations[0].peer",
        "host kind plain of 'a' accepts no worker_exit",
    ),
    (BASE + mutation("worker_exit", 'peer = "c"\nreason = "x"\nsignal = 2147483648'), "mutations[0].signal", None),
    (BASE + mutation("peer_pause", 'peer = "x"\nduration_ns = 1'), "mutations[0].peer", "undeclared peer 'x'"),
    (
        BASE + relay("R") + mutation("peer_pause", 'peer = "R"\nduration_ns = 1'),
        "mutations[0].peer",
        "'R' is a relay, not a peer",
    ),
    (BASE + mutation("peer_pause", 'peer = "a"'), "mutations[0].duration_ns", MISSING),
    (BASE + mutation("peer_pause", 'peer = "a"\nduration_ns = -1'), "mutations[0].duration_ns", U64),
    (
        BASE + mutation("peer_pause", 'peer = "a"\nduration_ms = 3'),
        "mutations[0].duration_ms",
        "unknown field; write duration_ns",
    ),
    (
        BASE + mutation("peer_freeze", 'peer = "a"\nduration_ns = 3'),
        "mutations[0].kind",
        f"unknown mutation kind 'peer_freeze'; known: {', '.join(of.__struct_config__.tag for of in MUTATION_TYPES)}",
    ),
    (
        BASE + mutation("peer_slow", 'peer = "a"\nfactor_x100 = 200\nduration_ns = 1'),
        "mutations[0].peer",
        "host kind plain of 'a' accepts no peer_slow",
    ),
    (BASE + mutation("peer_slow", 'peer = "c"\nduration_ns = 1'), "mutations[0].factor_x100", MISSING),
    (BASE + mutation("peer_slow", 'peer = "c"\nfactor_x100 = -5\nduration_ns = 1'), "mutations[0].factor_x100", U64),
    (
        BASE + mutation("clock_offset", f'peer = "a"\noffset_ns = {2**63}'),
        "mutations[0].offset_ns",
        f"must be an integer from {-(2**63)} to {2**63 - 1}",
    ),
    (BASE + mutation("clock_offset", 'peer = "a"\noffset_ns = 1.5'), "mutations[0].offset_ns", None),
    (
        BASE + mutation("clock_offset", 'peer = "a"\noffset_ns = -6'),
        "mutations[0].offset_ns",
        "at_ns 5 and offset_ns -6 set the clock to a time before 0",
    ),
    (BASE + '[[mutations]]\nkind = "clock_offset"\npeer = "a"\noffset_ns = -6', "mutations[0].at_ns", MISSING),
    (
        BASE + mutation("clock_drift", 'peer = "a"\ndrift_ppm = -1_000_000'),
        "mutations[0].drift_ppm",
        "must be an integer from -999999 to 1000000",
    ),
    (BASE + mutation("clock_drift", 'peer = "a"\ndrift_ppm = 1_000_001'), "mutations[0].drift_ppm", None),
    (BASE + mutation("clock_drift", 'peer = "a"'), "mutations[0].drift_ppm", MISSING),
    (
        BASE + relay("R") + mutation("relay_capacity_change", 'relay = "R"'),
        "mutations[0]",
        "changes nothing; give at least one of ingress_capacity_bps, egress_capacity_bps_per_link, queue_depth_bytes",
    ),
    (
        BASE + relay("R") + mutation("relay_capacity_change", 'relay = "R"\nqueue_depth = 3'),
        "mutations[0].queue_depth",
        "unknown field; write queue_depth_bytes",
    ),
    (BASE + mutation("relay_kill", 'relay = "a"'), "mutations[0].relay", "'a' is a peer, not a relay"),
    (BASE + mutation("relay_boot", 'relay = "R"'), "mutations[0].relay", "undeclared relay 'R'"),
    (
        BASE + mutation("latency_spike", f'links = [{{ from = "a", to = "b" }}]\n{SPIKE}'),
        "mutations[0].links[0]",
        "no link or relayed route a -> b",
    ),
    (
        BASE + link("a", "b") + mutation("latency_spike", f'links = [{{ from = "a" }}]\n{SPIKE}'),
        "mutations[0].links[0].to",
        MISSING,
    ),
    (
        BASE + link("a", "b") + mutation("latency_spike", f'links = ["ab"]\n{SPIKE}'),
        "mutations[0].links[0]",
        "must be a table { from, to }, not a string",
    ),
    (
        BASE
        + link("a", "b")
        + mutation("loss_burst", 'links = [{ from = "a", to = "z" }]\nprob_ppm = 1\nduration_ns = 1'),
        "mutations[0].links[0].to",
        "undeclared peer or relay 'z'",
    ),
    (
        BASE
        + link("a", "b")
        + mutation("loss_burst", 'links = [{ from = "a", to = "b" }]\nprob_ppm = 2e6\nduration_ns = 1'),
        "mutations[0].prob_ppm",
        "must be an integer, not a float",
    ),
]

WINDOW = "window_start_ns = 5\nwindow_end_ns = 9\n"
OTHER_MISTAKES = [
    (BASE + "[[snapshots]]\nat_ns = 60_001", "snapshots[0].at_ns", "at_ns 60001 lies after duration_ns 60000"),
    (BASE + "[[snapshots]]\nat = 60", "snapshots[0].at", "unknown field; write at_ns"),
    (BASE + assertion("all_alive", ""), "assertions[0].kind", None),
    (
        BASE + assertion("all_alive_at", 'at_ns = 1\npeers = ["a"]'),
        "assertions[0].peers",
        "names one peer; what peers hold of each other needs at least two",
    ),
    (BASE + assertion("all_alive_at", 'at_ns = 60_001\npeers = ["a", "b"]'), "assertions[0].at_ns", None),
    (
        BASE + assertion("all_alive_at", 'at_ns = 5\npeers = ["a", "z"]'),
        "assertions[0].peers[1]",
        "undeclared peer 'z'",
    ),
    (BASE + assertion("no_dead_when_probes_ok", f'peer = "z"\n{WINDOW}'), "assertions[0].peer", "undeclared peer 'z'"),
    (
        BASE + assertion("no_dead_when_probes_ok", 'peer = "a"\nwindow_start_ns = 9\nwindow_end_ns = 8'),
        "assertions[0].window_start_ns",
        "window_start_ns 9 lies after window_end_ns 8",
    ),
    (
        BASE + assertion("worker_alive_throughout", 'peer = "a"\nwindow_start_ns = 9\nwindow_end_ns = 60_001'),
        "assertions[0].window_end_ns",
        "window_end_ns 60001 lies after duration_ns 60000",
    ),
    (
        BASE
        + relay("R")
        + assertion("relay_queue_depth_bounded", 'relay = "R"\nmax_bytes = 1\nwindow_start_ns = 60_001'),
        "assertions[0].window_start_ns",
        "window_start_ns 60001 lies after duration_ns 60000",
    ),
    (
        BASE + assertion("convergence_after", 'after_ns = 59_999\nwithin_ns = 2\npeers = ["a", "b"]'),
        "assertions[0].within_ns",
        "after_ns + within_ns 60001 lies after duration_ns 60000",
    ),
    (
        BASE + assertion("name_resolves_within", 'name = "n"\nfrom_ns = 60_000\nwithin_ns = 1\nobservers = ["a"]'),
        "assertions[0].within_ns",
        "from_ns + within_ns 60001 lies after duration_ns 60000",
    ),
    (
        BASE + assertion("event_count", 'event_kind = "X"'),
        "assertions[0].max",
        "missing; event_count needs min, max or both",
    ),
    (BASE + assertion("event_count", 'event_kind = "X"\nmin = 3\nmax = 2'), "assertions[0].min", "min 3 exceeds max 2"),
    (
        BASE + assertion("event_count", 'event_kind = "X"\nmax = 2\npeer = "z"'),
        "assertions[0].peer",
        "undeclared peer 'z'",
    ),
    (BASE + assertion("event_count", 'event_kind = "X"\nmaxx = 2'), "assertions[0].maxx", "unknown field; write max"),
    (
        BASE + assertion("event_rate", 'event_kind = "X"\nwindow_ns = 0\nmax_per_window = 1'),
        "assertions[0].window_ns",
        POSITIVE,
    ),
    (BASE + assertion("message_size_bounded", "max_bytes = 2"), "assertions[0].message_kind", MISSING),
    (BASE + "[base]\nextend = 'x.toml'", "base.extend", "unknown field; write extends"),
    (BASE + "[base]\nextends = 3", "base.extends", "must be a string, not an integer"),
]

MISTAKES = HEAD_MISTAKES + LINK_MISTAKES + PEER_MISTAKES + MUTATION_MISTAKES + OTHER_MISTAKES


@pytest.mark.spec("§8.4", "Validation is complete")
@pytest.mark.parametrize(("text", "field", "rule"), MISTAKES)
def test_one_mistake_one_error(text: str, field: str, rule: str | None) -> None:
    """Each rule is enforced at its field, by one error (ruling L17); None stands for a rule worded elsewhere."""
    found = broken(text)
    assert [place for place, _ in found] == [field]
    assert rule is None or found[0][1] == rule


@pytest.mark.spec("§8.4", "Errors are structured")
@pytest.mark.parametrize("text", [text for text, _, _ in MISTAKES])
def test_file_field_rule(text: str) -> None:
    """A rejection names the file, the field and the rule in one line each (ruling L12)."""
    (problem,) = problems(text)
    lines = str(problem).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["file", "field", "rule"]
    assert lines[0] == "file: x.toml"
    assert all(part.isprintable() and part for part in (problem.field, problem.rule))


@pytest.mark.spec("§8.4", "Validation is complete")
def test_sound_scenario_loads() -> None:
    """The scenario that all these mistakes are made in has none itself, at every bound."""
    sound = [
        mutation("heal", at_ns=60_000),
        mutation("worker_exit", 'peer = "c"\nreason = ""\nstatus_code = -1\nsignal = 9'),
        mutation("peer_kill", 'peer = "a"', at_ns=0),
        mutation("peer_pause", 'peer = "a"\nduration_ns = 0'),
        mutation("peer_slow", 'peer = "c"\nfactor_x100 = 0\nduration_ns = 0'),
        mutation("clock_offset", 'peer = "b"\noffset_ns = -5'),
        mutation("clock_drift", 'peer = "b"\ndrift_ppm = -999_999'),
        mutation("clock_drift", 'peer = "b"\ndrift_ppm = 1_000_000'),
        "[[snapshots]]\nat_ns = 60_000\n",
        assertion("event_count", 'event_kind = "X"\nmin = 3\nmax = 3'),
        assertion("all_alive_throughout", 'window_start_ns = 60_000\nwindow_end_ns = 60_000\npeers = ["a", "b"]'),
        assertion("convergence_after", 'after_ns = 59_999\nwithin_ns = 1\npeers = ["a", "b"]'),
    ]
    assert broken(BASE + "".join(sound)) == []


def test_independent_mistakes_come_together() -> None:
    """All independent mistakes of a file are in one refusal, and a consequence of one is not (ruling L17)."""
    text = (
        top("seed = 7", "seed = -1").replace("latency_ns", "latency_ms")
        + peer("x/y")
        + link("x/y", "a")
        + link("a", "nobody", "loss_prob_ppm = 2.5")
        + mutation("latency_spike", f'links = [{{ from = "a", to = "b" }}]\n{SPIKE}')
        + mutation("worker_exit", 'peer = "a"\nreason = 3', at_ns=60_001)
    )
    assert [field for field, _ in broken(text)] == [
        "seed",
        "default_link.latency_ms",
        "peers[3].id",
        "links[1].loss_prob_ppm",
        "links[1].to",
        "mutations[1].reason",
        "mutations[1].at_ns",
        "mutations[1].peer",
    ]


def test_unusable_id_is_one_mistake() -> None:
    """A peer whose id cannot be read is not reported again wherever it is named."""
    text = TOP + ABC.replace('id = "a"', "id = 3") + link("a", "b") + mutation("peer_kill", 'peer = "a"')
    assert broken(text) == [("peers[0].id", "must be a string, not an integer")]


def test_strange_text_stays_on_one_line() -> None:
    """Keys and ids with line breaks in them cannot break the three-line form (rulings L9, L12)."""
    text = BASE + peer(r"d\ne") + link(r"d\ne", "a") * 2 + '"x\\ny\\u2028" = 3\n'
    for problem in problems(text):
        assert len(str(problem).splitlines()) == 3

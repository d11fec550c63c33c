"""Somebody else's host kind: a numbered stream from each peer to the next. Its planted bug: what is lost is never sent again."""

from simharness.contracts.host import App, RecordEvent, Send, Slow, Validated, Wire


class StreamCodec:
    def encode(self, message):
        return Wire("stream::Number", message.to_bytes(4, "big"))

    def decode(self, wire):
        return int.from_bytes(wire.payload, "big")

    def frame_overhead(self, tag):
        return 0


class StreamHost:
    kind_tag = "stream"

    def __init__(self, context):
        self.id = context.host_id
        ids = [peer.id for peer in context.peers]
        self._next = ids[(ids.index(self.id) + 1) % len(ids)]
        self._sent = self._received = 0

    def tick(self, now_ns):
        self._sent += 1
        return [Send(self._next, self._sent)]

    def recv(self, message, now_ns):
        if isinstance(message, Slow):
            return [RecordEvent({"kind": "Pace", "factor_x100": message.factor_x100})]
        if not isinstance(message, App):
            return []
        gap = message.message != self._received + 1
        self._received = message.message
        return [RecordEvent({"kind": "Gap" if gap else "Got", "number": self._received})]

    def snapshot(self):
        return b'{"received":%d}' % self._received


class StreamKind:
    kind_tag = "stream"
    codec = StreamCodec()
    accepts_worker_exit = False
    accepts = ("peer_kill", "peer_resurrect", "peer_pause", "peer_slow", "clock_offset", "clock_drift")

    def validate(self, config, facts):
        return Validated(dict(config))

    def new(self, context):
        return StreamHost(context)

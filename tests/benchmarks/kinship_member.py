"""One member of a kinship cluster on loopback, for `peers`, which reads its lines.

`at HOST:PORT` when it listens, `up NAME` and `down NAME` as it learns about others. Ends when its standard input closes.
"""

import argparse
import asyncio
import logging
import sys

import kinship


def say(*words: str) -> None:
    """Print a line at once."""
    print(*words, flush=True)  # noqa: T201  # how it talks to `peers`


async def follow(events: kinship.EventStream) -> None:
    """Say who comes and who goes."""
    async for event in events:
        match event:
            case kinship.MemberJoined(member=member):
                say("up", member.name)
            case kinship.MemberDead(member=member) | kinship.MemberLeft(member=member):
                say("down", member.name)


async def main() -> None:
    """Join and follow until the starter is gone."""
    kinship.log_to_python()
    logging.disable(logging.WARNING)  # it warns of plaintext, which loopback does not mind
    flags = argparse.ArgumentParser()
    flags.add_argument("-name")
    flags.add_argument("-seed", default="")
    flags.add_argument("-interval", type=float)
    flags.add_argument("-timeout", type=float)
    flags.add_argument("-mult", type=int)
    flags.add_argument("-indirect", type=int)
    args = flags.parse_args()
    config = kinship.Config.lan(
        name=args.name,
        bind="127.0.0.1:0",
        insecure_plaintext=True,
        probe_interval=args.interval,
        probe_timeout=args.timeout,
        suspicion_mult=args.mult,
        indirect_checks=args.indirect,
    )
    cluster = kinship.Cluster(config)
    await cluster.start()
    following = asyncio.ensure_future(follow(cluster.events()))
    say("at", cluster.local.addr)
    if args.seed:
        await cluster.join([args.seed])
    await asyncio.to_thread(sys.stdin.read)
    following.cancel()


if __name__ == "__main__":
    asyncio.run(main())

"""The slow, obvious model of a disk: everything that ever was is kept, and the state is looked up in it."""

from typing import Final, NamedTuple

from simharness.contracts.disk import Disk

NAMES: Final = ("a", "b", "c", "d")

Outcome = tuple[str, object]
"""("ok", answer) or (name of the error, None)."""


class Call(NamedTuple):
    """One call of the port, by the name of its method."""

    method: str
    arguments: tuple[object, ...] = ()
    append: bool = False

    def on(self, disk: Disk) -> Outcome:
        """Make the call on a disk that is under test."""
        extra = {"append": True} if self.append else {}
        try:
            return "ok", getattr(disk, self.method)(*self.arguments, **extra)
        except (OSError, ValueError) as error:
            return type(error).__name__, None


class Oracle:
    """Files are numbers. `contents[n]` holds every content that file n had, `directories` every state of the directory."""

    def __init__(self) -> None:
        self.contents: list[list[bytes]] = []
        self.synced: list[int] = []  # by file: which of its contents is durable
        self.directories: list[tuple[tuple[str, int], ...]] = [()]
        self.durable_directory = 0
        self.cuts = 0

    def answer(self, call: Call) -> Outcome:
        """Do what a call asks and return what a disk has to answer."""
        now = dict(self.directories[-1])
        names = [str(name) for name in call.arguments[: 2 if call.method in ("link", "rename") else 1]]
        match call.method:
            case "list":
                return "ok", tuple(sorted(now))
            case "sync_dir":
                self.durable_directory = len(self.directories) - 1
                return "ok", None
            case "write":
                data = call.arguments[1]
                assert isinstance(data, bytes)
                number = now.get(names[0], len(self.contents))
                if number == len(self.contents):
                    self.contents.append([b""])
                    self.synced.append(0)
                before = self.contents[number][-1] if call.append else b""
                self.contents[number].append(before + data)
                return self._become(now | {names[0]: number})
        if names[0] not in now:
            return "NoSuchNameError", None
        number = now[names[0]]
        match call.method:
            case "read":
                return "ok", self.contents[number][-1]
            case "sync":
                self.synced[number] = len(self.contents[number]) - 1
                return "ok", None
            case "link" if names[1] in now:
                return "NameTakenError", None
            case "link":
                return self._become(now | {names[1]: number})
            case "rename" if now.get(names[1]) == number:
                return "ok", None
            case "rename":
                return self._become({name: file for name, file in now.items() if name != names[0]} | {names[1]: number})
            case "unlink":
                return self._become({name: file for name, file in now.items() if name != names[0]})
        raise AssertionError(call)

    def cut(self, surviving: frozenset[str] = frozenset()) -> None:
        """Lose what is not durable, but for the entries of the names that survive as they are."""
        durable, now = dict(self.directories[self.durable_directory]), dict(self.directories[-1])
        after = {}
        for name in (*durable, *now):
            number = now.get(name) if name in surviving else durable.get(name)
            if number is not None:
                after[name] = number
        for number, contents in enumerate(self.contents):
            contents.append(contents[self.synced[number]])
        self._become(after)
        self.durable_directory = len(self.directories) - 1
        self.cuts += 1

    def changed(self) -> list[str]:
        """Return the names whose entries differ from their durable form, sorted."""
        durable, now = dict(self.directories[self.durable_directory]), dict(self.directories[-1])
        return sorted(name for name in {*durable, *now} if durable.get(name) != now.get(name))

    def files(self) -> dict[str, bytes]:
        """Return what every name holds now."""
        return {name: self.contents[number][-1] for name, number in self.directories[-1]}

    def _become(self, directory: dict[str, int]) -> Outcome:
        self.directories.append(tuple(directory.items()))
        return "ok", None


def files_of(disk: Disk) -> dict[str, bytes]:
    """Return what every name of a disk holds."""
    return {name: disk.read(name) for name in disk.list()}


BAD_NAMES: Final = ("", ".", "..", ".hidden", "a/b", "../a", "a\0", "a\n", "ä", "x" * 129)

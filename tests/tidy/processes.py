"""Rules for code that runs as simulated processes: generators, draws, deadlines, and defects that stay as they were chosen."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.tidy.sets import Sets
from tests.tidy.source import Hit, Source

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CATCHES_CLOSING: Final = ("BaseException", "GeneratorExit")
_CLOCKS: Final = ("now", "start")
"""`now`, `w.now`; `start`, `f.start`: the instant at which a Find began."""

_STREAMS: Final = "simharness.core.streams."
_DRAWS: Final = ("u64", "u32", "triple", "substream", "shared", "host_rng")
_HOME_OF_DRAWS: Final = "simharness/supervisor/chooser.py"
_DEFECT_CLASS: Final = re.compile(r"(?:[A-Z]\w*)?Defect")
_SETS: Final = ("set", "frozenset")


def generator_cleanup(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Generators that go on when they are closed: a crashed process must run nothing more (S6)."""
    for node in source.nodes:
        if isinstance(node, ast.Try | ast.TryStar):
            for found in _yields(node.finalbody):
                yield Hit(found, "a yield in `finally` keeps a crashed process alive")
            if next(_yields(node.body), None) is not None:
                for handler in node.handlers:
                    if _catches_closing(handler):
                        yield Hit(handler, "it would catch GeneratorExit at a yield: name the exceptions")


def _yields(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield every yield of the statements themselves, none of a function that they define."""
    left: list[ast.AST] = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            yield node
        if not isinstance(node, _FUNCTIONS):
            left += ast.iter_child_nodes(node)


def _catches_closing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(one) in _CATCHES_CLOSING for one in caught)


def defect_set(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Making a set of defects, or changing a frozen value: what is switched off is chosen outside and fixed for the run (S8).

    Elsewhere a member of a `...Defect` enum is only asked for: `Defect.NAME in defects`.
    """
    for node in source.nodes:
        match node:
            case ast.Attribute(attr="__setattr__"):
                yield Hit(node, "a frozen value stays as it was built")
            case ast.Attribute(value=ast.Name() | ast.Attribute() as base, attr=member) if (
                member.isupper() and _is_defects(base) and not _is_asked_for(source, node)
            ):
                yield Hit(node, f"{member} is only asked for here: `in defects`")
            case ast.Call(func=func, args=args) if _is_defects(func) or (
                source.is_builtin(func, "map", *_SETS) and args and _is_defects(args[0])
            ):
                yield Hit(node, "defects are chosen by configuration, a command or a test option")
            case ast.comprehension(iter=values) if _is_defects(values) and _gives_a_set(source, node):
                yield Hit(values, "defects are chosen by configuration, a command or a test option")


def _is_defects(node: ast.AST) -> bool:
    return _DEFECT_CLASS.fullmatch(_last_name(node)) is not None


def _is_asked_for(source: Source, node: ast.expr) -> bool:
    match source.parent(node):
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
            return left is node
        case ast.MatchValue():
            return True
    return False


def _gives_a_set(source: Source, node: ast.comprehension) -> bool:
    made = source.parent(node)
    around = source.parent(made) if made is not None else None
    return isinstance(made, ast.SetComp) or (
        isinstance(around, ast.Call) and made in around.args and source.is_builtin(around.func, *_SETS)
    )


def deadline_compare(source: Source, _sets: Sets) -> Iterator[Hit]:
    """A deadline compared with anything but the clock or another deadline (S9)."""
    for node in source.nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
                for deadline, other in () if isinstance(op, ast.In | ast.NotIn) else ((left, right), (right, left)):
                    if _is_deadline(deadline) and not (_is_deadline(other) or _last_name(other) in _CLOCKS):
                        yield Hit(node, "a deadline is compared with the clock only: now, or the start of a Find")


def _is_deadline(node: ast.expr) -> bool:
    return any("deadline" in _last_name(inner).lower() for inner in ast.walk(node))


def direct_draw(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Drawing from a stream past the chooser, which keeps schedule, process and keyed draws apart (S10)."""
    if source.file == _HOME_OF_DRAWS:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call):
            made = source.dotted(node.func)
            if made is not None and made.startswith(_STREAMS):
                yield Hit(node, f"{made.removeprefix(_STREAMS)} is the chooser's: take a stream from Draws")
            elif _draws(node):
                yield Hit(node, "draw by a function of the chooser, or at an address of Draws")


def _draws(node: ast.Call) -> bool:
    """Tell whether a call takes the next value of a stream; a keyed draw names its address besides the bound."""
    match node:
        case ast.Call(func=ast.Attribute(attr="below"), args=[_], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _DRAWS
    return False


def _last_name(node: ast.AST) -> str:
    """Return the name, or the last part of a dotted one; "" for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""

"""Rules about sets (§7.3): their iteration order depends on hashes and on history, so nothing may see it.

An expression is known to be a set if it is a literal, a comprehension, a call, a set operator, or a name, an attribute or a
call result that is bound or annotated as one; fields and functions of other modules count when every declaration agrees.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from tests.tidy.source import Hit, Source

Kind = Literal["set", "sets by key", "sets in order", "view"]
"""A set; a mapping whose values are sets; a sequence of sets; a dictionary view, whose operators give sets."""

_SET_NAMES: Final = ("set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet")
_MAPPING_NAMES: Final = ("dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict")
_SEQUENCE_NAMES: Final = ("list", "tuple", "deque", "List", "Tuple", "Sequence", "Iterable", "Iterator")
_WRAPPERS: Final = ("Final", "ClassVar", "Annotated", "Optional", "Required", "NotRequired")
_SET_METHODS: Final = ("union", "intersection", "difference", "symmetric_difference", "copy")
_ORDER_FREE: Final = ("sorted", "min", "max", "set", "frozenset", "any", "all", "len")
_ORDER_LEAKS: Final = (
    *("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "sum", "dict"),
    *("str", "repr", "format", "ascii", "print", "bytes", "bytearray", "sorted", "min", "max"),
)
_LEAKING_METHODS: Final = ("join", "extend", "extendleft", "fromkeys", "writelines")
_LEAKING_MODULES: Final = ("itertools.", "collections.", "functools.reduce", "heapq.", "json.", "orjson.")

Declarations = Mapping[str, Kind]


class Sets:
    """What a module, with the declarations of the whole tree, says about sets."""

    def __init__(self, source: Source, declared_elsewhere: Declarations) -> None:
        self._source = source
        self._elsewhere = declared_elsewhere
        self._members: dict[str, Kind] = {}
        self._names: dict[tuple[ast.AST, str], Kind] = {}
        self._own = frozenset(name for name, _ in declarations(source))
        for name, kind in declarations(source):
            if kind is not None:
                self._members[name] = kind
        known = -1
        while known != len(self._names) + len(self._members):  # a name may be bound from another name
            known = len(self._names) + len(self._members)
            for node in source.nodes:
                self._learn(node)

    def kind(self, node: ast.expr | None) -> Kind | None:
        """Return what is known about the value of `node`."""
        match node:
            case ast.Set() | ast.SetComp():
                return "set"
            case ast.Call():
                return self._kind_of_call(node)
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                operands = (self.kind(left), self.kind(right))
                return "set" if "set" in operands or "view" in operands else None
            case ast.IfExp(body=first, orelse=second):
                return self.kind(first) or self.kind(second)
            case ast.BoolOp(values=values):
                return next((kind for kind in map(self.kind, values) if kind), None)
            case ast.NamedExpr(value=value):
                return self.kind(value)
            case ast.Subscript(value=value):
                return "set" if self.kind(value) in ("sets by key", "sets in order") else None
            case ast.Name(id=name):
                scope = self._source.binding_scope(node)
                return None if scope is None else self._names.get((scope, name))
            case ast.Attribute(attr=name):
                return self._member(name)
        return None

    def is_set(self, node: ast.AST | None) -> bool:
        """Tell whether `node` is known to be a set."""
        return isinstance(node, ast.expr) and self.kind(node) == "set"

    def _member(self, name: str) -> Kind | None:
        return self._members.get(name) if name in self._own or name in self._members else self._elsewhere.get(name)

    def _kind_of_call(self, node: ast.Call) -> Kind | None:
        match node.func:
            case ast.Name(id=name) as func:
                if self._source.is_builtin(func, "set", "frozenset"):
                    return "set"
                if self._source.dotted(func) == "collections.defaultdict":
                    return "sets by key" if node.args and self._source.is_builtin(node.args[0], "set") else None
                return self._member(f"{name}()")
            case ast.Attribute(value=value, attr=name):
                if name in ("keys", "items") and not node.args:
                    return "view"
                if name in _SET_METHODS and self.is_set(value):
                    return "set"
                if name in ("get", "setdefault", "pop") and self.kind(value) == "sets by key":
                    return "set"
                return self._member(f"{name}()")
        return None

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._bind(target, value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._note(target, annotated_kind(annotation) or self.kind(value))
            case ast.arg(annotation=annotation) if annotation is not None:
                self._note(node, annotated_kind(annotation))
            case ast.For(target=target, iter=iterated) | ast.comprehension(target=target, iter=iterated):
                if self.kind(iterated) == "sets in order":
                    self._note(target, "set")
                match iterated:
                    case ast.Call(func=ast.Attribute(value=value, attr="values")) if self.kind(value) == "sets by key":
                        self._note(target, "set")
                    case ast.Call(func=ast.Attribute(value=value, attr="items")) if self.kind(value) == "sets by key":
                        if isinstance(target, ast.Tuple):
                            self._note(target.elts[-1], "set")

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                self._bind(one, part)
        elif isinstance(target, ast.Tuple) and self.kind(value) == "sets in order":
            for one in target.elts:
                self._note(one, "set")
        else:
            self._note(target, self.kind(value))

    def _note(self, target: ast.AST, kind: Kind | None) -> None:
        if kind is None:
            return
        match target:
            case ast.Name(id=name) | ast.arg(arg=name):
                self._names[self._source.scope(target), name] = kind
            case ast.Attribute(attr=name):
                self._members[name] = kind


def annotated_kind(node: ast.expr) -> Kind | None:
    """Return what an annotation declares."""
    match node:
        case ast.Constant(value=str(text)):
            return annotated_kind(ast.parse(text, mode="eval").body)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return "set" if name in _SET_NAMES else None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return annotated_kind(left) or annotated_kind(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            if name in _SET_NAMES:
                return "set"
            if name == "Literal":
                return None  # its strings are values, not annotations
            first, *rest = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name in _WRAPPERS:
                return annotated_kind(first)
            if name in _MAPPING_NAMES and len(rest) == 1 and annotated_kind(rest[0]) == "set":
                return "sets by key"
            items = [annotated_kind(one) for one in (first, *rest) if ast.unparse(one) != "..."]
            if name in _SEQUENCE_NAMES and items.count("set") == len(items):
                return "sets in order"
    return None


def declarations(source: Source) -> Iterator[tuple[str, Kind | None]]:
    """Yield each annotated field `name` and each function `name()` of a module with its kind, None for no set.

    A property counts as a field.
    """
    for node in source.nodes:
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                yield name, annotated_kind(annotation)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if isinstance(source.parent(node), ast.ClassDef):
                    yield name, annotated_kind(annotation)
            case ast.FunctionDef(name=name, returns=returns, decorator_list=decorators) if returns is not None:
                is_property = any(ast.unparse(one) in ("property", "cached_property") for one in decorators)
                yield name if is_property else f"{name}()", annotated_kind(returns)


def agreed(sources: list[Source]) -> dict[str, Kind]:
    """Return the fields and functions that every declaration of the tree gives the same kind of set."""
    kinds: dict[str, list[Kind | None]] = {}
    for source in sources:
        for name, kind in declarations(source):
            kinds.setdefault(name, []).append(kind)
    return {name: found[0] for name, found in kinds.items() if found[0] and found.count(found[0]) == len(found)}


def is_order_free(source: Source, node: ast.AST) -> bool:
    """Tell whether nothing can see in which order `node` yields: it feeds a sort, a set or a count."""
    match source.parent(node):
        case ast.Call(func=func, keywords=keywords, args=[first, *rest]) if first is node:
            keyed = any(keyword.arg in ("key", None) for keyword in keywords)  # equal keys leave the set's own order
            return not keyed and not rest and source.is_builtin(func, *_ORDER_FREE)
        case ast.comprehension(iter=iterated) as clause if iterated is node:
            around = source.parent(clause)
            if isinstance(around, ast.SetComp):
                return True
            return isinstance(around, ast.GeneratorExp | ast.ListComp) and is_order_free(source, around)
    return False


def set_order(source: Source, sets: Sets) -> Iterator[Hit]:
    """Find places where the order of a set becomes visible."""
    for node in source.nodes:
        for exposed, how in _exposed(source, node):
            if sets.is_set(exposed) and not is_order_free(source, exposed):
                yield Hit(exposed, f"{how} a set shows its order: write sorted(...) without a key")


def set_pop(source: Source, sets: Sets) -> Iterator[Hit]:
    """Find removals of an arbitrary element."""
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]) if sets.is_set(value):
                yield Hit(node, "set.pop takes an arbitrary element: take min(...) and discard it")
            case ast.Call(func=ast.Attribute(attr="popitem")):
                yield Hit(node, "popitem leaves the choice to the container: name the key")


def _exposed(source: Source, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
            yield iterated, "iterating"
        case ast.YieldFrom(value=value):
            yield value, "yielding from"
        case ast.FormattedValue(value=value):
            yield value, "formatting"
        case ast.Assign(targets=targets, value=value) if any(isinstance(one, ast.Tuple | ast.List) for one in targets):
            yield value, "unpacking"
        case ast.Starred(value=value) if not isinstance(source.parent(node), ast.Set):
            yield value, "unpacking"
        case ast.Call(func=func, args=args) if _leaks(source, func):
            for argument in args:
                yield argument, "passing on"


def _leaks(source: Source, func: ast.expr) -> bool:
    if source.is_builtin(func, *_ORDER_LEAKS):
        return True
    if isinstance(func, ast.Attribute) and func.attr in _LEAKING_METHODS:
        return True
    meaning = source.dotted(func)
    return meaning is not None and meaning.startswith(_LEAKING_MODULES)

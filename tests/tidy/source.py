"""One parsed module, and what every rule asks about it: parents, scopes, imports, names."""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (ast.Module, ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)


class Finding(NamedTuple):
    """One broken rule. `symbol` is the imported module, or else the qualified name of the enclosing definition."""

    file: str
    line: int
    rule: str
    symbol: str
    message: str

    def __str__(self) -> str:
        """Return one line for a report."""
        return f"{self.file}:{self.line}: {self.rule} in {self.symbol}: {self.message}"


class Hit(NamedTuple):
    """What a rule reports: the node, a message, and the symbol if it is not the enclosing definition."""

    node: ast.AST
    message: str
    symbol: str | None = None


class Source:
    """A module's tree with parent links, the names bound in each scope, and the targets of its imports."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.tree = ast.parse(text, file)
        self.nodes = tuple(ast.walk(self.tree))
        self._parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._imports = dict(self._import_targets())
        self._bound: dict[ast.AST, set[str]] = {}
        for node in self.nodes:
            for name in _names_bound_by(node):
                self._bound.setdefault(self.scope(node), set()).add(name)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that holds `node`, or None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the parent, its parent, and so on up to the module."""
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def scope(self, node: ast.AST) -> ast.AST:
        """Return the scope in which `node` stands; an argument stands in its function."""
        return next((above for above in self.ancestors(node) if isinstance(above, _SCOPES)), self.tree)

    def binding_scope(self, name: ast.Name) -> ast.AST | None:
        """Return the scope that binds what `name` reads, or None: a builtin. Class bodies are invisible to methods."""
        scope = self.scope(name)
        innermost = scope
        while True:
            if (scope is innermost or not isinstance(scope, ast.ClassDef)) and name.id in self._bound.get(scope, ()):
                return scope
            if scope is self.tree:
                return None
            scope = self.scope(scope)

    def is_builtin(self, node: ast.AST, *names: str) -> bool:
        """Tell whether `node` reads one of the builtin `names`."""
        return isinstance(node, ast.Name) and node.id in names and self.binding_scope(node) is None

    def dotted(self, node: ast.AST) -> str | None:
        """Return what an imported name or attribute chain means, such as `os.environ.get`; None if it is not imported."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return self._imports.get(node.id) if isinstance(node, ast.Name) else None

    def reads(self) -> Iterator[tuple[ast.expr, str]]:
        """Yield every outermost imported name or chain with its meaning."""
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and not isinstance(self.parent(node), ast.Attribute):
                meaning = self.dotted(node)
                if meaning is not None:
                    yield node, meaning

    def imports(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
        """Yield every absolute import as (node, dotted module), those for type checkers alone left out."""
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and not self._for_types(node):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        yield node, alias.name
                elif node.module is not None and node.level == 0:
                    yield node, node.module

    def qualname(self, node: ast.AST) -> str:
        """Return the dotted name of the definition around `node`, or `<module>`."""
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        names = [above.name for above in (node, *self.ancestors(node)) if isinstance(above, definitions)]
        return ".".join(reversed(names)) or "<module>"

    def _for_types(self, node: ast.AST) -> bool:
        return any(
            isinstance(above, ast.If)
            and isinstance(above.test, ast.Name | ast.Attribute)
            and ast.unparse(above.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
            for above in self.ancestors(node)
        )

    def _import_targets(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
                for alias in node.names:
                    yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _names_bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name

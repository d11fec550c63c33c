"""The other rules: inputs from outside (§7.1), floats (§7.4), work outside the scheduler (§7.5), state that outlives a run."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from tests.tidy.processes import deadline_compare, defect_set, direct_draw, generator_cleanup
from tests.tidy.sets import Sets, is_order_free, set_order, set_pop
from tests.tidy.source import Hit, Source

_BANNED: Final = {
    **dict.fromkeys(("time", "datetime", "sched"), "the engine's virtual clock (now_ns)"),
    **dict.fromkeys(("random", "secrets", "uuid"), "core.streams"),
    **dict.fromkeys(("threading", "_thread", "multiprocessing", "concurrent", "queue"), "the scheduling queue"),
    **dict.fromkeys(("asyncio", "selectors", "select", "signal", "subprocess", "atexit"), "the scheduling queue"),
    **dict.fromkeys(("socket", "socketserver", "ssl", "http", "urllib", "ftplib"), "the simulated network"),
    **dict.fromkeys(("platform", "getpass", "pwd", "grp", "resource", "locale"), "the scenario file"),
    **dict.fromkeys(("statistics", "cmath"), "integer arithmetic"),
    "tempfile": "a name derived from the output path",
    "ctypes": "plain Python",
}
"""Module -> what to use instead."""

_AMBIENT: Final = (
    *("os.environ", "os.environb", "os.getenv", "os.getenvb", "os.urandom", "os.getrandom", "os.getpid", "os.getppid"),
    *("os.uname", "os.getlogin", "os.getuid", "os.times", "os.cpu_count", "os.get_terminal_size", "os.getcwd"),
    *("sys.argv", "sys.platform", "sys.flags", "sys.byteorder", "sys.hash_info", "sys.maxsize", "sys.implementation"),
    *("sys.getrefcount", "sys.version", "sys.version_info", "pathlib.Path.cwd", "pathlib.Path.home"),
)
_FILE_MODULES: Final = (
    "os",
    "pathlib",
    "shutil",
    "glob",
    "fileinput",
    "mmap",
    "zipfile",
    "tarfile",
    "sqlite3",
    "shelve",
)
_WRITERS: Final = (
    *("write_text", "write_bytes", "mkdir", "rmdir", "unlink", "rename", "touch", "symlink_to", "hardlink_to"),
    *("chmod", "rmtree", "makedirs", "copyfile", "copytree", "truncate"),
)
_INTEGER_MATH: Final = ("gcd", "lcm", "isqrt", "comb", "perm", "factorial", "prod")
_LISTINGS: Final = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "glob.iglob")
_MUTABLE_CALLS: Final = ("list", "dict", "set", "bytearray")
_MUTABLE_TYPES: Final = (
    *("collections.defaultdict", "collections.deque", "collections.Counter", "collections.OrderedDict"),
    *("itertools.count", "itertools.cycle"),
)
_MUTATORS: Final = (
    *("append", "appendleft", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove"),
    *("reverse", "setdefault", "sort", "update"),
)
_PERCENT_FLOAT: Final = re.compile(r"%[-+ #0-9.*]*[eEfFgG]")

Rule = Callable[[Source, Sets], Iterator[Hit]]


def banned_import(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Modules that read the clock, host randomness or the machine, or that run code beside the engine (§7.1, §7.5)."""
    for node, module in source.imports():
        top = module.partition(".")[0]
        if top in _BANNED:
            yield Hit(node, f"{top} is not an input of a run: use {_BANNED[top]}", top)


def ambient_input(source: Source, _sets: Sets) -> Iterator[Hit]:
    """The environment, the process and the interpreter's own facts (§7.1)."""
    for read, meaning in source.reads():
        if any(meaning == name or meaning.startswith(f"{name}.") for name in _AMBIENT):
            yield Hit(read, f"{meaning} differs from machine to machine: take it from the scenario")
    for node in source.nodes:
        if source.is_builtin(node, "input", "breakpoint"):
            yield Hit(node, "a run asks nobody")


def file_access(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Any access to files (§7.1)."""
    for statement, module in source.imports():
        top = module.partition(".")[0]
        if top in _FILE_MODULES and not _only_names_paths(statement):
            yield Hit(
                statement, f"{top} reaches the file system: only the loader, the bundle and the command line do", top
            )
    for node in source.nodes:
        if source.is_builtin(node, "open") or source.dotted(node) in ("io.open", "io.FileIO", "codecs.open"):
            yield Hit(node, "files are opened by the loader, the bundle and the command line only")


def _only_names_paths(node: ast.Import | ast.ImportFrom) -> bool:
    """Tell whether an import takes nothing but pathlib's pure paths, which are strings with grammar."""
    return isinstance(node, ast.ImportFrom) and all(alias.name.startswith("Pure") for alias in node.names)


def file_write(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Writes to files, where reading is allowed (§8.4 "Loading is pure")."""
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _WRITERS:
                yield Hit(node, f"{name} changes the file system")
            case ast.Call(func=ast.Attribute(attr="replace"), args=[_], keywords=[]):  # str.replace takes two
                yield Hit(node, "Path.replace changes the file system")
            case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open") as func) if not _opens_to_read(
                node, func
            ):
                yield Hit(node, "files are opened to be read")


def _opens_to_read(node: ast.Call, func: ast.expr) -> bool:
    given = [*node.args, None, None][1 if isinstance(func, ast.Name) else 0]
    mode = next((keyword.value for keyword in node.keywords if keyword.arg == "mode"), given)
    return mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb", "rt"))


def identity(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Builtin hash() and id(): the one is salted per process, the other is an address (§7.3)."""
    for node in source.nodes:
        if source.is_builtin(node, "hash", "id"):
            yield Hit(node, "hash() and id() differ from process to process: compare the values")
        elif isinstance(node, ast.Attribute) and node.attr == "__hash__" and isinstance(node.ctx, ast.Load):
            yield Hit(node, "__hash__ differs from process to process: compare the values")


def floating_point(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Floats: literals, true division, conversions, rounding, float functions, float formatting (§7.4)."""
    for node in source.nodes:
        message = _float_message(source, node)
        if message is not None:
            yield Hit(node, message)
    for read, meaning in source.reads():
        module, _, function = meaning.partition(".")
        if module == "math" and function and function.partition(".")[0] not in _INTEGER_MATH:
            yield Hit(read, f"{meaning} computes in floats")
        elif meaning in ("operator.truediv", "operator.itruediv"):
            yield Hit(read, f"{meaning} gives a float: use //")


def _float_message(source: Source, node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=float() | complex()):
            return f"float literal {node.value!r}: write an integer with its unit"
        case ast.BinOp(op=ast.Div()) if not _is_path(node):
            return "/ gives a float: use // (or joinpath for a path)"
        case ast.AugAssign(op=ast.Div()):
            return "/= gives a float: use //="
        case ast.BinOp(op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            return "a negative power gives a float"
        case ast.Name(id="float") if source.is_builtin(node, "float") and not _is_type_test(source, node):
            return "float is not a type of the simulator"
        case ast.Name(id="round" | "complex") if source.is_builtin(node, "round", "complex"):
            return "rounding starts from a float: use // with an explicit rule"
        case ast.FormattedValue(format_spec=ast.JoinedStr(values=[*_, ast.Constant(value=str(text))])):
            return "float formatting: divide with // and %" if text.endswith(tuple("eEfFgG%")) else None
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()) if _PERCENT_FLOAT.search(text):
            return "float formatting: divide with // and %"
    return None


def _is_path(node: ast.expr) -> bool:
    """Tell whether `node` can only be a path: a division with a string on one side."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _is_path(left) or _is_path(right)
    return False


def _is_type_test(source: Source, node: ast.AST) -> bool:
    """Tell whether `float` is only compared with: isinstance(x, float), type(x) is float, case float()."""
    above = source.parent(node)
    while isinstance(above, ast.Tuple) or (isinstance(above, ast.BinOp) and isinstance(above.op, ast.BitOr)):
        node, above = above, source.parent(above)
    match above:
        case ast.Call(func=func, args=[_, tested]):
            return tested is node and source.is_builtin(func, "isinstance", "issubclass")
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]) | ast.MatchClass():
            return True
    return False


def mutable_state(source: Source, _sets: Sets) -> Iterator[Hit]:
    """State that outlives a run: counters, globals, module tables that functions change, mutable defaults (§7)."""
    tables = {}
    for node in source.nodes:
        match node:
            case ast.Global(names=names):
                yield Hit(node, f"global {', '.join(names)}: keep it in the run's own objects")
            case ast.arguments(defaults=defaults, kw_defaults=kw_defaults):
                for default in (*defaults, *kw_defaults):
                    if default is not None and _is_mutable(source, default):
                        yield Hit(default, "a mutable default argument is shared between calls")
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if isinstance(source.scope(node), ast.Module | ast.ClassDef) and _is_mutable(source, value):
                tables[source.scope(node), name] = value
                if isinstance(value, ast.Call) and source.dotted(value.func) in ("itertools.count", "itertools.cycle"):
                    yield Hit(value, f"{name} counts across runs: keep it in the run's own objects")
    for node in source.nodes:
        changed = _changed_name(source, node)
        if changed is not None and source.qualname(node) != "<module>":
            scope = source.binding_scope(changed)
            if scope is source.tree and (scope, changed.id) in tables:
                yield Hit(node, f"{changed.id} is shared by every run of the process: keep it in the run's own objects")


def _is_mutable(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    if not isinstance(node, ast.Call):
        return False
    return source.is_builtin(node.func, *_MUTABLE_CALLS) or source.dotted(node.func) in _MUTABLE_TYPES


def _changed_name(source: Source, node: ast.AST) -> ast.Name | None:
    match node:
        case ast.Subscript(value=ast.Name() as name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=method)) if method in _MUTATORS:
            return name
        case ast.Call(func=func, args=[ast.Name() as name, *_]) if source.is_builtin(func, "next"):
            return name
    return None


def unsorted_listing(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Directory listings in the order of the file system (§7.1)."""
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name) as func):
                lists = name in ("iterdir", "rglob") or (name == "glob" and source.dotted(func) is None)
            case ast.Call():
                lists = False
            case _:
                continue
        if (lists or source.dotted(node.func) in _LISTINGS) and not is_order_free(source, node):
            yield Hit(node, "a listing has no order of its own: write sorted(...)")


def async_code(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Coroutines: nothing runs but what the queue pops (§7.5)."""
    for node in source.nodes:
        match node:
            case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
                yield Hit(node, "no coroutine: every effect follows a popped event")
            case ast.comprehension(is_async=1):
                yield Hit(node.target, "no coroutine: every effect follows a popped event")


def dynamic_code(source: Source, _sets: Sets) -> Iterator[Hit]:
    """Code that no checker can read: eval, exec, imports by name."""
    for statement, module in source.imports():
        top = module.partition(".")[0]
        if top in ("importlib", "runpy", "pkgutil", "imp"):
            yield Hit(statement, f"{top} imports by name, past every check", top)
    for node in source.nodes:
        if source.is_builtin(node, "eval", "exec", "compile", "__import__", "globals", "locals", "vars"):
            yield Hit(node, "code made at run time passes every check unread")


RULES: Final[dict[str, Rule]] = {
    "banned-import": banned_import,
    "ambient-input": ambient_input,
    "file-access": file_access,
    "file-write": file_write,
    "identity": identity,
    "set-order": set_order,
    "set-pop": set_pop,
    "floating-point": floating_point,
    "mutable-state": mutable_state,
    "unsorted-listing": unsorted_listing,
    "async-code": async_code,
    "dynamic-code": dynamic_code,
    "generator-cleanup": generator_cleanup,
    "defect-set": defect_set,
    "deadline-compare": deadline_compare,
    "direct-draw": direct_draw,
}

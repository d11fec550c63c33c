"""The merged tables of an `extends` chain, each value with the file it came from, and the report of what is wrong.

Merge (§8.4): tables merge key by key, the child's leaf wins; lists append, base first. A list entry is named by its place
in its own file, so that the reader finds it there.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from simharness.core.errors import Problem, ScenarioError
from simharness.scenario.reading import SourceFile
from simharness.scenario.schema import Complain
from simharness.scenario.words import key_shown, printable, suggestion, type_word, unknown

ARRAYS: Final = ("peers", "relays", "meshes", "links", "mutations", "snapshots", "assertions")
TABLES: Final = ("default_tick", "default_link", "base")
SCALARS: Final = ("name", "seed", "duration_ns", "early_terminate_on_all_assertions_resolved")
_KNOWN: Final = SCALARS + TABLES + ARRAYS


class Document:
    """The merged scenario, still untyped, and every `Problem` found in it so far."""

    def __init__(self, entry: str, kind_tables: Sequence[str] = ()) -> None:
        self.entry = entry
        self.kind_tables = tuple(kind_tables)
        self._known = (*_KNOWN, *self.kind_tables)
        self.values: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self.doubtful: dict[str, bool] = {}
        """Top-level keys with a mistake of their own: what would follow from their absence is not reported."""
        self._leaf_file: dict[str, str] = {}
        self._spans: dict[str, list[tuple[int, str]]] = {}

    # --- merging ---------------------------------------------------------------------------------------------------

    def add_file(self, file: SourceFile) -> None:
        """Merge one file over what is there; call base first, child last."""
        sound: dict[str, Any] = {}
        for key, value in file.table.items():
            if key not in self._known:
                self._unknown_key(file, key)
            elif rule := self._wrong_shape(key, value):
                self.complain(file.shown, key, rule)
                self.doubtful[key] = True
            elif key != "base":
                sound[key] = value
        self._merge(self.values, sound, "", file.shown)

    def _unknown_key(self, file: SourceFile, key: str) -> None:
        self.complain(file.shown, key_shown(key), unknown("field", key, self._known))
        if (meant := suggestion(key, self._known)) is not None:
            self.doubtful[meant] = True

    def _wrong_shape(self, key: str, value: Any) -> str | None:
        if key in ARRAYS:
            return None if isinstance(value, list) else f"must be an array of tables, not {type_word(value)}"
        if key in TABLES or key in self.kind_tables:
            return None if isinstance(value, dict) else f"must be a table, not {type_word(value)}"
        return None

    def _merge(self, into: dict[str, Any], table: dict[str, Any], path: str, file: str) -> None:
        for key, value in table.items():
            name = f"{path}{key}"
            old = into.get(key)
            if old is not None and _shape(old) != _shape(value):
                was = self._leaf_file.get(name, "its base")
                self.complain(file, name, f"is {type_word(value)} here and {type_word(old)} in {was}")
            elif isinstance(value, dict):
                self._leaf_file.setdefault(name, file)
                self._merge(into.setdefault(key, {}), value, f"{name}.", file)
            elif isinstance(value, list):
                entries = into.setdefault(key, [])
                self._spans.setdefault(name, []).append((len(entries), file))
                entries.extend(value)
            else:
                self._leaf_file[name] = file
                into[key] = value

    def override(self, key: str, value: Any, origin: str) -> None:
        """Replace a top-level scalar by an option of the caller."""
        self.values[key] = value
        self._leaf_file[key] = origin

    # --- looking up ------------------------------------------------------------------------------------------------

    def entries(self, key: str) -> list[Any]:
        """Return the merged entries of a top-level array."""
        found: list[Any] = self.values.get(key, [])
        return found

    def place(self, key: str, index: int) -> tuple[str, str]:
        """Return the file of a merged list entry and its name there, such as `links[2]`."""
        spans = self._spans[key]
        start, file = spans[bisect_right(spans, index, key=lambda span: span[0]) - 1]
        return file, f"{key}[{index - start}]"

    def place_from(self, key: str, index: int, reader: tuple[str, int]) -> str:
        """Name an entry in a message about another: with its file if that is another one."""
        file, name = self.place(key, index)
        return name if file == self.place(*reader)[0] else f"{name} of {file}"

    # --- complaining -----------------------------------------------------------------------------------------------

    def complain(self, file: str, field: str, rule: str) -> None:
        """Report a mistake at a place that is known already."""
        self.problems.append(Problem(file, field, printable(rule)))

    def at_leaf(self, field: str, rule: str) -> None:
        """Report a mistake in a top-level scalar or a leaf of a table; one that is missing counts for the entry file."""
        self.complain(self._leaf_file.get(field, self.entry), field, rule)

    def at_table(self, field: str, rule: str) -> None:
        """Report a mistake in the table of a host kind, once however many peers it is merged under."""
        path, bracket, rest = field.partition("[")
        spans = self._spans.get(path)
        if spans and bracket and rest.partition("]")[0].isdecimal():
            number, _, rest = rest.partition("]")
            file, name = self.place(path, int(number))
            problem = Problem(file, name + rest, printable(rule))
        else:
            own = (
                spans[-1][1]
                if spans
                else self._leaf_file.get(path, self._leaf_file.get(path.partition(".")[0], self.entry))
            )
            problem = Problem(own, field, printable(rule))
        if problem not in self.problems:
            self.problems.append(problem)

    def at_entry(self, key: str, index: int, field: str, rule: str) -> None:
        """Report a mistake in a list entry; `field` may be empty for the entry itself."""
        file, name = self.place(key, index)
        self.complain(file, f"{name}.{field}" if field else name, rule)

    def entry_complaints(self, key: str, index: int) -> Complain:
        """Return `at_entry` for one entry."""
        return partial(self.at_entry, key, index)

    def refuse_if_wrong(self) -> None:
        """Raise what was reported.

        Raises:
            ScenarioError: If anything was.
        """
        if self.problems:
            raise ScenarioError(self.problems)


def merge(chain: Sequence[SourceFile], kind_tables: Sequence[str] = ()) -> Document:
    """Merge a chain that is given child first. `kind_tables` are the top-level tables that host kinds of the chain read."""
    document = Document(chain[0].shown, kind_tables)
    for file in reversed(chain):
        document.add_file(file)
    return document


def _shape(value: Any) -> str:
    return "table" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"

"""The comment block of a scenario file: what it must say, and where the error is if it does not (§8.3)."""

import pytest

from simharness.core.errors import InputError
from simharness.stateful.headers import Header, header_of

GOOD = "# A file.\n#\n# reproduces: nothing\n# expected: pass-now\n# extends: none\n\nname = 'x'\n"
STUDY = GOOD.replace("pass-now", "sensitivity-study").replace("# extends", "# counter: drop:lossy\n# extends")


def test_a_header_is_read():
    """The machine-checked lines, in any place of the block."""
    assert header_of(GOOD, file="f") == Header(reproduces="nothing", expected="pass-now", extends="none")
    assert header_of(STUDY, file="f").counter == "drop:lossy"
    assert header_of(GOOD.replace("pass-now", "fail-until-fix"), file="f").expected == "fail-until-fix"


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("", "line 1", "lacks its line `# reproduces: ...`"),
        ("name = 'x'\n# expected: pass-now\n", "line 1", "lacks its line `# reproduces: ...`"),
        (GOOD.replace("# expected: pass-now\n", ""), "line 4", "lacks its line `# expected: ...`"),
        (GOOD.replace("# extends: none\n", ""), "line 4", "lacks its line `# extends: ...`"),
        (GOOD.replace("nothing", ""), "line 5", "lacks its line `# reproduces: ...`"),
        (GOOD.replace("pass-now", "passes"), "line 4", "is one of pass-now, fail-until-fix, sensitivity-study"),
        (GOOD.replace("# extends", "# expected: pass-now\n# extends"), "line 5", "# expected: is given twice"),
        (GOOD.replace("pass-now", "sensitivity-study"), "line 4", "names the counter that must be non-zero"),
        (STUDY.replace("sensitivity-study", "pass-now"), "line 4", "and nothing else, names the counter"),
        (STUDY.replace("drop:lossy", "droop"), "line 5", "unknown counter 'droop'; choose from partition"),
    ],
)
def test_a_wrong_header_names_file_line_and_rule(text, field, rule):
    """Bad input: one error for one mistake."""
    with pytest.raises(InputError) as caught:
        header_of(text, file="some/file.toml")
    problem = caught.value.problem
    assert (problem.file, problem.field) == ("some/file.toml", field)
    assert rule in problem.rule

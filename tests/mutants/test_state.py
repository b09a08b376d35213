"""The tool that puts small faults into the rules finds faults, tries them, and keeps its list of survivors honest."""

import json
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT
from tests.mutants.edits import NOTHING, Edit, edited, edits_of
from tests.mutants.state import FIRST, FOLDER, QUICK, Bench, main, suite_of
from tests.mutants.trials import Trial, known_survivors, remembered, report, trials_of

TOY = '''
"""A rule."""

def is_full(held: int, most: int = 3) -> bool:
    """Whether nothing more goes in."""
    return held >= most
'''
STRONG = """
from toy.rule import is_full

def test_the_edges():
    assert [is_full(2), is_full(3), is_full(4)] == [False, True, True]
"""
WEAK = """
from toy.rule import is_full

def test_the_middle():
    assert is_full(9)
    assert not is_full(0)
"""


def found(source: str) -> set[tuple[str, str]]:
    return {(each.old, each.new) for each in edits_of(source)}


@pytest.mark.parametrize(
    ("source", "edits"),
    [
        ("x = a < b", {("a < b", "a <= b"), ("a < b", "a >= b")}),
        ("x = a is not b", {("a is not b", "a is b")}),
        ("x = a in b == c", {("a in b == c", "a not in b == c"), ("a in b == c", "a in b != c")}),
        ("x = a and b", {("a and b", "a or b"), ("a and b", "a"), ("a and b", "b")}),
        ("x = not a", {("not a", "a")}),
        ("x = -a", {("-a", "a")}),
        ("x = a + b", {("a + b", "a - b")}),
        ("x = 2", {("2", "3"), ("2", "1")}),
        ("x = 0", {("0", "1")}),
        ("x = True", {("True", "False")}),
        ("x = 'word'", set()),
        ("x = float('inf')", {("'inf'", "'-inf'")}),
        ("x = min(a, b)", {("min(a, b)", "max(a, b)")}),
        ("x = sorted(a, key=b)", {("sorted(a, key=b)", "list(a)")}),
        ("x = attrs.evolve(a, b=c)", {("b=c", NOTHING)}),
        ("x = Route(b=c)", {("b=c", NOTHING)}),
        ("x = call(b=c)", set()),
        ("x = Verdict.HEALTHY", {("Verdict.HEALTHY", "Verdict.UNHEALTHY")}),
        ("x = Mark.DOWN", {("Mark.DOWN", "Mark.UP")}),
        ("x = [a for a in b if a]", {("a", NOTHING)}),
        ("if a:\n    b()", {("a", "not a"), ("b()", NOTHING), ("if a: b()", NOTHING)}),
        ("def f(a):\n    a = b\n    return a", {("a = b", NOTHING), ("return a", NOTHING)}),
        ("def f():\n    a = b", set()),
        ("match a:\n    case B() | C():\n        pass", {("B()", NOTHING), ("C()", NOTHING)}),
        ("match a:\n    case B() if c:\n        pass", {("c", "not c")}),
        ("import a\n'''Words.'''\nNames = A | B\nassert_never(a)\nx = f'{a + 1}'", set()),
        ("@frozen(a=True)\ndef f(x: a | b) -> a | b: ...", set()),
    ],
)
def test_every_kind_of_edit_is_found(source: str, edits: set[tuple[str, str]]) -> None:
    """A kind that is not found looks like a kind that every test notices."""
    assert edits == found(source)


def test_an_edit_is_made_where_it_was_found() -> None:
    """The second of two like ones, and no other."""
    source = "def f(a, b):\n    return a < b, a < b\n"
    edits = [each for each in edits_of(source) if each.new == "a <= b"]

    assert [(0, 2, "f"), (1, 2, "f")] == [(each.nth, each.line, each.where) for each in edits]
    made: dict[str, object] = {}
    exec(compile(edited(source, edits[1].number), "f", "exec"), made)
    assert (False, True) == made["f"](1, 1)  # type: ignore[operator]  # the function just made
    with pytest.raises(IndexError):
        edited(source, 99)


def test_every_edit_of_the_rules_compiles_and_has_a_name_of_its_own() -> None:
    """An edit that is no program would be killed by every test, and prove nothing."""
    for path in sorted((ROOT / FOLDER).glob("*.py")):
        source = path.read_text()
        edits = edits_of(source)
        assert len(edits) == len({each.key for each in edits})
        for edit in edits[::60]:
            compile(edited(source, edit.number), str(path), "exec")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A project with one rule and two sets of tests for it."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "toy" / "__init__.py").touch()
    (tmp_path / "toy" / "rule.py").write_text(TOY)
    (tmp_path / "tests" / "test_strong.py").write_text(STRONG)
    (tmp_path / "tests" / "test_weak.py").write_text(WEAK)
    return tmp_path


@pytest.mark.slow
def test_a_weak_test_lets_faults_survive_and_a_strong_one_does_not(toy: Path) -> None:
    """Then the tool itself can be believed: it says what a test is worth."""
    rule = toy / "toy" / "rule.py"
    edits: list[Edit | None] = [*edits_of(TOY), None]
    survivors: dict[str, list[str]] = {}
    with Bench(toy, "tests", package="toy", paths=[ROOT]) as bench:
        for name in ("strong", "weak"):
            outcomes = [
                (
                    bench.outcome(rule, each.number if each else None, [str(toy / "tests" / f"test_{name}.py")], QUICK),
                    each,
                )
                for each in edits
            ]
            survivors[name] = [f"{each.old} -> {each.new}" if each else "as it is" for outcome, each in outcomes
                               if outcome == "survived"]  # fmt: skip
        assert "no result" not in str(outcomes)

    assert ["as it is"] == survivors["strong"]
    assert ["3 -> 4", "3 -> 2", "held >= most -> held > most", "as it is"] == survivors["weak"]


@pytest.mark.slow
def test_a_fault_in_what_runs_on_import_is_tried_by_importing(toy: Path) -> None:
    """Exchanged afterwards, its code would never run again, and the fault would look like one that nobody can see."""
    (toy / "toy" / "rule.py").write_text("def build():\n    return inner() + 1\n\n\ndef inner():\n    return 5\n\n\n"
                                         "BUILT = build()\n")  # fmt: skip
    (toy / "tests" / "test_built.py").write_text("from toy import rule\n\ndef test_it():\n    assert 6 == rule.BUILT\n")
    edits = edits_of((toy / "toy" / "rule.py").read_text())
    with Bench(toy, "tests", package="toy", paths=[ROOT]) as bench:
        outcomes = {
            bench.outcome(toy / "toy" / "rule.py", each.number, [str(toy / "tests" / "test_built.py")], QUICK)
            for each in edits
        }

    assert {"killed"} == outcomes


@pytest.mark.slow
def test_a_fault_that_loops_for_ever_is_killed_and_the_next_is_tried(toy: Path) -> None:
    """One edit must not stop the other two thousand."""
    (toy / "toy" / "rule.py").write_text("def f(n):\n    while n > 0:\n        n -= 1\n    return n\n")
    (toy / "tests" / "test_loop.py").write_text("from toy.rule import f\n\ndef test_it_ends():\n    assert f(3) == 0\n")
    edits = {(each.old, each.new): each.number for each in edits_of((toy / "toy" / "rule.py").read_text())}
    with Bench(toy, "tests", package="toy", paths=[ROOT], timeout=3.0) as bench:
        outcomes = [
            bench.outcome(toy / "toy" / "rule.py", number, [str(toy / "tests" / "test_loop.py")], QUICK)
            for number in (edits["n -= 1", NOTHING], edits["n > 0", "n < 0"], None)
        ]

    assert ["timeout", "killed", "survived"] == outcomes


@pytest.mark.slow
def test_tests_that_cannot_be_run_are_no_kill(toy: Path) -> None:
    """Else a wrong path would make every module look perfect."""
    with (
        Bench(toy, "tests", package="toy", paths=[ROOT]) as bench,
        pytest.raises(RuntimeError, match="no result: pytest ended with 4"),
    ):
        bench.outcome(toy / "toy" / "rule.py", None, [str(toy / "tests" / "test_absent.py")], QUICK)


def test_every_survivor_that_is_listed_is_an_edit_of_the_rules_and_has_a_reason() -> None:
    """A reason for a fault that does not exist any more is a reason that nobody checks."""
    edits = {(each.module, *each.edit.key) for each in trials_of(ROOT / FOLDER)}
    listed = known_survivors()

    assert set() == listed.keys() - edits
    assert all(len(reason) > 20 for reason in listed.values())


def test_every_module_of_the_rules_has_tests_that_know_it() -> None:
    """They run first: without them every edit would cost the whole suite."""
    modules = {path.stem for path in (ROOT / FOLDER).glob("*.py")} - {"__init__"}

    assert set() == {module for module in modules if not suite_of(ROOT, module)[0]}
    assert set() == FIRST.keys() - modules


def a_trial(outcome: str, new: str = "a <= b") -> Trial:
    edit = Edit(number=0, line=7, where="f", kind="comparison", old="a < b", new=new)
    return Trial(module="health", digest="abc", edit=edit, outcome=outcome)


def test_a_survivor_without_a_reason_is_told_and_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    """That is the gate."""
    assert 1 == report([a_trial("survived"), a_trial("killed", "a >= b"), a_trial("survived", NOTHING)])
    said = capsys.readouterr().out
    assert "all            3 edits     1 killed    2 survived" in said
    assert "health:7 f: a < b -> a <= b: NOT EXPLAINED" in said
    assert "health:7 f: without a < b: NOT EXPLAINED" in said
    assert 1 == report([a_trial("survived")], as_toml=True)
    assert '[[survivor]]\nmodule = "health"\nwhere = "f"\nold = "a < b"\nnew = "a <= b"\n' in capsys.readouterr().out
    assert 0 == report([a_trial("killed"), a_trial("timeout")])


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    """The whole takes an hour; the last word about a trial counts, since tests may be new."""
    results = tmp_path / "results"
    trials = [a_trial("killed"), a_trial("survived", "a > b"), a_trial("killed", "a > b")]
    results.write_text("".join(json.dumps({"key": each.key, "outcome": each.outcome}) + "\n" for each in trials))

    assert {json.dumps(each.key): "killed" for each in trials} == remembered(results)
    assert {} == remembered(tmp_path / "nothing")


def test_what_is_known_of_a_module_is_not_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left to do here, so nothing is copied or forked."""
    results = tmp_path / "results"
    trials = trials_of(ROOT / FOLDER, ["events"])
    results.write_text("".join(json.dumps({"key": each.key, "outcome": "killed"}) + "\n" for each in trials))

    assert 0 == main(["--module", "events", "--results", str(results)])
    assert f"all        {len(trials):5} edits {len(trials):5} killed    0 survived" in capsys.readouterr().out


def test_a_module_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A misspelt name must not pass for a perfect module."""
    with pytest.raises(SystemExit) as ended:
        main(["--module", "helth", "--results", str(tmp_path / "results")])

    assert 2 == ended.value.code
    assert "there is no module helth in sniffgate/state" in capsys.readouterr().err


@pytest.mark.soak
def test_a_sample_of_the_faults_is_caught_or_explained(tmp_path: Path) -> None:
    """The modules that are done stay so; each time the whole would be too dear, which is `nox -s mutation`."""
    done = [word for module in ("health", "terms", "evidence", "verdict") for word in ("--module", module)]

    assert 0 == main([*done, "--sample", "40", "--seed", "5", "--results", str(tmp_path / "results")])

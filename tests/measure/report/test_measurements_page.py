"""The manual's page and the committed report are the committed artifact's, to the last figure."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.measure.report.facts import Facts, Place
from sniffgate.measure.report.gathered import Gathered, gather
from sniffgate.measure.report.macros import camel, name_of
from sniffgate.measure.report.manual import substitutions
from sniffgate.measure.report.original import original
from sniffgate.measure.report.tables.claims import CLAIMS
from sniffgate.measure.report.write import texts, whole_page
from sniffgate.measure.study.artifact import load_study

DOCS = Path(__file__).parents[3] / "docs"
RUN = DOCS / "measurements"
PAGE = DOCS / "measurements.md"
NOT_PROSE = (
    r"^```.*?^```$",  # blocks
    r"^<!--.*?-->$",
    r"`[^`]+`",
    r"\{\{ \w+ \}\}",
    r"\]\([^)]+\)",
)


@pytest.fixture(scope="module")
def gathered() -> Gathered:
    """The committed run."""
    return gather(load_study(RUN))


def test_the_committed_report_is_that_of_the_committed_artifact(gathered: Gathered) -> None:
    """`sniffgate measure report docs/measurements` was run after the study, and after the report was changed."""
    pictures = {path.stem: path.read_text(encoding="utf-8") for path in (RUN / "figures").glob("*.svg")}
    made = texts(gathered) | {"index.html": whole_page(gathered, pictures)}

    assert [] == [path for path, text in made.items() if (RUN / path).read_text(encoding="utf-8") != text]


def test_no_table_is_left_from_an_older_report(gathered: Gathered) -> None:
    """A file that nothing writes any more goes on being read."""
    assert set() == {path.relative_to(RUN).as_posix() for path in (RUN / "tables").iterdir()} - set(texts(gathered))


def test_no_figure_on_the_page_is_typed_by_hand() -> None:
    """It would be true of one run, and stay when the next one is made."""
    prose = PAGE.read_text(encoding="utf-8")
    for pattern in NOT_PROSE:
        prose = re.sub(pattern, "", prose, flags=re.DOTALL | re.MULTILINE)

    assert [] == [line for line in prose.splitlines() if re.search(r"\d", line)]


def test_every_figure_on_the_page_is_in_the_artifact() -> None:
    """A name that is misspelt, or whose scenario is gone, would break the build of the manual, or show a dash."""
    known = substitutions(RUN)
    wanted = re.findall(r"\{\{ (\w+) \}\}", PAGE.read_text(encoding="utf-8"))

    assert len(wanted) > 50
    assert [] == [name for name in wanted if known.get(name, "–") == "–"]


def test_every_table_on_the_page_is_of_the_report(gathered: Gathered) -> None:
    """And each one of the report's is on the page, but for the lessons, which are the page."""
    shown = re.findall(
        r"^```\{include\} measurements/tables/(\w+)\.md$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )

    assert {table.name for table in gathered.tables} - {"lessons"} == set(shown)
    assert {1} == set(Counter(shown).values())


def test_every_figure_in_the_lessons_is_in_the_artifact(gathered: Gathered) -> None:
    """A lesson without its figure is an opinion."""
    wanted = re.findall(r"\{(\w+)\}", CLAIMS.read_text(encoding="utf-8"))

    assert len(wanted) > 30
    assert [] == [name for name in wanted if gathered.numbers.get(f"Sg{name}", "–") == "–"]


def test_every_macro_in_the_document_is_defined(gathered: Gathered) -> None:
    """TeX would stop at the first that is not."""
    made = texts(gathered)
    defined = re.findall(r"^\\newcommand\*\{\\(\w+)\}", made["numbers.tex"], re.MULTILINE)

    assert {1} == set(Counter(defined).values())
    assert set(defined) == set(re.findall(r"\\(Sg\w+)", made["main.tex"].replace("\\textbackslash Sg", "")))
    assert [] == [name for name in defined if not re.fullmatch(r"[A-Za-z]+", name)]


def test_no_two_observations_have_one_name() -> None:
    """The second would silently stand for the first."""
    places = Facts(load_study(RUN)).places()

    assert {1} == set(Counter(map(name_of, places)).values())


def test_names_follow_from_the_place_alone() -> None:
    """They stand in other people's documents, so they must not change."""
    assert "SgFailoverSwitchMs" == name_of(Place("failover", "default", "switch_ms"))
    assert "SgStartupIdleProbesNodeA" == name_of(Place("startup", "default", "idle_probes_node-a"))
    assert "GridTcpFiveZeroOne" == camel("grid tcp-50-1")


@given(st.text())
def test_every_name_is_made_of_letters(text: str) -> None:
    """TeX ends a macro's name at the first sign that is none."""
    assert re.fullmatch("[A-Za-z]*", camel(text))


def test_what_is_the_papers_says_whose_it_is() -> None:
    """Figures without their source are hearsay."""
    paper = original()
    page = " ".join(PAGE.read_text(encoding="utf-8").split())

    assert [] == [words for words in (paper.source.author, paper.source.title) if words not in page]
    assert 1198.72 == paper.number("FailoverSwitchMs")

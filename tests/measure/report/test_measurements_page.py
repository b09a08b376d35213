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
from sniffgate.measure.report.markdown import markdown
from sniffgate.measure.report.original import original
from sniffgate.measure.report.readme import NoSuchTable, page_beside, readme
from sniffgate.measure.report.tables.claims import CLAIMS
from sniffgate.measure.report.write import texts, whole_page, write_report
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
    made = texts(gathered) | {"index.html": whole_page(gathered, pictures), "README.md": readme(PAGE, gathered)}

    assert [] == [path for path, text in made.items() if (RUN / path).read_text(encoding="utf-8") != text]


def test_no_table_is_left_from_an_older_report(gathered: Gathered) -> None:
    """A file that nothing writes any more goes on being read."""
    assert set() == {path.relative_to(RUN).as_posix() for path in (RUN / "tables").iterdir()} - set(texts(gathered))


def test_the_page_can_be_read_without_the_manual(gathered: Gathered) -> None:
    """In a checkout nobody fills in numbers and tables. Every file that it leads to is there."""
    page = readme(PAGE, gathered)
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page)

    assert [] == re.findall(r"\{\{.*|\{include\}.*|.*\]\(measurements/.*", page)
    assert gathered.numbers["SgFailoverTrafficSwitchMs"] in page
    assert [] == [table.name for table in gathered.tables if table.name != "lessons" and markdown(table) not in page]
    assert 4 == len([each for each in links if re.fullmatch(r"figures/\w+\.png", each)])
    assert [] == [each for each in links if not (RUN / each).exists()]


def test_a_page_without_figures_shows_none(gathered: Gathered) -> None:
    """`--no-figures`: there is nothing to link to."""
    assert "figures/" not in readme(PAGE, gathered, with_figures=False).replace(
        "`sniffgate/measure/report/figures/`", ""
    )


def test_only_the_page_that_shows_the_report_is_filled_in(tmp_path: Path) -> None:
    """A page of that name may be somebody's own, and so may a README."""
    (tmp_path / "own.md").write_text("# Mine\n")
    (tmp_path / "shown.md").write_text("```{include} shown/tables/drain.md\n```\n")

    assert None is page_beside(tmp_path / "own")
    assert None is page_beside(tmp_path / "none")
    assert tmp_path / "shown.md" == page_beside(tmp_path / "shown")
    assert PAGE == page_beside(RUN)


def test_the_report_fills_in_the_page_beside_it(tmp_path: Path) -> None:
    """By the same command as everything else."""
    (tmp_path / "run.md").write_text("{{ SgNowhere }} [more](other.md#x)\n\n```{include} run/tables/drain.md\n```\n")
    paths = list(write_report(load_study(RUN), tmp_path / "run", with_figures=False))

    assert tmp_path / "run" / "README.md" == paths[-1]
    assert paths[-1].read_text().startswith("– [more](../other.md#x)\n\n**A connection that is open")


def test_a_table_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """Nothing is written then."""
    (tmp_path / "run.md").write_text("```{include} run/tables/drian.md\n```\n")
    with pytest.raises(NoSuchTable) as caught:
        list(write_report(load_study(RUN), tmp_path / "run", with_figures=False))

    assert f"{tmp_path / 'run.md'}: the report has no table 'drian'." == str(caught.value)
    assert not (tmp_path / "run").exists()


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

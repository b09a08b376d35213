"""The report as a whole: complete, self-contained, honest about what is missing, and good LaTeX."""

import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from sniffgate.cli.group import program
from sniffgate.measure.report.gathered import gather
from sniffgate.measure.report.write import texts, write_report
from sniffgate.measure.study.artifact import Arm, Observation, Scenario, Study, Trial, load_study, save_study

RUN = Path(__file__).parents[3] / "docs" / "measurements"
ENGINES = {
    "pdflatex": ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"],
    "tectonic": ["tectonic", "--only-cached", "main.tex"],
}
WANTED = [
    "semantics",
    "config",
    "control",
    "failover",
    "passive",
    "drain",
    "failmode",
    "udp",
    "grid",
    "blind",
    "overhead",
]


def small_study() -> Study:
    """One scenario with a trial that failed, one that the gateway lacks, and nothing else."""
    moment = "2026-11-30T12:00:00.000+00:00"
    good = Trial(1, moment, moment, None, {"closed_ms": Observation("ms", [1003.2])})
    bad = Trial(2, moment, moment, "node-b did not start", {"closed_ms": Observation("ms", [5.0])})
    drain = Scenario("Drain", "?", "first", state="measured")
    drain.arms["both"] = Arm("both", state="measured", trials=[good, bad])
    udp = Scenario("UDP", "?", "first", state="absent", reason="it does not forward UDP & ICMP_")
    return Study(
        host={"processor": "x"},
        kernel="6",
        python="CPython",
        versions={"sniffgate": "1"},
        commit=None,
        command=["sniffgate", "measure"],
        gateway="other {config}",
        tuning={"probe_interval_ms": 100},
        trials=None,
        started=moment,
        scenarios={"drain": drain, "udp": udp},
    )


def test_every_table_of_the_paper_is_there_in_three_forms() -> None:
    """Each for its reader: a page, a browser, a paper."""
    made = texts(gather(load_study(RUN)))

    assert [] == [f"tables/{name}.{kind}" for name in (*WANTED, "overhead") for kind in ("md", "html", "tex")
                  if f"tables/{name}.{kind}" not in made]  # fmt: skip


def test_a_failed_trial_gives_no_figure() -> None:
    """What it had seen before it failed is not known to be what it looks like."""
    made = gather(small_study())
    table = next(table for table in made.tables if table.name == "drain")

    assert "1003" == made.numbers["SgDrainBothClosedMs"] == table.rows[0][-1].text
    assert "1 of 2 trials failed: node-b did not start" == table.rows[0][-1].note


def test_what_is_absent_is_a_dash_with_its_reason() -> None:
    """Never a zero, never an empty place."""
    made = gather(small_study())
    table = next(table for table in made.tables if table.name == "udp")

    assert {"–"} == {row[-1].text for row in table.rows}
    assert ("it does not forward UDP & ICMP_",) == table.notes
    assert r"it does not forward UDP \& ICMP\_" in texts(made)["tables/udp.tex"]
    assert "–" == made.numbers["SgUdpSocketClosedLost"]


def test_sentences_about_this_gateway_stay_out_of_the_report_of_another() -> None:
    """Nor is there half a sentence where a figure is missing."""
    divergences = next(table for table in gather(small_study()).tables if table.name == "divergences")
    own = next(table for table in gather(load_study(RUN)).tables if table.name == "divergences")

    assert {"–"} == {row[-1].text for row in divergences.rows}
    assert own.rows[1][-1].text.endswith("ms. What is never to be cut is `inf`.")


class Ids(HTMLParser):
    """Reads a page: its ids, and what it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of every element."""
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "xlink:href", "data", "srcset"):
                self.references.append(value or "")


def test_the_page_needs_nothing_but_itself() -> None:
    """It is mailed, printed and opened from a disk. Links lead to places in it, and no two places share a name."""
    text = (RUN / "index.html").read_text(encoding="utf-8")
    page = Ids(text)

    assert [] == [each for each in page.references if not each.startswith("#")]
    assert set() == {each[1:] for each in page.references} - set(page.ids)
    assert set() == set(re.findall(r"url\(#?([^)]+)\)", text)) - set(page.ids)
    assert [] == [each for each, count in Counter(page.ids).items() if count > 1]
    assert "<script" not in text
    assert 4 == text.count("<svg ")


def test_a_report_of_a_run_that_was_cut_short(tmp_path: Path) -> None:
    """Ctrl-C keeps what was measured, and it can be looked at."""
    (tmp_path / "run").mkdir()
    save_study(small_study(), tmp_path / "run" / "study.json")
    command = ["measure", "report", str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--no-figures"]
    outcome = CliRunner().invoke(program, command)

    assert 0 == outcome.exit_code, outcome.output
    assert "node-b did not start" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["nowhere", "file"])
def test_a_directory_without_an_artifact_is_one_sentence(tmp_path: Path, path: str) -> None:
    """Which file, and what is wrong with it."""
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "study.json").write_text("{}")
    outcome = CliRunner().invoke(program, ["measure", "report", str(tmp_path / path)])

    assert 1 == outcome.exit_code
    assert re.fullmatch(rf"Error: {re.escape(str(tmp_path / path))}\S* .*\n", outcome.output)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """A file where the directory should be."""
    (tmp_path / "out").write_text("")
    outcome = CliRunner().invoke(
        program, ["measure", "report", str(RUN), "--out", str(tmp_path / "out"), "--no-figures"]
    )

    assert 1 == outcome.exit_code
    assert re.fullmatch(rf"Error: {re.escape(str(tmp_path))}/out\S* cannot be written: .*\n", outcome.output)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_latex_compiles_and_every_macro_resolves(tmp_path: Path, engine: str) -> None:
    """With every table, every figure and every number in it; an undefined macro would stop it."""
    if shutil.which(engine) is None:
        pytest.skip(f"{engine} is not installed (Debian: apt install texlive-latex-base texlive-latex-recommended)")
    list(write_report(load_study(RUN), tmp_path, with_figures=False))
    shutil.copytree(RUN / "figures", tmp_path / "figures")
    made = subprocess.run(ENGINES[engine], cwd=tmp_path, capture_output=True, timeout=120, check=False)

    assert 0 == made.returncode, made.stdout.decode("latin-1")[-2000:]
    assert (tmp_path / "main.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_the_latex_of_a_run_cut_short_compiles(tmp_path: Path) -> None:
    """With reasons of another gateway's making in it."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed (Debian: apt install texlive-latex-base texlive-latex-recommended)")
    list(write_report(small_study(), tmp_path, with_figures=False))
    made = subprocess.run(ENGINES["pdflatex"], cwd=tmp_path, capture_output=True, timeout=120, check=False)

    assert 0 == made.returncode, made.stdout.decode("latin-1")[-2000:]

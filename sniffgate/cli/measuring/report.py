"""`sniffgate measure report`: makes tables, figures and a page of a study."""

from pathlib import Path

import click

from ...errors import SniffgateError


@click.command("report")
@click.argument("directory", metavar="DIR")
@click.option("--out", metavar="DIR", help="Where the report goes [default: where the artifact is].")
@click.option("--no-figures", is_flag=True, help="Without figures: matplotlib is not needed.")
def report(*, directory: str, out: str | None, no_figures: bool) -> int:
    """Make a report of the study in DIR/study.json.

    Writes tables as Markdown, HTML and LaTeX (tables/), one LaTeX macro for each number (numbers.tex), a document that
    uses all of them (main.tex), four figures as PDF, SVG and PNG (figures/), and one page with everything (index.html).
    Where a page DIR.md shows its tables, DIR/README.md is that page, filled in. The figures need matplotlib:
    pip install '/path/to/sniffgate[figures]'. The same study gives the same files.
    """
    from ...measure.report.write import write_report
    from ...measure.study.artifact import load_study

    folder = Path(out or directory)
    try:
        paths = list(write_report(load_study(Path(directory)), folder, with_figures=not no_figures))
    except SniffgateError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    click.echo(f"{len(paths)} files in {folder}; {folder / 'index.html'} has all of it.")
    return 0

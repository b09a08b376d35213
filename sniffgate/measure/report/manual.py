"""What the manual takes from a study when it is built: inline numbers by name, as `{{ SgFailoverQuietSwitchMs }}`."""

from pathlib import Path

from ..study.artifact import load_study
from .gathered import gather
from .markdown import text_markdown


def substitutions(directory: Path) -> dict[str, str]:
    """Every inline number of the study there, as Markdown. Errors: `BadArtifact`."""
    numbers = gather(load_study(directory)).numbers
    return {name: text_markdown(text) for name, text in numbers.items()}

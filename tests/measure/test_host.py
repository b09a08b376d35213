"""What a figure depends on besides the program."""

import subprocess
from pathlib import Path

from sniffgate.measure.host import commit


def git(folder: Path, *words: str) -> str:
    """Runs git there, as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10
    ).stdout


def test_a_commit_is_marked_when_the_program_was_changed_since(tmp_path: Path) -> None:
    """Figures of files that nobody can check out again must say so; a report that lies beside them is no such file."""
    package = tmp_path / "package"
    package.mkdir()
    for path in (package / "code", tmp_path / "report"):
        path.write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "x")
    head = git(tmp_path, "rev-parse", "--short=12", "HEAD").strip()

    assert head == commit(package)
    (tmp_path / "report").write_text("2")
    assert head == commit(package)
    (package / "code").write_text("2")
    assert f"{head}+" == commit(package)


def test_outside_a_repository_there_is_none(tmp_path: Path) -> None:
    """An installed package has no history."""
    assert commit(tmp_path) is None

"""Trials of edits: what is to be tried, what came of it, and the reasons of those that survive."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.mutants.edits import Edit, edits_of

SURVIVORS = Path(__file__).with_name("survivors.toml")


@attrs.frozen(kw_only=True)
class Trial:
    """An edit of a module, and what came of it."""

    module: str
    digest: str  # of the module's text
    edit: Edit
    outcome: str = ""

    @property
    def name(self) -> str:
        """Module, place and words, for a line of its own."""
        change = f"{self.edit.old} -> {self.edit.new}" if self.edit.new else f"without {self.edit.old}"
        return f"{self.module}:{self.edit.line} {self.edit.where}: {change}"

    @property
    def name_of_reason(self) -> tuple[str, str, str, str, int]:
        """Under which the list of survivors has its reason, whatever became of the rest of the module."""
        return self.module, *self.edit.key

    @property
    def key(self) -> list[object]:
        """What tells it from all others, across runs."""
        return [self.module, self.digest, *self.edit.key]


def trials_of(folder: Path, modules: Sequence[str] = ()) -> list[Trial]:
    """Every edit of every module of the rules, or of those named, in their order."""
    found = []
    for path in [folder / f"{name}.py" for name in modules] or sorted(folder.glob("*.py")):
        if not path.exists():
            continue
        source = path.read_text()
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        found += [Trial(module=path.stem, digest=digest, edit=edit) for edit in edits_of(source)]
    return found


def known_survivors() -> dict[tuple[str, str, str, str, int], str]:
    """The reason for each, by module, place, words before and after, and which of the like ones."""
    tables: list[dict[str, Any]] = tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    return {
        (each["module"], each["where"], each["old"], each["new"], each.get("nth", 0)): each["reason"] for each in tables
    }


def remembered(results: Path) -> dict[str, str]:
    """What came of the trials of earlier runs, by key; the last word counts."""
    if not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {json.dumps(each["key"]): each["outcome"] for each in lines}


def report(trials: Sequence[Trial], *, as_toml: bool = False) -> int:
    """Prints the figures and who survived; 1 when there is one without a reason."""
    reasons = known_survivors()
    survivors = [each for each in trials if each.outcome == "survived"]
    tried, lost = Counter(each.module for each in trials), Counter(each.module for each in survivors)
    for name, edits, survived in (*((each, tried[each], lost[each]) for each in sorted(tried)),
                                  ("all", len(trials), len(survivors))):  # fmt: skip
        print(f"{name:10} {edits:5} edits {edits - survived:5} killed {survived:4} survived")
    unexplained = 0
    for trial in sorted(survivors, key=lambda each: (each.module, each.edit.number)):
        reason = reasons.get(trial.name_of_reason)
        unexplained += reason is None
        if as_toml and reason is None:
            print(_as_toml(trial))
        else:
            print(f"{trial.name}: {reason or 'NOT EXPLAINED'}")
    print(f"{unexplained} without a reason in {SURVIVORS.name}")
    return 1 if unexplained else 0


def _as_toml(trial: Trial) -> str:
    fields = {"module": trial.module, "where": trial.edit.where, "old": trial.edit.old, "new": trial.edit.new}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    if trial.edit.nth:
        lines.append(f"nth = {trial.edit.nth}")
    return "\n".join(["", f"# line {trial.edit.line}", "[[survivor]]", *lines, 'reason = ""'])

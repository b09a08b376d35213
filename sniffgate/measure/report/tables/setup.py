"""What was run and how: the rules under test, the tuning, the scenarios, and the control plane at rest."""

import enum
import tomllib
from pathlib import Path

from ....config.durations import in_milliseconds
from ....config.keys import GLOBAL
from ....config.schema import GlobalConfig
from ...study.artifact import Arm, Scenario, Setting
from ...study.summary import Words
from ..facts import Facts
from ..original import Original
from ..reading import Reading
from ..table import Cell, Column, Table, figure, table, words

RULES = Path(__file__).with_name("rules.toml")


def semantics(_facts: Facts, _paper: Original) -> Table:
    """The rules that the scenarios put to the test."""
    columns = Column("when", 0.2), Column("what it does", 0.55), Column("shown by", 0.15)
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))["rules"]
    rows = (words(rule["when"], rule["what"], rule["by"]) for rule in rules)
    return table("semantics", "What sniffgate promises", columns, rows)


def config(facts: Facts, _paper: Original) -> Table:
    """The tuning of the study beside the defaults."""
    defaults, tuning = _defaults(), facts.study.tuning
    columns = Column("key", 0.4), Column("in the study"), Column("default")
    rows = (words(f"`{key}`", shown(value), defaults.get(key, "–")) for key, value in tuning.items())
    return table("config", "Tuning of every scenario, but for what it overrides", columns, rows)


def scenarios(facts: Facts, _paper: Original) -> Table:
    """Every scenario with what its arms override and how many of its trials gave figures."""
    columns = (
        Column("scenario", 0.11),
        Column("what is done", 0.3),
        Column("arms"),
        Column("overrides", 0.36),
        Column("trials"),
    )
    rows = (_scenario(name, scenario) for name, scenario in facts.study.scenarios.items())
    return table("scenarios", "The scenarios: what their arms override, and how many trials were good", columns, rows)


def control(facts: Facts, paper: Original) -> Table:
    """The start, the control port, probes of an idle node, and lines that nobody should send."""
    columns = Column("what", 0.45), Column("unit"), Column("original"), Column("here")
    rows = [
        ("start to open control port", "ms", "StartupControlMs", "control_open_ms"),
        ("start to open data port", "ms", "StartupDataMs", "data_open_ms"),
        ("start to both nodes healthy", "ms", "", "healthy_ms"),
        ("one `status`", "µs", "StartupStatusUs", "status_us"),
        ("probes of an idle node, node-a", "1/s", "StartupIdleProbesPerS", "idle_probes_node-a"),
        ("probes of an idle node, node-b", "1/s", "StartupIdleProbesPerS", "idle_probes_node-b"),
        ("resident memory", "MB", "StartupRssMb", "rss_mb"),
    ]
    refused = facts.at("startup/default/hostile_replies")
    return table(
        "control",
        "Start, control port and idle probes",
        columns,
        [
            *(
                (*words(what, unit, paper.figures.get(name, "")), figure(facts.at(f"startup/default/{key}")))
                for what, unit, name, key in rows
            ),
            (*words("lines that no operator writes", "", ""), _refusals(refused)),
        ],
    )


def _refusals(replies: Reading) -> Cell:
    if not isinstance(replies.seen, Words):
        return figure(replies)
    kinds = list(replies.seen.counts)
    refused = [kind for kind in kinds if str(kind).endswith("refused")]
    return Cell(f"{len(refused)} of {len(kinds)} refused", "; ".join(map(str, kinds)))


def shown(value: Setting) -> str:
    """A setting as the file has it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _defaults() -> dict[str, str]:
    stock = GlobalConfig()
    found = {}
    for key in GLOBAL.keys:
        value = getattr(stock, key.attribute)
        if key.name.endswith("_ms") and value is not None:
            value = in_milliseconds(value)
        found[key.name] = shown(value.value if isinstance(value, enum.Enum) else value)
    return found


def _scenario(name: str, scenario: Scenario) -> tuple[Cell, ...]:
    arms = list(scenario.arms.values())
    values: dict[str, dict[str, None]] = {}
    for arm in arms:
        for key, value in {**scenario.overrides, **arm.overrides}.items():
            values.setdefault(key, {})[shown(value)] = None
    overrides = "; ".join(f"`{key}` {', '.join(each)}" for key, each in values.items())
    return *words(f"`{name}`", scenario.title, str(len(arms)), overrides), _trials(arms)


def _trials(arms: list[Arm]) -> Cell:
    good, every = sum(len(arm.good_trials()) for arm in arms), sum(len(arm.trials) for arm in arms)
    return Cell(f"{good} of {every}", next(filter(None, map(_why_not_all, arms)), ""))


def _why_not_all(arm: Arm) -> str:
    if arm.state in ("absent", "failed"):
        return f"{arm.state}: {arm.reason}"
    return next((trial.failure for trial in arm.trials if trial.failure), "")

"""The artifact of a study: everything that was observed, raw, with what it depends on. docs/measurements-schema.md.

It is checked against its schema when it is written and when it is read; no figure is computed here (`summary`).
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import attrs

from ...errors import SniffgateError
from .checking import Mismatch, structure

SCHEMA = 1
NAME = "study.json"  # the artifact's name in the directory of a run

Value = float | int | bool | str
Setting = float | int | bool | str | None
State = Literal["measured", "absent", "failed", "unfinished"]


class BadArtifact(SniffgateError):
    """A file is no artifact of a study. The message is one sentence that names the file and the key."""


@attrs.define
class Observation:
    """Raw values of one kind in the order in which they were seen; at least one, all numbers or all words."""

    unit: str
    values: list[Value]

    def __attrs_post_init__(self) -> None:
        if not self.values:
            raise Mismatch("values must not be empty: what was not seen is no observation")
        if len({type(value) is str for value in self.values}) > 1:
            raise Mismatch("values must be all words or all numbers")


@attrs.define
class Trial:
    """One run of one arm on fresh processes. With a `failure` none of its observations is a figure."""

    number: int
    started: str
    ended: str
    failure: str | None = None
    observations: dict[str, Observation] = attrs.field(factory=dict)
    absent: dict[str, str] = attrs.field(factory=dict)  # key of an observation → why this gateway has none
    notes: list[str] = attrs.field(factory=list)


@attrs.define
class Arm:
    """One setting of a scenario. `overrides` are keys of the file (`nodes.KEY` for those of every node)."""

    title: str
    overrides: dict[str, Setting] = attrs.field(factory=dict)
    parameters: dict[str, Setting] = attrs.field(factory=dict)  # what the harness does differently in this arm
    state: State = "unfinished"
    reason: str | None = None
    configuration: str | None = None  # the file of the first trial, as the gateway read it
    trials: list[Trial] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        _check_state(self.state, self.reason)
        if self.state == "absent" and any(trial.observations for trial in self.trials):
            raise Mismatch("trials must hold no observations where the arm is absent")

    def good_trials(self) -> list[Trial]:
        """Those whose observations are figures: none of an arm that failed."""
        return [trial for trial in self.trials if trial.failure is None] if self.state != "failed" else []


@attrs.define
class Scenario:
    """One scenario with all its arms."""

    title: str
    question: str
    harness: str  # "first", "second" or "beyond" the paper
    overrides: dict[str, Setting] = attrs.field(factory=dict)  # those of every arm
    state: State = "unfinished"
    reason: str | None = None
    started: str | None = None
    ended: str | None = None
    arms: dict[str, Arm] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        _check_state(self.state, self.reason)


@attrs.define
class ClockFigures:
    """What the harness itself costs, in microseconds: measured before the first scenario."""

    resolution_us: float  # the smallest step of the clock that was seen
    read_us: list[float]  # one look at the clock
    rtt_us: list[float]  # 64 bytes to a node and back, without a gateway
    connect_us: list[float]  # connect, one request and its answer, without a gateway
    status_us: list[float]  # one question to the control port: what a poll costs
    poll_us: list[float]  # from one look at the gateway to the next while waiting


@attrs.define
class Study:
    """A whole run of `sniffgate measure`."""

    host: dict[str, Setting]  # machine, processor, processors, system
    kernel: str
    python: str
    versions: dict[str, str | None]  # sniffgate, and the gateways compared with; None: not installed
    commit: str | None
    command: list[str]  # the command line that made it
    gateway: str  # what is under test: a command with {config}
    tuning: dict[str, Setting]  # [global] of every scenario, but for what it overrides
    trials: int | None  # what --trials said
    started: str
    ended: str | None = None
    clock: ClockFigures | None = None
    load_average: list[float] = attrs.field(factory=list)  # at the start, and at the end of each scenario
    scenarios: dict[str, Scenario] = attrs.field(factory=dict)
    schema: int = SCHEMA

    def __attrs_post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise Mismatch(f"schema must be {SCHEMA}, not {self.schema}")


def now() -> str:
    """This moment, as the artifact writes moments: UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def save_study(study: Study, path: Path) -> None:
    """Writes the artifact so that the file is always whole. Errors: `BadArtifact`, before anything is written."""
    plain = attrs.asdict(study)
    _structure(plain, path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise BadArtifact(f"{path} cannot be written: {error.strerror}") from None


def load_study(path: Path) -> Study:
    """Reads an artifact: a file, or the directory of a run. Errors: `BadArtifact`."""
    if path.is_dir():
        path = path / NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadArtifact(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadArtifact(f"{path} is not JSON: {error}") from None
    return _structure(raw, path)


def _structure(raw: Any, path: Path) -> Study:
    if isinstance(raw, dict) and "schema" in raw and raw["schema"] != SCHEMA:
        raise BadArtifact(f"{path}: schema must be {SCHEMA}, not {raw['schema']!r}")
    try:
        study: Study = structure(Study, raw)
    except Mismatch as error:
        raise BadArtifact(f"{path}: {error}") from None
    return study


def _check_state(state: State, reason: str | None) -> None:
    if state in ("absent", "failed") and not reason:
        raise Mismatch(f"reason must say why it is {state}")

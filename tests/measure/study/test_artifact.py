"""The artifact says one thing, on disk and in memory, or it is refused in one sentence."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from sniffgate.measure.study.artifact import (
    NAME,
    Arm,
    BadArtifact,
    ClockFigures,
    Observation,
    Scenario,
    Study,
    Trial,
    load_study,
    save_study,
)
from sniffgate.measure.study.checking import Mismatch

from .studies import arm, study, trial

Change = Callable[[dict[str, Any]], object]


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    """Every raw value survives, in its order and with its type; the directory of a run is as good as its file."""
    made = study(traffic=arm(trial(switch_ms=[12.25, 3], node=["node-b", "node-a"], moved=[True, False])))
    save_study(made, tmp_path / NAME)

    assert made == load_study(tmp_path / NAME) == load_study(tmp_path)


def test_an_artifact_is_never_half_written(tmp_path: Path) -> None:
    """A run may be killed at any moment; beside the file nothing is left, and what stood there is replaced at once."""
    save_study(study(), tmp_path / NAME)
    save_study(study(quiet=arm(trial(switch_ms=[1.0]))), tmp_path / NAME)

    assert [NAME] == [path.name for path in tmp_path.iterdir()]
    assert ["quiet"] == list(load_study(tmp_path).scenarios["failover"].arms)


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    """The old artifact stays when the new one is bad."""
    path = tmp_path / NAME
    save_study(study(), path)
    before = path.read_bytes()
    bad = study(traffic=arm(trial(switch_ms=[float("nan")])))

    with pytest.raises(BadArtifact) as refusal:
        save_study(bad, path)

    where = "scenarios.failover.arms.traffic.trials[0].observations.switch_ms.values[0]"
    assert f"{path}: {where} must be finite, not nan" == str(refusal.value)
    assert before == path.read_bytes()


def _arm(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["scenarios"]["failover"]["arms"]["traffic"]
    return found


TRIAL = "scenarios.failover.arms.traffic.trials[0]"
WRONG: dict[str, tuple[Change, str]] = {
    "another schema": (lambda raw: raw.update(schema=2), "schema must be 1, not 2"),
    "an unknown key": (lambda raw: raw.update(shcema=1), "shcema is not a key of this schema"),
    "a missing key": (lambda raw: raw.pop("gateway"), "gateway is missing"),
    "a wrong type": (lambda raw: raw.update(kernel=6), "kernel must be a text, not 6"),
    "true for a number": (lambda raw: raw.update(trials=True), "trials must be a whole number or null, not True"),
    "a list for an object": (lambda raw: raw.update(scenarios=[]), "scenarios must be an object, not a list"),
    "a text for a list": (lambda raw: raw.update(command="x"), "command must be a list, not 'x'"),
    "no such state": (
        lambda raw: _arm(raw).update(state="fine"),
        "scenarios.failover.arms.traffic.state must be one of measured, absent, failed, unfinished, not 'fine'",
    ),
    "absent without a reason": (
        lambda raw: raw["scenarios"]["failover"].update(state="absent"),
        "scenarios.failover.reason must say why it is absent",
    ),
    "absent with figures": (
        lambda raw: _arm(raw).update(state="absent", reason="it cannot"),
        "scenarios.failover.arms.traffic.trials must hold no observations where the arm is absent",
    ),
    "an empty observation": (
        lambda raw: _arm(raw)["trials"][0]["observations"]["switch_ms"].update(values=[]),
        f"{TRIAL}.observations.switch_ms.values must not be empty: what was not seen is no observation",
    ),
    "words among numbers": (
        lambda raw: _arm(raw)["trials"][0]["observations"]["switch_ms"].update(values=[1.0, "node-a"]),
        f"{TRIAL}.observations.switch_ms.values must be all words or all numbers",
    ),
    "null among numbers": (
        lambda raw: _arm(raw)["trials"][0]["observations"]["switch_ms"].update(values=[None]),
        f"{TRIAL}.observations.switch_ms.values[0] must be a number or true or false or a text, not None",
    ),
    "no clock figures": (lambda raw: raw["clock"].pop("rtt_us"), "clock.rtt_us is missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_one_sentence_with_file_and_key(tmp_path: Path, name: str) -> None:
    """Who wrote the file by another program must find the place."""
    change, sentence = WRONG[name]
    path = tmp_path / NAME
    save_study(study(traffic=arm(trial(switch_ms=[1.0]))), path)
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))

    with pytest.raises(BadArtifact) as refusal:
        load_study(path)

    assert f"{path}: {sentence}" == str(refusal.value)


@pytest.mark.parametrize("text", ["", "{", "\udcff", "[" * 100_000], ids=["empty", "torn", "no UTF-8", "deep"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    """A file cut short, or of another kind, has no key to name."""
    path = tmp_path / NAME
    path.write_text(text, errors="surrogateescape")

    with pytest.raises(BadArtifact, match="is not JSON"):
        load_study(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A directory without an artifact included."""
    with pytest.raises(BadArtifact) as refusal:
        load_study(tmp_path)

    assert f"{tmp_path / NAME} cannot be read: No such file or directory" == str(refusal.value)


def test_an_artifact_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """The directory may have gone in between."""
    with pytest.raises(BadArtifact, match="cannot be written: No such file or directory"):
        save_study(study(), tmp_path / "gone" / NAME)


def test_an_observation_of_nothing_cannot_be_made() -> None:
    """What was not seen is absent; an empty list would look like a figure."""
    with pytest.raises(Mismatch):
        Observation("ms", [])


@pytest.mark.parametrize("kind", [Study, ClockFigures, Scenario, Arm, Trial, Observation])
def test_every_key_of_the_schema_is_documented(kind: type[Any]) -> None:
    """Who reads an artifact by another program has the page alone."""
    page = (Path(__file__).parents[3] / "docs" / "measurements-schema.md").read_text()

    assert [] == [key for key in attrs.fields_dict(kind) if not re.search(rf"[`\"]{key}[`\"]", page)]

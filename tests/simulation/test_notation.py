"""A history as JSON: what was written is read back, and what is wrong with it is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from sniffgate.config.load import load_file
from sniffgate.simulation.chance import history_from
from sniffgate.simulation.notation import HistoryInvalid, history_from_json, history_to_json

ODD = load_file(Path(__file__).with_name("odd.toml"))
A_TIME = "must be a number of seconds, 0 or more"
SOONER = {"do": "recover", "at": 0, "node": "x"}
GOOD: dict[str, Any] = {"seed": 1, "seconds": 5, "steps": [{"do": "fault", "at": 1, "node": "x", "kind": "kill"}]}


def test_what_was_written_is_read_back() -> None:
    """Steps of every kind."""
    for seed in range(20):
        history = history_from(ODD, seed, 60.0)
        assert history == history_from_json(json.dumps(history_to_json(history)), ODD)


def step(**fields: object) -> dict[str, object]:
    """The good history with another step."""
    return {**GOOD, "steps": [{"at": 1, **fields}]}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([], "the whole: must be an object"),
        ({"seed": 1}, "seconds: is missing"),
        ({**GOOD, "sead": 1}, "sead: is no key of a history"),
        ({**GOOD, "seed": "1"}, "seed: must be a whole number"),
        ({**GOOD, "seed": True}, "seed: must be a whole number"),
        ({**GOOD, "seconds": "5"}, "seconds: must be a number of seconds, 0 or more"),
        ({**GOOD, "seconds": float("inf")}, "seconds: must be a number of seconds, 0 or more"),
        ({**GOOD, "seconds": 0}, "seconds: must be more than 0"),
        ({**GOOD, "latency": -1}, "latency: must be a number of seconds, 0 or more"),
        ({**GOOD, "steps": {}}, "steps: must be a list"),
        ({**GOOD, "steps": [1]}, "steps[0]: must be an object"),
        (step(), "steps[0].do: must be one of fault, recover, order, reload, visit"),
        (step(do=["fault"]), "steps[0].do: must be one of fault, recover, order, reload, visit"),
        (step(do="fault", node="x"), "steps[0].kind: is missing"),
        (step(do="recover", node=1), "steps[0].node: must be text"),
        (step(do="recover", node="q"), "steps[0].node: the configuration has no such node"),
        (step(do="order", command="switch"), "steps[0].node: the configuration has no such node"),
        (step(do="visit", kind="ask", listener="a", seconds="2"), f"steps[0].seconds: {A_TIME}"),
        (step(do="order", command="drain", node="x", seconds=[]), f"steps[0].seconds: {A_TIME}"),
        (step(do="reload", without="x"), "steps[0].without: must be a list of texts"),
        (step(do="reload", without=["q"]), "steps[0].without: the configuration has no such node"),
        (step(do="visit", kind="ask", listener="q"), "steps[0].listener: the configuration has no such listener"),
        (step(do="visit", kind="sing", listener="a"), "steps[0].kind: must be one of ask, chat, leave"),
        ({**GOOD, "steps": [*GOOD["steps"], SOONER]}, "steps[1].at: must not be earlier than the step before"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(wrong: object, sentence: str) -> None:
    """A history is a file that people edit."""
    with pytest.raises(HistoryInvalid) as caught:
        history_from_json(json.dumps(wrong), ODD)

    assert sentence == str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_said(text: str) -> None:
    """The wrong file, as a rule."""
    with pytest.raises(HistoryInvalid, match=r"^is not JSON: "):
        history_from_json(text, ODD)

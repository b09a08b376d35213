"""Histories from seeds: repeatable, in order, and with everything in them."""

from collections import Counter
from pathlib import Path

from sniffgate.config.load import load_file
from sniffgate.config.schema import Config
from sniffgate.simulation.chance import history_from
from sniffgate.simulation.history import FAULTS, Fault, Order, Recover, Reload, Visit

ODD = load_file(Path(__file__).with_name("odd.toml"))


def test_a_seed_is_one_history() -> None:
    """It is all that a report has to name."""
    assert history_from(ODD, 3, 60.0) == history_from(ODD, 3, 60.0)
    assert history_from(ODD, 3, 60.0) != history_from(ODD, 4, 60.0)


def test_steps_are_in_order_and_inside_the_history() -> None:
    """The player goes through them once."""
    for seed in range(50):
        times = [step.at for step in history_from(ODD, seed, 60.0).steps]
        assert sorted(times) == times
        assert 0 <= times[0] <= times[-1] < 60


def test_everything_happens_that_can_happen() -> None:
    """What is never tried is never found."""
    steps = [step for seed in range(200) for step in history_from(ODD, seed, 60.0).steps]

    assert {Fault, Recover, Order, Reload, Visit} == {type(step) for step in steps}
    assert set(FAULTS) == {step.kind for step in steps if isinstance(step, Fault)}
    assert {each.name for each in ODD.nodes} == {step.node for step in steps if isinstance(step, Fault)}


def test_only_named_nodes_lose_their_names_and_only_udp_ports_are_closed() -> None:
    """A fault that is none would be a waste of a history."""
    faults = [step for seed in range(200) for step in history_from(ODD, seed, 60.0).steps if isinstance(step, Fault)]

    assert {"y", "z"} == {step.node for step in faults if step.kind == "dns"}
    assert {"x", "y", "z"} == {step.node for step in faults if step.kind == "close_udp"}


def test_without_nodes_there_are_only_clients() -> None:
    """Nothing can fail."""
    history = history_from(Config(listeners=ODD.listeners), 1, 60.0)

    assert {Visit} == {type(step) for step in history.steps}


def test_a_longer_history_has_more_in_it() -> None:
    """Hours are not a minute and then silence."""
    counts = Counter({seconds: len(history_from(ODD, 1, seconds).steps) for seconds in (60.0, 3600.0)})

    assert counts[3600.0] > 20 * counts[60.0]

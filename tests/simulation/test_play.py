"""A played history: correct gateways keep every rule, and the same history is always the same."""

from pathlib import Path

import attrs
import pytest

from sniffgate.config.load import load_file
from sniffgate.config.schema import Config, NodeConfig
from sniffgate.simulation.chance import history_from
from sniffgate.simulation.history import FAULTS, Fault, History, Order, Recover, Reload, Visit
from sniffgate.simulation.play import play
from sniffgate.simulation.seeds import quiet
from sniffgate.testing.timeline import Timeline

ROOT = Path(__file__).parents[2]
ODD = Path(__file__).with_name("odd.toml")
FILES = [*sorted((ROOT / "configs").glob("*.toml")), ODD]


def played(config: Config, history: History) -> list[str]:
    """What happened, with nothing broken."""
    timeline = Timeline()
    with quiet():
        assert play(config, history, timeline) is None
    return [f"{at:.3f} {what}" for at, what in timeline.last(200)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_correct_gateway_keeps_every_rule(file: Path) -> None:
    """A simulation that cries wolf is switched off."""
    config = load_file(file)
    with quiet():
        assert [None] * 3 == [play(config, history_from(config, seed, 60.0)) for seed in range(3)]


@pytest.mark.soak
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_correct_gateway_keeps_every_rule_in_every_history(file: Path) -> None:
    """The same at the number of seeds that finds planted faults."""
    config = load_file(file)
    with quiet():
        broken = {seed: play(config, history_from(config, seed, 60.0)) for seed in range(1000)}

    assert {} == {seed: found for seed, found in broken.items() if found is not None}


def test_the_same_history_is_always_the_same() -> None:
    """What cannot be repeated cannot be looked into."""
    config = load_file(ODD)
    history = history_from(config, 7, 40.0)

    assert played(config, history) == played(config, history)


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_can_be_played_alone(kind: str) -> None:
    """For as long as everything else is well, somebody serves."""
    config = load_file(ODD)
    node = "y" if kind in ("dns", "close_udp") else "x"
    visits = tuple(Visit(at, "ask", door) for at in (20.0, 21.0, 25.0, 40.0) for door in ("a", "b", "c"))
    told = played(
        config, History(1, 45.0, steps=(Fault(19.9, node, kind), *visits[:9], Recover(26.0, node), *visits[9:]))
    )

    assert f"19.900 {node}: {kind}" in told
    assert f"26.000 {node}: recover" in told


def test_an_error_that_comes_out_of_the_run_is_a_finding() -> None:
    """A crash of the hub would; here it is a history that was built by hand, and wrongly."""
    config = load_file(ODD)
    broken = play(config, History(1, 5.0, steps=(Fault(1.0, "x", "sulk"),)))

    assert broken is not None
    assert ("crashes", "the gateway ended: ValueError('no fault is called sulk')") == (broken.rule, broken.text)


def test_commands_and_reloads_are_carried_out() -> None:
    """The operator is part of the story, and may be refused."""
    config = load_file(ODD)
    steps = (
        Order(5.0, "switch", "y"),
        Order(6.0, "switch", "w"),
        Order(7.0, "release"),
        Order(8.0, "drain", "x", 2.0),
        Order(9.0, "disable", "v"),
        Order(9.5, "release"),
        Order(10.0, "enable", "x"),
        Order(11.0, "mark_down", "x"),
        Order(12.0, "mark_auto", "x"),
        Reload(13.0, ("u",)),
        Reload(14.0),
    )
    told = played(config, History(1, 16.0, steps=steps))

    assert "5.000   one/tcp: x -> y (operator)" in told
    assert "6.000 operator: switch w" in told  # it is disabled: refused, and no event
    assert "7.000   one/tcp: y -> x (operator)" in told
    assert "9.500 operator: automatic choice" in told  # though nothing was pinned any more
    assert "13.000 reload without u" in told
    assert "14.000 a configuration was applied" in told


def test_clients_that_come_to_a_listener_of_no_node_are_nobodys_fault() -> None:
    """Nothing was promised to them."""
    config = load_file(ODD)
    config = attrs.evolve(config, nodes=tuple(each for each in config.nodes if each.pool != "one"))
    steps = tuple(Visit(at, "ask", door) for at in (1.0, 9.0) for door in ("a", "b", "c"))

    assert [] != played(config, History(1, 20.0, steps=steps))


def test_a_long_history_is_as_easy_as_a_short_one() -> None:
    """Nodes forget who asked them: an hour and a half, with little in it."""
    config = Config(listeners=load_file(ODD).listeners[2:], nodes=(_quiet_node(),))
    steps = tuple(Visit(600.0 * number, "ask", "c") for number in range(10))

    assert [] != played(config, History(1, 5600.0, steps=steps))


def _quiet_node() -> NodeConfig:
    return next(each for each in load_file(ODD).nodes if each.name == "u")

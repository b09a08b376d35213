"""Shrinking: what is left breaks the same rule, and nothing can be spared of it."""

from sniffgate.simulation.broken import Broken
from sniffgate.simulation.history import Fault, History, Recover, Step, Visit
from sniffgate.simulation.shrink import MOST_PLAYS, shrink


def two_kills(history: History) -> Broken | None:
    """A gateway that minds when a is killed and, any time later, b; and that minds a freeze in another way."""
    killed = False
    for step in history.steps:
        if isinstance(step, Fault) and step.at <= history.seconds:
            if step.kind == "freeze":
                return Broken("drains", "too late", step.at)
            if killed and step.node == "b":
                return Broken("service", "nobody there", step.at)
            killed = killed or step.node == "a"
    return None


NOISE = tuple(step for at in range(20) for step in (Visit(at + 0.5, "chat", "door", 20.0), Recover(at + 0.7, "c")))
FAULTS = (Fault(3.0, "a", "kill"), Fault(11.0, "b", "kill"), Fault(15.0, "c", "freeze"))
STEPS: tuple[Step, ...] = tuple(sorted((*NOISE, *FAULTS), key=lambda step: step.at))
LONG = History(1, 60.0, 0.02, STEPS)


def test_what_is_left_is_what_it_takes() -> None:
    """Two steps of forty-three, one right after the other, and nothing after them."""
    broken = two_kills(LONG)
    assert broken is not None
    shrunk = shrink(LONG, broken, two_kills)

    assert History(1, 0.01, 0.0, (Fault(0.0, "a", "kill"), Fault(0.0, "b", "kill"))) == shrunk.history
    assert Broken("service", "nobody there", 0.0) == shrunk.broken
    assert 0 < shrunk.plays < MOST_PLAYS


def test_another_rule_is_another_matter() -> None:
    """A shrunk history that breaks something else would explain nothing."""
    freeze = History(1, 60.0, 0.0, (Fault(1.0, "a", "kill"), Fault(2.0, "c", "freeze"), Fault(3.0, "b", "kill")))
    broken = two_kills(freeze)
    assert broken is not None
    shrunk = shrink(freeze, broken, two_kills)

    assert ("drains", (Fault(0.0, "c", "freeze"),)) == (shrunk.broken.rule, shrunk.history.steps)


def test_the_number_of_plays_is_bounded() -> None:
    """Each takes a tenth of a second; somebody waits."""
    broken = two_kills(LONG)
    assert broken is not None

    assert 7 == shrink(LONG, broken, two_kills, most_plays=7).plays


def test_long_talks_become_short() -> None:
    """What matters is that somebody is there."""

    def talk(history: History) -> Broken | None:
        return Broken("drains", "", 1.0) if any(isinstance(step, Visit) for step in history.steps) else None

    shrunk = shrink(LONG, Broken("drains", "", 1.0), talk)

    assert (Visit(0.0, "chat", "door", 2.0),) == shrunk.history.steps

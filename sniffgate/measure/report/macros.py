"""Inline numbers by name: one for each observation, its spread and its count, one for each figure of the paper. Pure.

The names are those of LaTeX macros, which may hold letters only, and of the substitutions in the manual. They follow
from the place of an observation in the artifact alone: `failover/default/switch_ms` is `SgFailoverSwitchMs`, for ever.
"""

import re
from collections.abc import Iterable

import attrs

from ..study.artifact import ClockFigures, Study
from ..study.summary import Figure, Words, median_of
from .facts import Facts, Place
from .original import Original
from .reading import FEW, NOTHING, Reading, number, pooled

PREFIX = "Sg"
OF_THE_PAPER = "SgOriginal"
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def camel(text: str) -> str:
    """Words and digits as one word of letters: `threshold-2` is `ThresholdTwo`."""
    spelt = re.sub(r"\d", lambda found: f" {DIGITS[int(found[0])]} ", text.replace("µ", "u"))
    return "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z]+", spelt))


def name_of(place: Place) -> str:
    """The macro of an observation's median; the arm `default` goes without saying."""
    arm = "" if place.arm == "default" else camel(place.arm)
    return f"{PREFIX}{camel(place.scenario)}{arm}{camel(place.key)}"


def macros(facts: Facts, paper: Original, wanted: Iterable[str] = ()) -> dict[str, str]:
    """Every inline number. `wanted` are places that have a name whether or not they were measured."""
    places = dict.fromkeys([*facts.places(), *map(Place.of, wanted)])
    found = _of_the_run(facts.study)
    for place in places:
        reading = facts.at(str(place))
        if _is_inline(reading):
            found.update(_of_a_reading(name_of(place), reading))
    found.update(_of_all_arms(facts))
    source = attrs.asdict(paper.source)
    found.update({f"{OF_THE_PAPER}{camel(name)}": text for name, text in source.items()})
    found.update({f"{OF_THE_PAPER}{name}": text for name, text in paper.figures.items()})
    return found


def _of_a_reading(name: str, reading: Reading) -> dict[str, str]:
    return {name: reading.text, f"{name}Spread": reading.spread or reading.text, f"{name}Count": reading.count}


def _is_inline(reading: Reading) -> bool:
    """Whether it is a figure; columns of a log, moments in seconds and words of many requests, are none."""
    if isinstance(reading.seen, Words):
        return reading.seen.count <= FEW * reading.seen.trials
    return reading.seen is None or reading.seen.unit != "s"


def _of_all_arms(facts: Facts) -> dict[str, str]:
    """Each observation over all arms of its scenario, under the arm's name `All`."""
    found: dict[str, str] = {}
    for scenario, key in dict.fromkeys((place.scenario, place.key) for place in facts.places()):
        arms = facts.study.scenarios[scenario].arms
        if len(arms) > 1:
            together = pooled([facts.at(f"{scenario}/{arm}/{key}") for arm in arms])
            name = name_of(Place(scenario, "all", key))
            if isinstance(together.seen, Figure) and _is_inline(together):
                ends = {f"{name}Least": number(together.seen.least), f"{name}Most": number(together.seen.most)}
                found.update(_of_a_reading(name, together) | ends)
    return found


def _of_the_run(study: Study) -> dict[str, str]:
    host = study.host
    run = {
        "Kernel": study.kernel,
        "Python": study.python,
        "Version": study.versions.get("sniffgate"),
        "Commit": study.commit,
        "Processor": host.get("processor"),
        "Processors": host.get("processors"),
        "System": host.get("system"),
        "Gateway": study.gateway,
        "Started": study.started[:16].replace("T", " "),
        "Ended": study.ended[:16].replace("T", " ") if study.ended else None,
        "LoadLeast": number(min(study.load_average)) if study.load_average else None,
        "LoadMost": number(max(study.load_average)) if study.load_average else None,
        **_of_the_clock(study.clock),
    }
    return {f"{PREFIX}{name}": NOTHING if value in (None, "") else str(value) for name, value in run.items()}


def _of_the_clock(clock: ClockFigures | None) -> dict[str, str]:
    if clock is None:
        return dict.fromkeys((f"Clock{camel(field.name)}" for field in attrs.fields(ClockFigures)), NOTHING)
    return {
        f"Clock{camel(name)}": number(median_of(value if isinstance(value, list) else [value]).median)
        for name, value in attrs.asdict(clock).items()
    }

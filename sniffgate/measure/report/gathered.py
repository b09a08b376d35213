"""Everything that a report is made of, once: tables, numbers and captions, from a study. Pure."""

import attrs

from ..study.artifact import Study
from ..study.gateway import DEFAULT_COMMAND
from .facts import Facts
from .macros import macros
from .original import Original, original
from .table import Table
from .tables import SECTIONS, Section
from .tables.claims import divergences, lessons

TITLE = "Failover, measured"


@attrs.frozen
class Gathered:
    """A study in the shape of its report."""

    facts: Facts
    paper: Original
    sections: tuple[tuple[Section, tuple[Table, ...]], ...]
    numbers: dict[str, str]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, in order."""
        return tuple(table for _, tables in self.sections for table in tables)


def gather(study: Study) -> Gathered:
    """Reads a study for its report."""
    facts, paper = Facts(study), original()
    sections = tuple((each, tuple(make(facts, paper) for make in each.tables)) for each in SECTIONS)
    numbers = macros(facts, paper, facts.asked)
    is_ours = study.gateway == DEFAULT_COMMAND
    claims = Section("Lessons", ()), (lessons(numbers, is_ours=is_ours), divergences(numbers, is_ours=is_ours))
    return Gathered(facts, paper, (claims, *sections), numbers)

"""One trial from fresh processes to a record of it. Whatever goes wrong in it is a sentence in that record."""

import tempfile
from pathlib import Path

import attrs

from ...errors import SniffgateError
from .artifact import Trial, now
from .lab import Lab
from .scenario import Absent, ArmPlan, Lied, ScenarioPlan


@attrs.frozen
class Outcome:
    """What a trial gave. `lied`: a claim did not hold; `absent`: why this gateway cannot have such a trial."""

    trial: Trial
    configuration: str | None
    lied: bool = False
    absent: str | None = None


def run_trial(plan: ScenarioPlan, arm: ArmPlan, number: int, command: str) -> Outcome:
    """Runs one trial; all its processes have ended when it returns or raises. Errors: bugs of the harness only."""
    started, failure, lied, absent = now(), None, False, None
    with tempfile.TemporaryDirectory(prefix="sniffgate-study-") as folder:
        lab = Lab(plan, arm, command, Path(folder))
        try:
            with lab:
                plan.run(lab)
                lab.check_answers()
        except Absent as lack:
            absent = failure = str(lack)
        except Lied as lie:
            lied, failure = True, str(lie)
        except (SniffgateError, OSError) as error:
            failure = str(error) or type(error).__name__
    trial = Trial(number, started, now(), failure, lab.observations, lab.absences, lab.notes)
    return Outcome(trial, lab.configuration, lied, absent)

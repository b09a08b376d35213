"""A study in plain text, as the command line prints it: medians with their spread, and what there is no figure of."""

from .artifact import Arm, ClockFigures, Scenario
from .summary import Figure, Summary, absences, median_of, summarize

REST = ("rtt_us", "connect_us", "status_us", "poll_us")


def show_clock(clock: ClockFigures) -> str:
    """What the harness itself costs, in one paragraph."""
    rtt, connect, status, poll = (median_of(getattr(clock, name)) for name in REST)
    read = median_of(clock.read_us)
    return (
        f"The harness: its clock steps by {clock.resolution_us:.2f} µs and costs {read.median:.2f} µs a look. "
        f"Without a gateway a round trip takes {rtt.median:.0f} µs, and a connection with one {connect.median:.0f} µs. "
        f"A question to the control port takes {status.median:.0f} µs, so what is found by polling is late by up to "
        f"{poll.median / 1000:.2f} ms ({poll.percentile(99) / 1000:.2f} ms in one of a hundred)."
    )


def show_scenario(name: str, scenario: Scenario) -> str:
    """Its figures, or why there are none."""
    lines = [f"{name}: {scenario.title}"]
    if scenario.state in ("absent", "failed"):
        lines.append(f"  {scenario.state}: {scenario.reason}")
    for key, arm in scenario.arms.items():
        if arm.reason and arm.reason == scenario.reason and not arm.good_trials():
            continue
        lines += _arm_lines(key, arm, is_alone=len(scenario.arms) == 1)
    return "\n".join(lines)


def show_summary(found: Summary) -> str:
    """One figure: median, least and most, how many; or the words."""
    if isinstance(found, Figure):
        spread = f" ({found.least:.4g}–{found.most:.4g}, {found.count} values)" if found.count > 1 else ""
        return f"{found.median:.4g} {found.unit}{spread}"
    return ", ".join(f"{word} × {count}" if count > 1 else str(word) for word, count in found.counts.items())


def _arm_lines(name: str, arm: Arm, *, is_alone: bool) -> list[str]:
    failures = [trial for trial in arm.trials if trial.failure]
    lines = [] if is_alone else [f"  {name}: {arm.title}"]
    if arm.state in ("absent", "failed") and not is_alone:
        lines.append(f"    {arm.state}: {arm.reason}")
    elif arm.state != "failed":
        lines += [f"    trial {trial.number} failed: {trial.failure}" for trial in failures]
    lines += [f"    {key:<28} {show_summary(found)}" for key, found in summarize(arm).items()]
    lines += [f"    {key:<28} absent: {reason}" for key, reason in absences(arm).items()]
    return lines

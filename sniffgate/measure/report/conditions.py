"""What the figures depend on, in words: machine, versions, command, and what the harness itself costs. Pure."""

from .gathered import Gathered

# word → sentence; names in braces are inline numbers without their prefix
LINES = {
    "measured": "{Started} to {Ended} UTC, load average {LoadLeast} to {LoadMost}",
    "machine": "{Processor}, {Processors} processors; {System} {Kernel}, {Python}",
    "gateway": "`{Gateway}`; sniffgate {Version}, commit {Commit}",
    "harness": "its clock steps by {ClockResolutionUs} µs and costs {ClockReadUs} µs a look; without a gateway a round "
    "trip takes {ClockRttUs} µs and a connection with one {ClockConnectUs} µs; what is found by polling is "
    "late by up to {ClockPollUs} µs",
}
HOW = (
    "medians; in brackets the least and the most, or of more than 20 values what 5 % and 95 % of them do not exceed; "
    "– where there is none, and why below the table"
)


def conditions(gathered: Gathered) -> list[tuple[str, str]]:
    """Pairs of word and sentence."""
    numbers = {name.removeprefix("Sg"): text for name, text in gathered.numbers.items()}
    source = gathered.paper.source
    return [
        *((word, sentence.format_map(numbers)) for word, sentence in LINES.items()),
        ("made by", f"`{' '.join(gathered.facts.study.command)}`"),
        ("original", f"{source.citation}; {source.program}; {source.host}"),
        ("figures", HOW),
    ]

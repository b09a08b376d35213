"""The table and the JSON."""

import json

from sniffgate.measure.overhead import Outcome, Trouble
from sniffgate.measure.overhead_table import artifact, markdown, plain, remarks, table
from sniffgate.measure.trials import Settings


def outcome() -> Outcome:
    """Two rounds against one peer, of which one failed; another peer is absent."""
    return Outcome(
        Settings(rounds=2),
        versions={"sniffgate": "1", "haproxy": "2.6", "nginx": None},
        absent={"nginx": "nginx is not installed"},
        targets=["direct", "sniffgate", "haproxy"],
        raw={
            "rtt_us": {"direct": [50.0, 52.0], "sniffgate": [80.0, 84.0], "haproxy": [None, 80.0]},
            "udp_s": {"direct": [200_000.0, 180_000.0], "sniffgate": [90_000.0, 80_000.0]},
            "start_ms": {"sniffgate": [200.0, 220.0], "haproxy": [20.0, 22.0]},
        },
        troubles=[Trouble(1, "haproxy", "tcp round trip", "no result within 4.6 s")],
        rounds_begun=2,
    )


def test_the_table_has_medians_ratios_and_aims() -> None:
    """Everything needed to judge a figure stands in its line."""
    titles, rows = table(outcome())

    assert titles == ["", "unit", "direct", "sniffgate", "haproxy", "/ haproxy", "aim", "reached"]
    assert rows == [
        ["TCP round trip, 64 B", "µs", "51.0", "82.0", "80.0", "1.02", "≤ 1.15 × haproxy", "yes"],
        ["UDP round trips, 32 in flight", "/s", "190000", "85000", "–", "–", "≥ 1 × nginx", "not measured"],
        ["exec to first answer", "ms", "–", "210", "21", "10.00", "≤ 250 ms", "yes"],
    ]


def test_plain_columns_are_aligned() -> None:
    """Numbers end where their title ends; nothing but text is in a pipe."""
    titles = ["", "unit", "direct", "aim", "reached"]
    rows = [["a", "µs", "1.0", "", ""], ["bb", "/s", "2000000", "≥ 1", "yes"]]

    assert plain(titles, rows) == (
        "    unit   direct  aim  reached\n"  #
        "a   µs        1.0\n"
        "bb  /s    2000000  ≥ 1  yes\n"
    )


def test_markdown_is_a_table_of_its_own() -> None:
    """It is pasted into a page as it is."""
    lines = markdown(*table(outcome())).splitlines()

    assert lines[0] == "|  | unit | direct | sniffgate | haproxy | / haproxy | aim | reached |"
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |"
    assert {line.count("|") for line in lines} == {9}


def test_absent_peers_and_failed_rounds_are_named() -> None:
    """A missing figure without its reason looks like a fault of the table."""
    assert remarks(outcome()) == [
        "nginx is absent: nginx is not installed",
        "no figure from round 1, haproxy, tcp round trip: no result within 4.6 s",
    ]


def test_a_run_at_its_time_limit_says_so() -> None:
    """Medians of fewer rounds than were asked for are worth less."""
    short = outcome()
    short.is_cut_short = True

    assert remarks(short)[-1] == "stopped in round 2 of 2, at the time limit"


def test_the_json_has_every_raw_value() -> None:
    """Whoever doubts a median can look at what it was made of."""
    written = json.loads(json.dumps(artifact(outcome(), {"kernel": "6"}, 0.1, 0.9)))

    assert written["figures"]["rtt_us"]["values"]["haproxy"] == [None, 80.0]
    assert written["figures"]["rtt_us"]["worst"] == {"direct": 52.0, "sniffgate": 84.0, "haproxy": 80.0}
    assert written["figures"]["rtt_us"]["ratios"] == {"haproxy": 1.025}
    assert written["aims"][0] == {
        "figure": "rtt_us",
        "peer": "haproxy",
        "bound": 1.15,
        "reached": 1.025,
        "is_met": True,
    }
    assert written["aims"][1]["is_met"] is None
    assert written["absent"] == {"nginx": "nginx is not installed"}
    assert written["load_average"] == {"before": 0.1, "after": 0.9}
    assert written["troubles"][0]["reason"] == "no result within 4.6 s"

"""What happens in the demonstration, act by act."""

import math

import trio

from ...config.schema import Transport
from ...state.model import State, Verdict
from .checks import end_at_deadline, hold, moved_to, settle, within
from .clients import TCP_INTERVAL, UDP_INTERVAL
from .nodes import Node
from .promises import in_ms
from .stage import TUNING, Stage
from .timeline import Voice

STEADY = 0.8  # seconds of ordinary traffic between the acts
DRAIN_ORDER = 0.5  # seconds that the operator's drain allows
UNDER_WAY = 1.0  # seconds before a kill in which a request may have been sent that the kill lost


async def play(stage: Stage) -> None:
    """Plays every act. Errors: `CommandRefused` when the gateway will not do what the operator of the script asks."""
    a, b, c = stage.nodes
    await introduce(stage, a)
    if stage.promises.broken:
        return  # what does not work at all has nothing to show
    killed, over = await kill(stage, a)
    await bring_back(stage, a)
    await switch_by_hand(stage, a, c)
    await drain(stage, a, b)
    await take_stock(stage, killed, over)


async def introduce(stage: Stage, first: Node) -> None:
    """Says what runs and how it is tuned; returns after some ordinary traffic."""
    say = stage.timeline.say
    start = trio.current_time()
    addresses = ", ".join(f"{name} {address}" for name, address in stage.gateway.addresses.items())
    say(Voice.DEMO, f"the gateway is up in this process: {addresses}")
    say(
        Voice.DEMO,
        f"quicker than by default: probe interval {in_ms(TUNING.probe_interval)}, "
        f"timeout {in_ms(TUNING.probe_timeout)}; connect timeout {in_ms(TUNING.connect_timeout)}; "
        f"drain {in_ms(TUNING.drain_timeout)}",
    )
    say(
        Voice.DEMO,
        f"clients: every {in_ms(TCP_INTERVAL)} a tcp connection with one request, "
        f"every {in_ms(UDP_INTERVAL)} a udp datagram from one socket",
    )
    await moved_to(stage, "start", first, start, stage.limits.start)
    healthy_since: float | None = None
    with trio.move_on_after(stage.limits.start):
        await stage.gateway.wait_for(_all_healthy)
        healthy_since = trio.current_time()
    within(stage, "start, both transports of every node found healthy", stage.limits.start, start, healthy_since)
    await trio.sleep(STEADY)


def _all_healthy(state: State) -> bool:
    return all(health.verdict is Verdict.HEALTHY for health in state.health.values())


async def kill(stage: Stage, victim: Node) -> tuple[float, float]:
    """`kill -9` of the active node. Returns when it was killed, and when its consequences were over."""
    stage.timeline.say(Voice.ACT, f"kill -9 {victim.pid} ({victim.name})")
    killed = trio.current_time()
    await victim.kill()
    gone = trio.current_time()
    await moved_to(stage, f"failover from {victim.name}", None, killed, stage.limits.failover, leaving=victim)
    await trio.sleep(STEADY)
    over = trio.current_time()
    await settle(stage, over)
    tcp, udp = stage.tcp.tally, stage.udp.tally
    under_way = tcp.lost_between(killed - UNDER_WAY, gone)
    stage.timeline.say(
        Voice.CLIENT,
        f"tcp: {under_way} requests under way at {victim.name} were lost with it (gone in {in_ms(gone - killed)})",
    )
    limit = stage.limits.lost_to_the_kill
    stage.timeline.tell(stage.promises.at_most("tcp: other requests lost to the kill", 0, tcp.lost_between(gone, over)))
    lost = udp.lost_between(killed - UNDER_WAY, over)
    stage.timeline.tell(stage.promises.at_most("udp: datagrams lost to the kill", limit, lost))
    return killed, over


async def bring_back(stage: Stage, node: Node) -> None:
    """Starts the killed node again, on its old ports; the traffic comes back by itself."""
    stage.timeline.say(Voice.ACT, f"start {node.name} again")
    await stage.machines.start(node.run)
    up = trio.current_time()
    stage.timeline.say(Voice.DEMO, f"{node.name} is process {node.pid}, on its old ports")
    await moved_to(stage, f"failback to {node.name}", node, up, stage.limits.failback)
    await trio.sleep(STEADY)


async def switch_by_hand(stage: Stage, old: Node, new: Node) -> None:
    """The operator switches: new requests move at once, a held connection drains; then back to automatic choice."""
    held = await hold(stage)
    stage.timeline.say(Voice.ACT, f"the operator: switch {new.name}")
    asked = trio.current_time()
    await stage.gateway.switch(new.name)
    acknowledged = trio.current_time()
    await moved_to(stage, f"switch to {new.name}", new, asked, stage.limits.switch)
    await end_at_deadline(stage, held, old, asked, TUNING.drain_timeout)
    over = trio.current_time()
    await settle(stage, over)
    others = [each for each in stage.tcp.tally.sent_between(acknowledged, over) if each.node not in ("", new.name)]
    words = f"tcp: requests that went elsewhere than to {new.name} after the switch"
    stage.timeline.tell(stage.promises.at_most(words, 0, len(others)))

    stage.timeline.say(Voice.ACT, "the operator: auto")
    asked = trio.current_time()
    await stage.gateway.release()
    await moved_to(stage, f"auto, back to {old.name}", old, asked, stage.limits.switch)
    await trio.sleep(STEADY)


async def drain(stage: Stage, node: Node, heir: Node) -> None:
    """The operator drains the active node, with a deadline of its own, and enables it again."""
    held = await hold(stage)
    stage.timeline.say(Voice.ACT, f"the operator: drain {node.name} within {in_ms(DRAIN_ORDER)}")
    asked = trio.current_time()
    await stage.gateway.drain(node.name, DRAIN_ORDER)
    await moved_to(stage, f"drain, on to {heir.name}", heir, asked, stage.limits.switch)
    await end_at_deadline(stage, held, node, asked, DRAIN_ORDER)

    stage.timeline.say(Voice.ACT, f"the operator: enable {node.name}")
    asked = trio.current_time()
    await stage.gateway.enable(node.name)
    await moved_to(stage, f"enable, back to {node.name}", node, asked, stage.limits.switch)
    await trio.sleep(STEADY / 2)


async def take_stock(stage: Stage, killed: float, over: float) -> None:
    """Stops the clients, waits for what is under way, and checks that nothing was lost but to the kill."""
    for client in stage.clients:
        client.stop()
    await settle(stage, math.inf)
    for client in stage.clients:
        tally, name = client.tally, client.tally.transport.value
        lost = tally.lost_between(until=killed - UNDER_WAY) + tally.lost_between(over)
        what = "datagrams" if client.tally.transport is Transport.UDP else "requests"
        words = f"{name}: {what} lost to failback, switch, auto, drain and enable"
        stage.timeline.tell(stage.promises.at_most(words, 0, lost))
        if client.tally.transport is Transport.UDP:
            stage.timeline.tell(stage.promises.at_most("udp: datagrams answered twice", 0, tally.twice))
    crashes = stage.gateway.ledger.crashes
    stage.timeline.tell(stage.promises.at_most("crashed tasks in the gateway", 0, crashes))

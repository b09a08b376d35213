"""A plan says what a reload then does, because the reducer itself is asked."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig, Transport
from sniffgate.state.events import ConfigApplied, OperatorDrained
from sniffgate.state.model import RouteKey
from sniffgate.state.plan import Deed, Draining, ListenerChange, NodeChange, Plan, RouteChange, plan_reload
from sniffgate.state.reducer import initial_state, reduce
from tests.state.build import config_of, tcp, tcp_node, udp
from tests.state.strategies import histories, reloads

TCP = Transport.TCP
WEB = ListenerConfig(name="web", protocol=TCP, listen=Address("127.0.0.1", 80))
CONFIG = config_of(tcp_node("a", priority=10), tcp_node("b"), listeners=(WEB,))


def plan(before: Config, after: Config, **flows: int) -> Plan:
    """The plan for a gateway that has seen nothing yet; `flows` counts them by node."""
    return plan_reload(initial_state(before), after, 5.0, {("web", tcp(name)): count for name, count in flows.items()})


def test_the_same_configuration_plans_nothing() -> None:
    """Exit 0: nothing to be afraid of."""
    assert plan(CONFIG, CONFIG, a=3).is_empty


def test_listeners_are_bound_closed_or_changed_by_their_sockets() -> None:
    """A name is not a socket: protocol and address are."""
    renamed = attrs.evolve(WEB, name="www")
    dns = ListenerConfig(name="dns", protocol=Transport.UDP, listen=Address("127.0.0.1", 53))
    after = attrs.evolve(CONFIG, listeners=(renamed, dns))

    assert (
        ListenerChange(Deed.BIND, "dns", Transport.UDP, "127.0.0.1:53"),
        ListenerChange(Deed.CHANGE, "www", TCP, "127.0.0.1:80", ("name",)),
    ) == plan(CONFIG, after).listeners
    assert (ListenerChange(Deed.CLOSE, "dns", Transport.UDP, "127.0.0.1:53"),) == plan(
        after, attrs.evolve(after, listeners=(renamed,))
    ).listeners


def test_nodes_are_added_removed_reset_or_changed() -> None:
    """Another address is another machine: what was known of the old one says nothing."""
    a, b = CONFIG.nodes
    after = attrs.evolve(
        CONFIG, nodes=(attrs.evolve(a, tcp=Address("10.9.9.9", 1)), attrs.evolve(b, weight=5), tcp_node("c"))
    )

    assert (
        NodeChange(Deed.ADD, "c"),
        NodeChange(Deed.RESET, "a", ("tcp",)),
        NodeChange(Deed.CHANGE, "b", ("weight",)),
    ) == plan(CONFIG, after).nodes
    assert (NodeChange(Deed.REMOVE, "b"),) == plan(CONFIG, attrs.evolve(CONFIG, nodes=(a,))).nodes


def test_the_next_active_set_and_what_would_drain_are_told() -> None:
    """The two things that users notice."""
    _, b = CONFIG.nodes
    result = plan(CONFIG, attrs.evolve(CONFIG, nodes=(b,)), a=7, b=0)

    assert (RouteChange(RouteKey("default", TCP), ("a",), ("b",)),) == result.routes
    assert (Draining("web", tcp("a"), 7, 10.0),) == result.draining


def test_the_flows_of_a_listener_that_closes_drain_whoever_they_are_at() -> None:
    """Nothing is wrong with their node, but their door goes."""
    assert (Draining("web", tcp("a"), 2, 10.0),) == plan(CONFIG, attrs.evolve(CONFIG, listeners=()), a=2).draining
    dns = ListenerConfig(name="web", protocol=Transport.UDP, listen=Address("127.0.0.1", 53))
    before = attrs.evolve(CONFIG, listeners=(dns,))
    assert 0.8 == plan(before, attrs.evolve(CONFIG, listeners=()), a=2).draining[0].timeout


def test_the_flows_of_a_listener_that_serves_another_pool_drain() -> None:
    """Its clients belong elsewhere from now on."""
    moved = attrs.evolve(CONFIG, listeners=(attrs.evolve(WEB, pool="other"),))
    result = plan(CONFIG, moved, a=2)

    assert (Draining("web", tcp("a"), 2, 10.0),) == result.draining
    assert ("pools.other",) == result.settings


def test_a_route_that_ends_or_begins_is_a_change() -> None:
    """A pool's last node takes the route with it."""
    moved = attrs.evolve(CONFIG, nodes=(CONFIG.nodes[0], attrs.evolve(CONFIG.nodes[1], pool="other")))

    assert RouteChange(RouteKey("other", TCP), (), ("b",)) in plan(CONFIG, moved).routes
    assert RouteChange(RouteKey("other", TCP), ("b",), ()) in plan(moved, CONFIG).routes


def test_settings_that_differ_are_named_by_their_keys() -> None:
    """So that a typo in a value is seen before it is in force."""
    after = config_of(*CONFIG.nodes, listeners=(WEB,), probe_interval=5.0)

    assert ("global.probe_interval",) == plan(CONFIG, after).settings
    drained = config_of(*CONFIG.nodes, listeners=(WEB,), drain_timeout=1.0)
    assert "pools.default.drain_timeout" in plan(CONFIG, drained).settings


def test_flows_of_an_unknown_endpoint_are_passed_over() -> None:
    """A node that was removed while the plan was on its way."""
    assert () == plan(CONFIG, attrs.evolve(CONFIG, nodes=CONFIG.nodes[1:]), gone=3).draining


def test_a_drain_under_way_is_counted_from_the_moment_of_the_plan() -> None:
    """Whoever has three seconds left has no ten because a file is read."""
    state = reduce(initial_state(CONFIG), OperatorDrained(at=1.0, node="a", timeout=7.0))
    closed = attrs.evolve(CONFIG, listeners=())

    assert (Draining("web", tcp("a"), 2, 3.0),) == plan_reload(state, closed, 5.0, {("web", tcp("a")): 2}).draining


def test_changes_are_told_in_the_order_of_their_names() -> None:
    """Two gateways with one file say the same, whatever their flows came in."""
    www = ListenerConfig(name="www", protocol=TCP, listen=Address("127.0.0.1", 8080))
    pools = config_of(*[tcp_node(name, pool=f"pool-{name}") for name in "hgfedcba"])
    assert [f"pool-{name}/tcp" for name in "abcdefgh"] == [str(each.route) for each in plan(pools, Config()).routes]

    before = attrs.evolve(CONFIG, listeners=(WEB, www))
    flows = {("www", tcp("a")): 1, ("web", tcp("b")): 2, ("web", tcp("a")): 3}
    told = plan_reload(initial_state(before), attrs.evolve(CONFIG, listeners=()), 5.0, flows).draining
    assert [("web", "a", 3), ("web", "b", 2), ("www", "a", 1)] == [
        (each.listener, each.endpoint.node, each.flows) for each in told
    ]


def test_what_is_not_there_does_not_drain() -> None:
    """No flow, a listener of another name, an endpoint that the node lacks."""
    without = attrs.evolve(CONFIG, nodes=CONFIG.nodes[1:], listeners=())
    state = initial_state(CONFIG)

    for key, count in ((("web", tcp("a")), 0), (("gone", tcp("a")), 1), (("web", udp("a")), 1)):
        assert () == plan_reload(state, without, 5.0, {key: count}).draining


def test_what_is_left_of_a_drain_is_told_to_the_microsecond() -> None:
    """No dust of adding floats, and nothing rounded away that anybody set."""
    before = config_of(*CONFIG.nodes, listeners=(WEB,), drain_timeout=0.1234567)

    assert 0.123457 == plan(before, config_of(*CONFIG.nodes, drain_timeout=0.1234567), a=1).draining[0].timeout


def test_pools_that_come_or_go_are_told_by_name() -> None:
    """In one order, whatever the hash."""
    pools = config_of(*CONFIG.nodes, *[tcp_node(name, pool=f"pool-{name}") for name in "hgfedc"], listeners=(WEB,))

    assert tuple(f"pools.pool-{name}" for name in "cdefgh") == plan(CONFIG, pools).settings


@given(st.data())
def test_what_the_plan_says_is_what_the_reload_does(data: st.DataObject) -> None:
    """For any history and any new configuration."""
    config, events = data.draw(histories())
    state = initial_state(config)
    for event in events:
        state = reduce(state, event)
    new = data.draw(reloads(state.config))

    result = plan_reload(state, new, state.now, {})
    after = reduce(state, ConfigApplied(at=state.now, config=new))

    said = {change.route: change.after for change in result.routes}
    assert {
        key: after.routes[key].active if key in after.routes else ()
        for key in state.routes.keys() | after.routes.keys()
        if (state.routes[key].active if key in state.routes else ())
        != (after.routes[key].active if key in after.routes else ())
    } == said
    assert {node.name for node in new.nodes} - {node.name for node in state.config.nodes} == {
        change.name for change in result.nodes if change.deed is Deed.ADD
    }

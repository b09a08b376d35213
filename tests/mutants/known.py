"""The faults, each as the edit that makes it: the rule taken out, and the tests that must notice."""

import attrs


@attrs.frozen(kw_only=True)
class Mutant:
    """One edit that brings a known fault back. `old` stands in `file` exactly once; every one of `tests` must fail."""

    fault: str  # as in docs/known-faults.md
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


TERMS, UDP, SEARCH, HEALTH = "state/terms.py", "tasks/udp.py", "tasks/search.py", "state/health.py"

MUTANTS = (
    Mutant(
        fault="Zero disables draining",
        file=TERMS,
        old="deadline = min(before.deadline, now + pool.drain_timeout) if",
        new="deadline = min(before.deadline, now + (pool.drain_timeout or NEVER)) if",
        tests=(
            "tests/state/test_terms.py::test_the_drain_timeout_counts_from_the_fall",
            "tests/tasks/test_draining.py::test_a_drained_flow_is_cut_exactly_at_its_deadline",
        ),
    ),
    Mutant(
        fault="Zero disables draining",
        file=TERMS,
        old="deadline=now + pool.failback_drain_timeout,",
        new="deadline=now + (pool.failback_drain_timeout or NEVER),",
        tests=("tests/e2e/test_promises.py::test_a_drain_timeout_of_zero_closes_within_ten_milliseconds",),
    ),
    Mutant(
        fault="A drain is not lifted",
        file=TERMS,
        old="return Terms(kind=LeaseKind.ACTIVE, was_usable=True)",
        new="return Terms(kind=LeaseKind.ACTIVE, was_usable=True, deadline=before.deadline)",
        tests=(
            "tests/state/test_terms.py::test_the_way_back_into_the_active_set_lifts_the_deadline",
            "tests/tasks/test_draining.py::test_promotion_before_the_deadline_lifts_it",
        ),
    ),
    Mutant(
        fault="Failback kills",
        file=TERMS,
        old="deadline=now + pool.failback_drain_timeout,",
        new="deadline=now + pool.drain_timeout,",
        tests=(
            "tests/state/test_terms.py::test_a_healthy_endpoint_that_is_left_drains_for_the_failback_time",
            "tests/tasks/test_draining.py::test_flows_of_a_healthy_standby_have_the_failback_time",
        ),
    ),
    Mutant(
        fault="A member dies unnoticed",
        file=TERMS,
        old="if usable and route is not None and subject.endpoint.node in route.active:",
        new="if is_present and route is not None and (subject.endpoint.node in route.active"
        ' or (route.active and route.strategy.value != "priority")):',
        tests=(
            "tests/tasks/test_draining.py::test_an_unhealthy_member_drains_alone",
            "tests/tasks/test_member_death.py::test_the_tcp_flows_of_a_member_that_falls_drain",
        ),
    ),
    Mutant(
        fault="A member dies unnoticed",
        file=UDP,
        old="if session.leg is not None and self._should_move(state, session.leg):",
        new="if session.leg and not state.routes[session.leg.route].active and self._should_move(state, session.leg):",
        tests=("tests/tasks/test_member_death.py::test_the_udp_sessions_of_a_member_that_falls_move",),
    ),
    Mutant(
        fault="Healthy sessions are moved",
        file=UDP,
        old="if leg.lease.terms.kind is LeaseKind.RETIRING:",
        new="if leg.opened_at < trio.current_time():",
        tests=(
            "tests/tasks/test_udp_moving.py::test_a_switch_leaves_sessions_of_nodes_that_stay_active_alone",
            "tests/tasks/test_member_death.py::test_the_udp_sessions_of_a_member_that_falls_move",
        ),
    ),
    Mutant(
        fault="Removed nodes live on",
        file=TERMS,
        old="    pool = _pool(state, subject)\n",
        new="    pool = _pool(state, subject)\n    if node is None:\n        return before\n",
        tests=(
            "tests/state/test_terms.py::test_a_removed_node_drains",
            "tests/tasks/test_draining.py::test_a_removed_node_drains",
        ),
    ),
    Mutant(
        fault="UDP death behind TCP",
        file="state/verdict.py",
        old="if own in _USABLE and follows(node, endpoint):",
        new="if follows(node, endpoint):",
        tests=("tests/state/test_health.py::test_a_refused_udp_endpoint_falls_alone_and_is_never_followed",),
    ),
    Mutant(
        fault="UDP death behind TCP",
        file="tasks/legs.py",
        old="self._services.reporter.failed(endpoint, kind, session.client.host)",
        new="pass",
        tests=("tests/tasks/test_udp_failover.py::test_three_sessions_refusals_move_all_the_others",),
    ),
    Mutant(
        fault="Refusals are unheard",
        file="net/udp_sockets.py",
        old="return origin in _FROM_ICMP and number in REFUSALS",
        new="return False",
        tests=(
            "tests/net/test_contract.py::test_the_real_network_keeps_its_promises[a_refused_datagram_comes_back_with_its_refusal]",
            "tests/tasks/test_udp_real.py::test_three_refused_clients_move_the_others",
        ),
    ),
    Mutant(
        fault="Wrong source address",
        file="net/udp_listener.py",
        old="if local.is_wildcard:",
        new="if local:",
        tests=(
            "tests/net/test_sockets_udp.py::test_answers_leave_from_the_address_written_to",
            "tests/tasks/test_udp_real.py::test_a_reply_leaves_from_the_address_the_client_wrote_to",
        ),
    ),
    Mutant(
        fault="Families do not mix",
        file="tasks/legs.py",
        old="self.front.send_nowait(payload, leg.session.client, leg.session.local)",
        new='(":" in leg.conn.peer.host) == (":" in leg.session.client.host) and '
        "self.front.send_nowait(payload, leg.session.client, leg.session.local)",
        tests=(
            "tests/tasks/test_udp_sessions.py::test_an_ipv6_client_is_served_by_an_ipv4_node",
            "tests/tasks/test_udp_sessions.py::test_an_ipv4_client_is_served_by_an_ipv6_node",
            "tests/tasks/test_udp_real.py::test_families_mix",
        ),
    ),
    Mutant(
        fault="Sessions without bound",
        file=UDP,
        old="while len(self._table) >= most:",
        new="while len(self._table) >= 100 * most:",
        tests=("tests/tasks/test_udp_limits.py::test_at_the_limit_the_longest_idle_session_makes_room",),
    ),
    Mutant(
        fault="Sessions without bound",
        file=UDP,
        old="self.end(oldest, EndReason.IDLE)",
        new="self._table.touch(oldest, now)",
        tests=("tests/tasks/test_udp_sessions.py::test_a_session_ends_exactly_its_timeout_after_the_last_datagram",),
    ),
    Mutant(
        fault="Probes empty the window",
        file=HEALTH,
        old="good_streak=streak, bad_streak=0, stepped_at=None, suspected=False)\n",
        new="good_streak=streak, bad_streak=0, stepped_at=None, suspected=False, window=())\n",
        tests=("tests/state/test_health.py::test_good_probes_do_not_empty_the_window",),
    ),
    Mutant(
        fault="Shutdown cuts at once",
        file="tasks/gateway.py",
        old="listener.stop(self.services.clock.now() + grace, EndReason.SHUTDOWN)",
        new="listener.stop(self.services.clock.now(), EndReason.SHUTDOWN)",
        tests=(
            "tests/tasks/test_stop.py::test_a_flow_may_finish_within_the_grace_and_is_cut_at_its_end",
            "tests/e2e/test_stopping.py::test_an_interrupted_process_cuts_idle_clients_when_the_grace_is_over",
        ),
    ),
    Mutant(
        fault="No idle limit, no cap",
        file="net/relay_tasks.py",
        old="idle = self.last_byte + self.limits.idle if self.limits.idle else",
        new="idle = float(1e9) if self.limits.idle else",
        tests=("tests/tasks/test_limits.py::test_an_idle_flow_ends_at_the_idle_timeout",),
    ),
    Mutant(
        fault="No idle limit, no cap",
        file="net/engine_flow.py",
        old="when = self.last_byte + self.limits.idle",
        new="when = self.last_byte + 1e9",
        tests=("tests/net/test_engine_tcp.py::test_the_first_flow_after_a_quiet_time_has_its_whole_idle_limit",),
    ),
    Mutant(
        fault="No idle limit, no cap",
        file="tasks/services.py",
        old="if self.most is not None and self.held >= self.most:",
        new="if self.most is not None and self.held >= 100 * self.most:",
        tests=(
            "tests/tasks/test_limits.py::test_clients_beyond_max_connections_wait_in_the_backlog_and_are_served_later",
        ),
    ),
    Mutant(
        fault="One try too many",
        file=SEARCH,
        old="arrival.failed + len(search.running) >= state.config.globals.connect_retry:",
        new="arrival.failed + len(search.running) > state.config.globals.connect_retry:",
        tests=("tests/tasks/test_tcp_flows.py::test_no_more_than_connect_retry_nodes_are_tried",),
    ),
    Mutant(
        fault="A busy port for ever",
        file="tasks/binding.py",
        old='        raise CannotBind(f"listener {listener.name}: {error}") from error\n',
        new="        await trio.sleep(0.5)\n        return await open_socket(network, listener)\n",
        tests=(
            "tests/e2e/test_starting.py::test_a_listener_on_a_port_of_another_program_is_not_tried_for_ever",
            "tests/e2e/test_starting.py::test_a_second_instance_on_the_same_port_fails_and_leaves_the_first_alone",
        ),
    ),
    Mutant(
        fault="Wishes lost on reload",
        file="state/reload.py",
        old="if node.enabled != before.enabled:",
        new="if node is not None:",
        tests=(
            "tests/tasks/test_apply.py::test_unrelated_reloads_leave_the_operators_wishes_alone",
            "tests/e2e/test_reloading.py::test_the_wish_of_an_operator_outlives_reloads_and_what_the_node_does",
        ),
    ),
    Mutant(
        fault="A client slips past a switch",
        file="net/engine_intake.py",
        old="if not shortcut.stands() or shortcut.group.is_over:",
        new="if shortcut.group.is_over:",
        tests=("tests/net/test_engine_intake.py::test_no_client_comes_in_once_the_shortcut_stands_no_more",),
    ),
    Mutant(
        fault="Flows outlive their drain",
        file="tasks/leases.py",
        old="if hold is None or self.group is None:",
        new="if hold is None or self.group is not None:",
        tests=(
            "tests/tasks/test_shortcuts.py::test_flows_by_shortcut_are_cut_at_the_drain_deadline_and_counted_as_drained",
        ),
    ),
)

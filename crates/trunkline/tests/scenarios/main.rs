//! Scenarios that a client runs over TCP, a Unix socket, shared memory and a memory pipe. A program
//! sees the same on every transport.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests may panic"
)]

mod audit;
mod bulk;
mod contracts;
mod forcing;
mod groups;
mod libraries;
mod patterns;
mod place;
mod polled;
mod tasks;
mod types;
mod writes;

use place::{Place, Transport};

/// A scenario: its name, and its steps.
type Scenario = (&'static str, fn(&Place));

const SCENARIOS: &[Scenario] = &[
    (
        "every type goes there and back",
        types::every_type_goes_there_and_back,
    ),
    (
        "missing name",
        types::one_missing_name_does_not_hide_the_others,
    ),
    (
        "typed handles",
        types::a_typed_handle_refuses_another_type_once,
    ),
    ("find and info", types::variables_are_found_and_described),
    ("outcomes", writes::every_write_ends_in_exactly_one_way),
    ("stamps", writes::readings_say_when_and_by_which_clock),
    ("own updates", writes::own_updates_come_back_marked),
    ("group", groups::a_group_is_written_whole_or_not_at_all),
    (
        "group in order",
        groups::a_group_stands_in_order_and_in_one_piece,
    ),
    ("A-B-A", groups::a_value_that_returns_is_never_swallowed),
    (
        "group in process",
        groups::a_program_with_the_engine_writes_groups,
    ),
    (
        "snapshot",
        groups::a_snapshot_is_one_instant_or_says_that_it_is_not,
    ),
    (
        "lease",
        groups::a_lease_keeps_others_out_until_it_is_given_back,
    ),
    (
        "control",
        groups::control_of_a_folder_goes_from_one_client_to_the_next,
    ),
    (
        "single writer",
        groups::the_single_writer_is_followed_by_the_next,
    ),
    (
        "async puts",
        writes::a_thousand_puts_are_packed_and_answered,
    ),
    ("latest", contracts::latest_gives_the_newest_value),
    ("last", contracts::last_drops_the_oldest_and_says_so),
    ("first", contracts::first_drops_the_newest_and_says_so),
    ("all", contracts::all_gives_every_update_in_order),
    ("blocks", contracts::readings_are_taken_in_blocks),
    ("batches", contracts::readings_are_looked_at_in_batches),
    ("sampled", contracts::sampled_gives_one_value_per_period),
    (
        "changes only",
        contracts::changes_only_leaves_out_what_is_equal,
    ),
    (
        "undeployed",
        contracts::undeployed_variables_say_that_they_are_gone,
    ),
    ("ledgers", contracts::the_ledgers_of_both_sides_balance),
    ("tasks", tasks::a_task_has_the_verbs_of_a_thread),
    ("many tasks", tasks::many_tasks_wait_on_one_connection),
    ("dropped calls", tasks::a_call_that_is_dropped_is_forgotten),
    (
        "polled calls",
        polled::a_polled_call_is_asked_for_its_answer_waited_for_or_awaited,
    ),
    (
        "dropped polled calls",
        polled::a_polled_call_goes_on_after_a_wait_and_is_abandoned_when_dropped,
    ),
    (
        "deploy",
        libraries::a_client_deploys_and_undeploys_a_library,
    ),
    (
        "deploy again",
        libraries::a_library_is_changed_under_its_users,
    ),
    (
        "stop and start",
        libraries::a_library_is_stopped_and_started,
    ),
    (
        "large library",
        libraries::a_large_library_comes_in_many_frames,
    ),
    ("audit", audit::who_did_what_is_told),
    (
        "patterns",
        patterns::a_pattern_follows_names_that_come_and_go,
    ),
    (
        "subscribed by pattern",
        patterns::a_subscription_by_pattern_gets_the_updates_of_what_appears,
    ),
    (
        "large pattern",
        patterns::a_large_library_appears_as_a_whole,
    ),
    (
        "forcing",
        forcing::the_forced_list_comes_in_pages_and_is_switched,
    ),
    ("alias", forcing::an_alias_is_a_variable_like_any_other),
    (
        "notifications",
        patterns::a_notification_is_requested_cancelled_and_carries_all_there_is_to_know,
    ),
    (
        "bulk",
        bulk::a_hundred_thousand_variables_are_subscribed_in_one_request,
    ),
];

/// Behaviour: LX-01, LX-12.
#[test]
fn every_scenario_holds_over_tcp() {
    run(Transport::Tcp);
}

/// Behaviour: LX-12.
#[test]
fn every_scenario_holds_over_a_unix_socket() {
    run(Transport::Unix);
}

/// Behaviour: LX-12.
#[test]
fn every_scenario_holds_over_shared_memory() {
    run(Transport::Shared);
}

/// Behaviour: LX-01, LX-12.
#[test]
fn every_scenario_holds_in_throughput_mode() {
    run(Transport::Throughput);
}

/// Behaviour: LX-12.
#[test]
fn every_scenario_holds_over_a_pipe_in_memory() {
    run(Transport::Memory);
}

fn run(transport: Transport) {
    for (name, scenario) in SCENARIOS {
        println!("{transport:?}: {name}");
        scenario(&Place::new(transport));
    }
}

//! Tests the state transitions: every event in every state, for each combination of rules.

#![allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]

use trunkline_alarm::{Event, Machine, Rules, State};

const AUTO: Rules = Rules {
    auto_acknowledges: true,
    is_latched: false,
};
const USER: Rules = Rules {
    auto_acknowledges: false,
    is_latched: false,
};
const LATCHED: Rules = Rules {
    auto_acknowledges: false,
    is_latched: true,
};
const LATCHED_AUTO: Rules = Rules {
    auto_acknowledges: true,
    is_latched: true,
};

/// Creates a machine in `state`, whose condition is met if `is_active`.
fn machine(state: State, is_active: bool) -> Machine {
    let process = match (state.is_hidden(), is_active) {
        (false, _) => state,
        (true, true) => State::Unacknowledged,
        (true, false) => State::Normal,
    };
    let hidden = [
        State::Shelved,
        State::SuppressedByDesign,
        State::OutOfService,
    ];
    Machine::from_parts(process, hidden.map(|one| one == state)).unwrap()
}

/// Returns a row of the table: state, activity, event, and the next state for each of the rules (user, auto,
/// latched, latched and auto). `-` means that the event is refused, `.` that it changes nothing.
fn row(state: State, is_active: bool, event: Event) -> String {
    let next = [USER, AUTO, LATCHED, LATCHED_AUTO].map(|rules| {
        match machine(state, is_active).after(event, rules) {
            Err(_) => "-",
            Ok(next) if next == machine(state, is_active) => ".",
            Ok(next) => next.state().name(),
        }
    });
    format!(
        "{} {} {} | {}",
        state,
        is_active,
        event.name(),
        next.join(" ")
    )
}

/// Behaviour: H-08, SV-04.
#[test]
fn state_transitions_match_isa_18_2() {
    let mut rows = Vec::new();
    for state in State::ALL {
        let activities: &[bool] = match state.is_hidden() {
            true => &[false, true],
            false => &[machine(state, false).is_active()],
        };
        for is_active in activities {
            rows.extend(Event::ALL.map(|event| row(state, *is_active, event)));
        }
    }
    let expected = include_str!("states.txt");
    assert_eq!(rows.join("\n"), expected.trim_end());
}

#[test]
fn active_alarm_is_unacknowledged_when_it_is_shown_again() {
    for (hide, show) in [
        (Event::Shelve, Event::Unshelve),
        (Event::Suppress, Event::Unsuppress),
        (Event::TakeOutOfService, Event::ReturnToService),
    ] {
        let after = |events: &[Event]| {
            let start = Machine::default();
            let end = events
                .iter()
                .try_fold(start, |m, event| m.after(*event, USER));
            end.unwrap().state()
        };
        let seen = after(&[Event::Raise, Event::Acknowledge, hide, show]);
        assert_eq!(seen, State::Unacknowledged, "{hide:?}");
        assert_eq!(after(&[hide, Event::Raise, show]), State::Unacknowledged);
        assert_eq!(
            after(&[Event::Raise, hide, Event::Clear, show]),
            State::Normal
        );
    }
}

#[test]
fn hiding_an_alarm_does_not_replace_acknowledging_or_resetting_it() {
    for (rules, expected) in [
        (USER, State::ReturnedUnacknowledged),
        (LATCHED, State::LatchedUnacknowledged),
    ] {
        let events = [
            Event::Raise,
            Event::Clear,
            Event::Shelve,
            Event::Clear,
            Event::Unshelve,
        ];
        let start = Machine::default();
        let end = events
            .iter()
            .try_fold(start, |m, event| m.after(*event, rules));
        assert_eq!(end.unwrap().state(), expected);
    }
}

#[test]
fn alarm_stays_hidden_until_the_last_reason_ends() {
    let mut sut = Machine::default();
    for (event, expected) in [
        (Event::Raise, State::Unacknowledged),
        (Event::Shelve, State::Shelved),
        (Event::Suppress, State::SuppressedByDesign),
        (Event::TakeOutOfService, State::OutOfService),
        (Event::Unsuppress, State::OutOfService),
        (Event::ReturnToService, State::Shelved),
        (Event::Unshelve, State::Unacknowledged),
    ] {
        sut = sut.after(event, USER).unwrap();
        assert_eq!(sut.state(), expected, "{event:?}");
    }
}

#[test]
fn second_acknowledgement_is_refused_with_the_reason() {
    let sut = Machine::default().after(Event::Raise, USER).unwrap();
    let sut = sut.after(Event::Acknowledge, USER).unwrap();
    let error = sut.after(Event::Acknowledge, USER).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the alarm is acknowledged, so there is nothing to acknowledge"
    );
}

#[test]
fn machine_is_restored_from_its_parts_if_they_are_possible() {
    for state in State::ALL {
        for is_active in [false, true] {
            let sut = machine(state, is_active);
            let (process, hidden) = sut.parts();
            assert_eq!(Machine::from_parts(process, hidden), Some(sut));
        }
    }
    assert_eq!(
        Machine::from_parts(State::Shelved, [true, false, false]),
        None
    );
    assert_eq!(
        Machine::from_parts(State::Acknowledged, [true, false, false]),
        None
    );
}

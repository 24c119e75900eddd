//! Tests that an item's counts stay exact beyond the range of its bit fields.

use super::*;

/// Returns items with one variable, of which `sequence` is delivered and nothing is unconfirmed.
fn items(sequence: u64) -> (Items, InFlight, u32) {
    let mut sut = Items::default();
    let index = sut.insert(1, None, ResumePoint::Nothing, 1);
    if let Some(item) = sut.get_mut(index) {
        item.set_last(sequence);
    }
    (sut, InFlight::confirmed_by_peer(), index)
}

/// Behaviour: B-01.
#[test]
fn writes_within_the_in_flight_limit_take_the_fast_path() {
    let (mut sut, mut in_flight, index) = items(10);
    // No client may leave more than 2^20 records unconfirmed.
    for sequence in 11..=(1 << 20) + 10 {
        assert!(sut.note_next(index, sequence, &mut in_flight));
    }
    assert_eq!(sut.unconfirmed(index), 1 << 20);
    assert!(
        sut.extra(index).is_none(),
        "the item itself holds the count"
    );
    assert!(in_flight.confirm(1 << 20, &mut sut));
    assert_eq!((sut.unconfirmed(index), sut.coalesced(index)), (0, 0));
}

/// Behaviour: B-01.
#[test]
fn unconfirmed_updates_beyond_the_item_counter_are_counted_separately() {
    let (mut sut, mut in_flight, index) = items(10);
    if let Some(item) = sut.get_mut(index) {
        item.set_unconfirmed_inline(UNCONFIRMED_MAX - 1);
    }
    let max = u64::from(UNCONFIRMED_MAX);
    assert!(sut.note_next(index, 11, &mut in_flight));
    assert!(!sut.note_next(index, 12, &mut in_flight), "full");
    for more in 1..=3 {
        sut.note_sent(index, true, &mut in_flight);
        assert_eq!(sut.unconfirmed(index), max + more);
    }
    assert!(
        !sut.note_next(index, 12, &mut in_flight),
        "counted separately"
    );
    for left in (max - 2..max + 3).rev() {
        sut.confirm(index);
        assert_eq!(sut.unconfirmed(index), left);
    }
    assert!(sut.note_next(index, 12, &mut in_flight));
}

/// A subscriber that resumes after a gap gets one report of it, and then uses the fast path.
///
/// Behaviour: B-01, B-02.
#[test]
fn item_takes_the_fast_path_after_its_loss_is_reported() {
    let mut sut = Items::default();
    let mut in_flight = InFlight::confirmed_by_peer();
    let index = sut.insert(1, Some(10), ResumePoint::Sequence(5), 10);
    assert!(!sut.note_next(index, 10, &mut in_flight));
    assert!(sut.extra(index).is_some_and(ItemExtra::is_pending));
    // A delivery takes the loss in the same way.
    if let Some(extra) = sut.extra_mut(index) {
        assert_eq!(std::mem::take(&mut extra.unreported).disconnect, 4);
    }
    sut.settle_pending(index);
    assert!(sut.note_next(index, 10, &mut in_flight));
    assert_eq!((sut.delivered(index), sut.unconfirmed(index)), (1, 1));
}

/// Behaviour: B-01.
#[test]
fn coalesced_updates_are_counted_beyond_the_item_counter() {
    let (mut sut, _, index) = items(10);
    let mut sum = 0;
    for more in [1, 1 << 17, 1 << 17, 1 << 17, 5, 1 << 40, 7] {
        sut.add_coalesced(index, more);
        sum += more;
        assert_eq!(sut.coalesced(index), sum);
        assert_eq!(sut.unconfirmed(index), 0);
    }
}

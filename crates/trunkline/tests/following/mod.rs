//! Waiting for the updates of a subscription.

use std::time::Duration;

use trunkline::types::Value;
use trunkline::{Event, Subscription};

/// Limit that only a hanging test reaches.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for a reading of this value.
pub fn wait_for(subscription: &Subscription, value: f64) {
    loop {
        match subscription.next(Some(TIMEOUT)) {
            Some(Event::Reading { reading, .. }) => {
                if reading.sample.value == Value::F64(value) {
                    return;
                }
            }
            Some(_) => {}
            None => panic!("{value} did not come"),
        }
    }
}

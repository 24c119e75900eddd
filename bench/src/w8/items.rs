//! Memory of each item of a `latest` subscription, at the engine and at the client.

use trunkline::Client;

use super::connect::{FirstSet, subscribe};
use super::{name, resident_bytes};
use crate::Outcome;
use crate::record::Row;
use crate::role::Role;
use crate::settings::Settings;
use crate::trunkline_calls::PATIENCE;

/// Two clients subscribe one after the other: the first to follow a variable costs the engine what
/// all share, the second its item alone.
///
/// # Errors
/// The engine is not there, or the system does not tell what is resident.
pub fn measure(variables: usize, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start("w8-engine", &Settings::default().with("vars", variables))?;
    let url = far.expect("LISTENING")?;
    let names: Vec<String> = (0..variables).map(name).collect();
    let of_engine = || resident_bytes(far.pid());
    let of_client = || resident_bytes(std::process::id());
    // A connection and a subscription have costs of their own, once.
    let warm = Client::connect(&url)?;
    warm.wait_connected(PATIENCE)?;
    let _warm = subscribe(&warm, &names[..1], &mut FirstSet::new(1))?;
    let mut clients = Vec::new();
    let mut engine_before = of_engine()?;
    for (number, which) in ["first", "further"].into_iter().enumerate() {
        let client_before = of_client()?;
        let client = Client::connect(&url)?;
        client.wait_connected(PATIENCE)?;
        let mut first_set = FirstSet::new(variables);
        let subscription = subscribe(&client, &names, &mut first_set)?;
        row.require(first_set.wrong == 0, || {
            format!(
                "client {}: {} readings were wrong",
                number + 1,
                first_set.wrong
            )
        });
        drop(first_set);
        let engine_after = of_engine()?;
        let each = |bytes: f64| bytes / variables as f64;
        row.figure(
            &format!("{which}_bytes_per_item"),
            each(engine_after - engine_before),
        );
        row.figure(
            &format!("{which}_client_bytes_per_item"),
            each(of_client()? - client_before),
        );
        engine_before = engine_after;
        clients.push((client, subscription));
    }
    Ok(())
}

//! V9: the round trip of a value between two processes over shared memory.

use trunkline_bench::Outcome;
use trunkline_bench::record::Row;
use trunkline_bench::role::{Role, say};
use trunkline_bench::same_host::{self, Timing};
use trunkline_bench::settings::Settings;

use crate::iceoryx::Ends;

/// The far end: echoes.
pub fn echo(settings: &Settings) -> Outcome<()> {
    let ends = Ends::open(&settings.value::<String>("name")?, "back", "there")?;
    say("LISTENING");
    loop {
        ends.send(ends.receive()?)?;
    }
}

pub fn measure(system: &str, settings: &Settings, place: &str) -> Outcome<Vec<Row>> {
    if system != "iceoryx2" {
        return Err(format!("there is no system {system}").into());
    }
    let (_far, ends) = connect()?;
    let mut row = Row::new(
        same_host::SCENARIO,
        system,
        "what=ping-pong".to_owned(),
        place,
    );
    row.waiting = "spinning".to_owned();
    same_host::measure(&Timing::read(settings)?, &mut row, |number| {
        ends.send(number)?;
        ends.receive()
    })?;
    Ok(vec![row])
}

/// Both ends; the far one echoes.
pub fn connect() -> Outcome<(Role, Ends)> {
    let name = format!("trunkline-peer-{}", std::process::id());
    let mut far = Role::start("same_host-echo", &Settings::default().with("name", &name))?;
    far.expect("LISTENING")?;
    let ends = Ends::open(&name, "there", "back")?;
    // Messages are lost until both ends have found each other.
    let mut heard = false;
    while !heard {
        ends.send(0)?;
        std::thread::sleep(std::time::Duration::from_millis(10));
        while ends.try_receive()?.is_some() {
            heard = true;
        }
    }
    Ok((far, ends))
}

//! Runs the boiler house for one simulated year, with an operator who disturbs it every twelve
//! hours. Fails if the plant loses mass or energy, leaves the physical range, or does not recover.
//!
//! A soak test of a few minutes: `cargo run --release -p trunkline-boiler --example boiler_year`.
//! To simulate another period, add the number of days.

#![allow(clippy::print_stdout, reason = "the example reports its progress")]

use std::error::Error;

use trunkline_boiler::{BoilerServer, CATCH_UP_MAX, Options};
use trunkline_io::{IoServer, Scan};
use trunkline_types::{Tick, Timestamp, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let days = match std::env::args().nth(1) {
        Some(days) => days.parse::<u64>()?,
        None => 365,
    };
    let mut rig = Rig {
        plant: BoilerServer::new(Options::default()),
        now: Tick::ZERO,
    };
    rig.plant.open(rig.now, Timestamp::UNIX_EPOCH)?;
    let mut rng = fastrand::Rng::with_seed(365);
    for hour in 0..days * 24 {
        match hour % 12 {
            11 => rig.disturb(&mut rng),
            0 => rig.restore_setpoints(),
            // The water level has recovered by now.
            1 => rig.relight(),
            _ => {}
        }
        rig.run_an_hour()?;
        rig.check(hour % 12 >= 4 && hour % 12 <= 10)
            .map_err(|problem| format!("hour {hour}: {problem}"))?;
        if hour % (24 * 30) == 0 {
            println!(
                "day {}: level {:.1} %",
                hour / 24,
                rig.read("boiler/level")?
            );
        }
    }
    println!("{days} days: mass and energy were conserved, and the plant stayed within its limits");
    Ok(())
}

struct Rig {
    plant: BoilerServer,
    now: Tick,
}

impl Rig {
    fn run_an_hour(&mut self) -> Result<(), Box<dyn Error>> {
        let mut scan = Scan::new();
        for _ in 0..3600 / CATCH_UP_MAX.as_secs() {
            self.now = self.now.saturating_add(CATCH_UP_MAX);
            scan.clear();
            self.plant
                .scan(self.now, Timestamp::UNIX_EPOCH, &mut scan)?;
        }
        Ok(())
    }

    /// Writes a value. A refused write changes nothing, so it is ignored.
    fn put(&mut self, name: &str, value: Value) {
        if let Some(item) = self.plant.item(name) {
            let _ = self
                .plant
                .send(item, &value, self.now, Timestamp::UNIX_EPOCH)
                .err();
        }
    }

    fn read(&mut self, name: &str) -> Result<f64, Box<dyn Error>> {
        let item = self
            .plant
            .item(name)
            .ok_or_else(|| format!("no item {name}"))?;
        let mut scan = Scan::new();
        self.plant
            .request(item, self.now, Timestamp::UNIX_EPOCH, &mut scan)?;
        let value = scan
            .iter()
            .next()
            .and_then(|published| published.value.as_ref()?.as_f64());
        value.ok_or_else(|| format!("{name} has no number").into())
    }

    fn disturb(&mut self, rng: &mut fastrand::Rng) {
        let fraction = rng.f64();
        let mode = Value::Enum(rng.u32(0..3));
        match rng.u8(0..9) {
            0 => self.put("boiler/setpoint", Value::F64(30.0 + 55.0 * fraction)),
            1 => self.put("boiler/feed", Value::F64(100.0 * fraction)),
            2 => self.put("boiler/pump/mode", mode),
            3 => self.put("boiler/burner/mode", mode),
            4 => self.put("boiler/steam/setpoint", Value::F64(6.0 + 5.5 * fraction)),
            5 => self.put("boiler/steam/demand", Value::F64(100.0 * fraction)),
            6 => self.put("valves/FV105/command", Value::F64(100.0 * fraction)),
            7 => self.put("valves/XV110/command", Value::Bool(true)),
            _ => self.put("boiler/tank/setpoint", Value::F64(30.0 + 60.0 * fraction)),
        }
    }

    fn restore_setpoints(&mut self) {
        self.put("boiler/setpoint", Value::F64(70.0));
        self.put("boiler/pump/mode", Value::Enum(2));
        self.put("boiler/steam/setpoint", Value::F64(10.0));
        self.put("boiler/steam/demand", Value::F64(60.0));
        self.put("boiler/tank/setpoint", Value::F64(70.0));
        self.put("valves/FV105/command", Value::F64(3.0));
        self.put("valves/XV110/command", Value::Bool(false));
    }

    fn relight(&mut self) {
        self.put("boiler/burner/reset", Value::Bool(true));
        self.put("boiler/burner/mode", Value::Enum(2));
    }

    fn check(&mut self, is_settled: bool) -> Result<(), Box<dyn Error>> {
        for (name, low, high) in [
            ("boiler/balance/mass_error", 0.0, 0.0),
            ("boiler/balance/energy_error", 0.0, 0.0),
            ("boiler/sim/skipped", 0.0, 0.0),
            ("boiler/drum/pressure", 0.0, 14.0),
            ("boiler/drum/water", 500.0, 3000.0),
            ("boiler/tank/level", 4.0, 102.0),
            ("boiler/tank/temperature", 5.0, 106.0),
            ("boiler/drum/metal_temperature", 20.0, 280.0),
        ] {
            self.check_range(name, low, high)?;
        }
        if is_settled {
            self.check_range("boiler/level", 68.0, 72.0)?;
            self.check_range("boiler/drum/pressure", 9.7, 10.3)?;
            self.check_range("boiler/tank/level", 66.0, 74.0)?;
        }
        Ok(())
    }

    fn check_range(&mut self, name: &str, low: f64, high: f64) -> Result<(), Box<dyn Error>> {
        let value = self.read(name)?;
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(format!("{name} is {value}, not {low} to {high}").into())
    }
}

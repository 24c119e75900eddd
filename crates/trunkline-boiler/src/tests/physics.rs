//! Tests that the plant behaves like a boiler.

use trunkline_types::Value;

use super::{AUTO, MANUAL, OFF, Rig};
use trunkline_io::SendRefusal;

const RUN: Value = Value::Enum(3);
const TRIP: Value = Value::Enum(4);

/// Runs until a condition is met, for at most `seconds_max`. Returns the elapsed seconds.
fn until(
    rig: &mut Rig,
    seconds_max: f64,
    mut condition: impl FnMut(&mut Rig) -> bool,
) -> Option<f64> {
    let mut seconds = 0.0;
    while seconds < seconds_max {
        if condition(rig) {
            return Some(seconds);
        }
        rig.run(0.5);
        seconds += 0.5;
    }
    None
}

#[test]
fn a_new_plant_is_in_normal_operation() {
    let mut rig = Rig::new(1);
    rig.run(600.0);
    for (name, low, high) in [
        ("boiler/level", 69.0, 71.0),
        ("boiler/drum/pressure", 9.8, 10.2),
        ("boiler/temp", 179.0, 181.0),
        ("boiler/steam/flow", 2.2, 2.7),
        ("boiler/feedwater/flow", 2.3, 2.9),
        ("boiler/burner/firing", 70.0, 95.0),
        ("boiler/efficiency", 80.0, 92.0),
        ("boiler/flue/temperature", 240.0, 280.0),
        ("boiler/flue/oxygen", 2.5, 5.5),
        ("boiler/tank/level", 68.0, 72.0),
        ("boiler/tank/temperature", 100.0, 104.5),
        ("boiler/drum/conductivity", 2000.0, 4500.0),
    ] {
        let value = rig.number(name);
        assert!(
            (low..=high).contains(&value),
            "{name} is {value}, not {low} to {high}"
        );
    }
    assert_eq!(rig.read("boiler/burner/state").0, RUN);
    assert_eq!(rig.read("boiler/events").0, Value::U32(0));
}

/// The demo shows that the level passes 85 % about 15 s after the feed is set to 80 %.
#[test]
fn feed_at_80_percent_takes_the_level_past_85_within_20_seconds() {
    for seed in 0..12 {
        let mut rig = Rig::new(seed);
        rig.run(20.0 * seed as f64);
        rig.set("boiler/feed", Value::F64(80.0));
        let seconds = until(&mut rig, 40.0, |rig| rig.number("boiler/level") > 85.0).unwrap();
        assert!((10.0..=20.0).contains(&seconds), "seed {seed}: {seconds} s");
        assert_eq!(rig.read("boiler/pump/mode").0, MANUAL);
    }
}

#[test]
fn high_water_closes_the_feed_valve_and_then_releases_it() {
    let mut rig = Rig::new(3);
    rig.set("boiler/feed", Value::F64(80.0));
    let is_high_water =
        |rig: &mut Rig| rig.read("boiler/protection/high_water").0 == Value::Bool(true);
    until(&mut rig, 60.0, is_high_water).unwrap();
    rig.run(9.0);
    assert_eq!(rig.read("valves/FV101/closed").0, Value::Bool(true));
    assert!(rig.number("boiler/feedwater/flow") < 0.05);
    until(&mut rig, 120.0, |rig| !is_high_water(rig)).unwrap();
    rig.run(5.0);
    assert!(rig.number("boiler/feedwater/flow") > 1.0);
}

#[test]
fn the_level_control_follows_its_setpoint_and_takes_over_after_manual() {
    let mut rig = Rig::new(4);
    rig.set("boiler/setpoint", Value::F64(60.0));
    rig.run(600.0);
    let level = rig.number("boiler/level");
    assert!((level - 60.0).abs() < 1.0, "{level}");
    rig.set("boiler/feed", Value::F64(20.0));
    rig.run(15.0);
    rig.set("boiler/pump/mode", AUTO);
    rig.run(900.0);
    let level = rig.number("boiler/level");
    assert!((level - 60.0).abs() < 1.0, "{level}");
}

#[test]
fn low_water_trips_the_burner_after_the_pump_stops() {
    let mut rig = Rig::new(5);
    rig.set("boiler/pump/mode", OFF);
    rig.run(20.0);
    assert!(rig.number("boiler/level") < 65.0);
    assert_eq!(rig.read("boiler/pump/running").0, Value::Bool(false));
    let trips = until(&mut rig, 120.0, |rig| {
        rig.read("boiler/burner/state").0 == TRIP
    });
    assert!(trips.is_some());
    rig.run(2.0);
    assert_eq!(rig.read("boiler/burner/flame").0, Value::Bool(false));
    assert_eq!(
        rig.read("boiler/burner/trip_cause").0,
        Value::String("low water".into())
    );
    // The raw contact is the opposite of the scaled value.
    assert_eq!(rig.read("boiler/protection/chain").0, Value::Bool(true));

    // The burner stays off until the water level has recovered and an operator resets it.
    let refusal = rig
        .put("boiler/burner/reset", Value::Bool(true))
        .unwrap_err();
    assert!(
        matches!(refusal, SendRefusal::Interlock { .. }),
        "{refusal}"
    );
    let sentence = refusal.to_string();
    assert!(
        sentence.contains("low water") && sentence.contains("30 %"),
        "{sentence}"
    );
    let refusal = rig.put("boiler/burner/mode", AUTO).unwrap_err();
    assert!(refusal.to_string().contains("raise the level"), "{refusal}");
    rig.set("boiler/pump/mode", AUTO);
    until(&mut rig, 120.0, |rig| rig.number("boiler/level") > 35.0).unwrap();
    let refusal = rig.put("boiler/burner/mode", AUTO).unwrap_err();
    assert!(
        refusal.to_string().contains("boiler/burner/reset"),
        "{refusal}"
    );
    rig.set("boiler/burner/reset", Value::Bool(true));
    let starts = rig.number("boiler/burner/starts");
    until(&mut rig, 60.0, |rig| {
        rig.read("boiler/burner/state").0 == RUN
    })
    .unwrap();
    assert_eq!(rig.number("boiler/burner/starts"), starts + 1.0);
    rig.run(1800.0);
    let pressure = rig.number("boiler/drum/pressure");
    assert!((pressure - 10.0).abs() < 0.3, "{pressure}");
}

#[test]
fn more_fire_raises_the_pressure_until_the_safety_valve_lifts() {
    let mut rig = Rig::new(6);
    rig.set("boiler/burner/mode", MANUAL);
    rig.set("boiler/burner/firing", Value::F64(100.0));
    rig.set("boiler/steam/demand", Value::F64(20.0));
    let before = rig.number("boiler/drum/pressure");
    rig.run(30.0);
    assert!(rig.number("boiler/drum/pressure") > before + 0.3);
    let lifted = |rig: &mut Rig| rig.read("boiler/safety_valve/lifted").0 == Value::Bool(true);
    until(&mut rig, 600.0, lifted).unwrap();
    rig.run(1.0);
    assert!(rig.number("boiler/safety_valve/flow") > 4.0);
    until(&mut rig, 120.0, |rig| !lifted(rig)).unwrap();
    assert!(rig.number("boiler/drum/pressure") < 12.1);
    // The safety valve limits the pressure for as long as necessary, while the burner stays at full
    // fire.
    for _ in 0..600 {
        rig.run(1.0);
        assert!(rig.number("boiler/drum/pressure") < 13.5);
    }
    assert!(rig.number("boiler/safety_valve/lifts") > 1.0);
}

#[test]
fn burner_in_auto_stops_at_low_demand_and_starts_again() {
    let mut rig = Rig::new(7);
    let state = |rig: &mut Rig| rig.read("boiler/burner/state").0;
    rig.set("boiler/steam/demand", Value::F64(0.0));
    until(&mut rig, 600.0, |rig| state(rig) == OFF).unwrap();
    assert!(
        rig.number("boiler/drum/pressure") < 12.5,
        "the safety valve lifted when the burner stopped in AUTO"
    );
    rig.set("boiler/steam/demand", Value::F64(60.0));
    until(&mut rig, 600.0, |rig| state(rig) == RUN).unwrap();
    rig.run(900.0);
    assert!((rig.number("boiler/drum/pressure") - 10.0).abs() < 0.3);
}

#[test]
fn more_demand_lowers_the_pressure_and_swells_the_level_before_it_falls() {
    let mut rig = Rig::new(8);
    rig.set("boiler/steam/variation", Value::F64(0.0));
    rig.run(300.0);
    rig.set("boiler/pump/mode", MANUAL);
    rig.set("boiler/burner/mode", MANUAL);
    rig.run(1.0);
    let (level, pressure) = (rig.server.plant.level, rig.server.plant.pressure());
    rig.set("boiler/steam/demand", Value::F64(90.0));
    rig.run(5.0);
    assert!(
        rig.server.plant.level > level + 0.3,
        "no swell: {}",
        rig.server.plant.level - level
    );
    rig.run(60.0);
    assert!(rig.server.plant.pressure() < pressure - 0.5);
    assert!(rig.server.plant.level < level - 5.0);
}

#[test]
fn blow_down_lowers_the_conductivity() {
    let mut rig = Rig::new(9);
    let before = rig.number("boiler/drum/conductivity");
    rig.set("valves/FV105/command", Value::F64(40.0));
    rig.run(1200.0);
    let after = rig.number("boiler/drum/conductivity");
    assert!(after < 0.9 * before, "{before} to {after}");
}

#[test]
fn vent_opens_to_release_steam_and_closes_again() {
    let mut rig = Rig::new(10);
    rig.set("valves/XV110/command", Value::Bool(true));
    rig.run(5.0);
    assert_eq!(rig.read("valves/XV110/open").0, Value::Bool(true));
    assert!((0.4..0.6).contains(&rig.number("boiler/vent/flow")));
    rig.set("valves/XV110/command", Value::Bool(false));
    rig.run(5.0);
    assert_eq!(rig.number("boiler/vent/flow"), 0.0);
}

#[test]
fn a_valve_needs_its_stroke_time() {
    let mut rig = Rig::new(11);
    rig.set("boiler/steam/demand", Value::F64(0.0));
    rig.run(30.0);
    assert_eq!(rig.number("valves/FV102/travel"), 0.0);
    rig.set("valves/FV102/command", Value::F64(100.0));
    rig.run(6.0);
    let travel = rig.number("valves/FV102/travel");
    assert!((travel - 50.0).abs() < 1.0, "{travel}");
    assert_eq!(rig.read("valves/FV102/open").0, Value::Bool(false));
    rig.run(6.1);
    assert_eq!(rig.read("valves/FV102/open").0, Value::Bool(true));
}

#[test]
fn boiler_that_is_switched_off_cools_down() {
    let mut plant = super::super::plant::Plant::new(12);
    plant.controls.burner_mode = super::super::controls::BurnerMode::Off;
    plant.controls.pump_mode = super::super::controls::PumpMode::Off;
    plant.valves[super::super::valve::Tag::FV102 as usize].command = 0.0;
    let mut last = plant.drum.state.temperature;
    for _ in 0..48 {
        for _ in 0..36_000 {
            plant.step();
        }
        let temperature = plant.drum.state.temperature;
        assert!(temperature < last && temperature > 25.0, "{temperature}");
        last = temperature;
    }
    assert!(last < 140.0, "{last}");
}

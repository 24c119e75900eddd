//! Tests that mass and energy balance exactly in the books, and that the books agree with an
//! independent integration of the flows.

use proptest::prelude::*;
use trunkline_types::Value;

use super::super::books::{Account, Balance, Books, ENERGY_UNITS, MASS_UNITS};
use super::super::commands::{Target, apply, limits};
use super::super::flows::Flows;
use super::super::parameters as p;
use super::super::plant::Plant;
use super::super::steam::Table;
use super::super::valve::Tag;
use super::{AUTO, MANUAL, OFF};

/// A sum with negligible rounding error, by Neumaier's algorithm.
#[derive(Default)]
struct Sum {
    value: f64,
    error: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let sum = self.value + term;
        self.error += if self.value.abs() >= term.abs() {
            (self.value - sum) + term
        } else {
            (term - sum) + self.value
        };
        self.value = sum;
    }

    fn total(&self) -> f64 {
        self.value + self.error
    }
}

/// Meters that integrate the flows independently of the books. Only the enthalpy of the water in
/// the tank comes from an account.
#[derive(Default)]
struct Meters {
    mass_in: Sum,
    mass_out: Sum,
    energy_in: Sum,
    energy_out: Sum,
}

/// Specific enthalpies of the flows, J/kg.
struct Enthalpies {
    steam: f64,
    water: f64,
    tank: f64,
    make_up: f64,
    condensate: f64,
}

impl Enthalpies {
    fn of(plant: &Plant, table: &Table) -> Self {
        Self {
            steam: plant.drum.state.vapour_enthalpy(),
            water: plant.drum.state.liquid_enthalpy(),
            tank: plant.books.energy(Account::Tank) / plant.books.mass(Account::Tank),
            make_up: table.at(p::MAKE_UP_TEMPERATURE).liquid_enthalpy(),
            condensate: table.at(p::CONDENSATE_TEMPERATURE).liquid_enthalpy(),
        }
    }
}

impl Meters {
    /// Adds the flows of a step, with the enthalpies from before the step.
    fn count(&mut self, flows: &Flows, enthalpies: &Enthalpies) {
        let dt = p::STEP_SECONDS;
        for flow in [flows.make_up, flows.condensate, flows.fuel, flows.air] {
            self.mass_in.add(flow * dt);
        }
        let (gas, steam) = (
            flows.fuel + flows.air,
            flows.steam + flows.safety + flows.vent,
        );
        for flow in [steam, flows.blow_down, flows.overflow, gas] {
            self.mass_out.add(flow * dt);
        }
        let air = flows.air * p::AIR_HEAT_CAPACITY * p::AMBIENT_TEMPERATURE;
        let water = flows.make_up * enthalpies.make_up + flows.condensate * enthalpies.condensate;
        for power in [water, flows.combustion_power, air, flows.pump_power] {
            self.energy_in.add(power * dt);
        }
        let water = flows.blow_down * enthalpies.water + flows.overflow * enthalpies.tank;
        for power in [
            steam * enthalpies.steam,
            water,
            flows.flue_heat,
            flows.metal_heat_loss,
            flows.tank_heat_loss,
        ] {
            self.energy_out.add(power * dt);
        }
    }
}

fn stored_mass_and_energy(plant: &Plant) -> (f64, f64) {
    let stored = plant.books.stored();
    (
        stored.mass as f64 / MASS_UNITS,
        stored.energy as f64 / ENERGY_UNITS,
    )
}

fn set(plant: &mut Plant, target: Target, value: Value) {
    // A refusal is a valid result here, because the test checks only the plant afterwards.
    let _ = apply(plant, target, "test", "", &value);
}

const NUMERIC_TARGETS: [Target; 8] = [
    Target::LevelSetpoint,
    Target::Feed,
    Target::PressureSetpoint,
    Target::TankSetpoint,
    Target::Variation,
    Target::Firing,
    Target::Valve(Tag::FV102),
    Target::Valve(Tag::FV105),
];

/// Performs an operator action: sets a number within its limits, selects a mode, opens or closes
/// the vent, or resets the burner.
fn perform_action(plant: &mut Plant, action: u8, fraction: f64) {
    match NUMERIC_TARGETS.get(usize::from(action)) {
        Some(target) => {
            let (low, high) = limits(*target).unwrap();
            set(plant, *target, Value::F64(low + (high - low) * fraction));
        }
        None => {
            let mode = [OFF, MANUAL, AUTO][(fraction * 2.99) as usize].clone();
            match action {
                8 => set(plant, Target::PumpMode, mode),
                9 => set(plant, Target::BurnerMode, mode),
                10 => set(
                    plant,
                    Target::Valve(Tag::XV110),
                    Value::Bool(fraction > 0.7),
                ),
                _ => set(plant, Target::BurnerReset, Value::Bool(true)),
            }
        }
    }
}

fn assert_within_limits(plant: &Plant) {
    let pressure = plant.pressure();
    assert!((0.006..15.0).contains(&pressure), "pressure {pressure} bar");
    assert!(
        (-600.0..150.0).contains(&plant.level),
        "level {} %",
        plant.level
    );
    assert!(
        (0.0..102.0).contains(&plant.tank_level()),
        "tank level {} %",
        plant.tank_level()
    );
    assert!(
        (5.0..110.0).contains(&plant.tank_temperature),
        "tank temperature {} °C",
        plant.tank_temperature
    );
    assert!(
        (15.0..280.0).contains(&plant.metal_temperature),
        "metal temperature {} °C",
        plant.metal_temperature
    );
    assert!(plant.drum.liquid_mass > 0.0 && plant.drum.vapour_mass > 0.0);
}

#[test]
fn transfer_moves_the_same_amount_between_accounts() {
    let mut books = Books::open(&[(Account::Tank, 10.0, 1000.0)]);
    books.transfer(Account::Tank, Account::Drum, 0.1, 7.0 / 3.0);
    books.transfer(Account::MakeUp, Account::Tank, 1.0 / 3.0, 0.1);
    books.transfer(Account::Drum, Account::SteamUser, 0.05, 1.0);
    assert_eq!(books.imbalance(), Balance::default());
    let balance = |mass, energy| Balance { mass, energy };
    assert_eq!(books[Account::Drum], balance(50_000_000_000, 1_333_333));
    assert_eq!(books.received(), balance(333_333_333_333, 100_000));
    assert_eq!(books.delivered(), balance(50_000_000_000, 1_000_000));
}

#[test]
fn nan_inputs_have_no_effect() {
    let mut books = Books::open(&[]);
    books.transfer(Account::Tank, Account::Drum, f64::NAN, f64::NAN);
    assert_eq!(books[Account::Drum], Balance::default());
}

#[test]
fn mass_and_energy_are_conserved_over_24_hours() {
    let mut plant = Plant::new(7);
    let (mut meters, table) = (Meters::default(), Table::new());
    let (mass_before, energy_before) = stored_mass_and_energy(&plant);
    let mut rng = fastrand::Rng::with_seed(99);
    for step in 0..864_000u32 {
        // The operator changes something every ten minutes.
        if step % 6_000 == 5_999 {
            perform_action(&mut plant, rng.u8(0..12), rng.f64());
        }
        let enthalpies = Enthalpies::of(&plant, &table);
        plant.step();
        meters.count(&plant.flows, &enthalpies);
        if step % 1_000 == 0 {
            assert_within_limits(&plant);
            assert_eq!(
                plant.books.imbalance(),
                Balance::default(),
                "at step {step}"
            );
            assert_eq!(
                plant.books[Account::Gas],
                Balance::default(),
                "at step {step}"
            );
        }
    }
    let (mass, energy) = stored_mass_and_energy(&plant);
    let mass_error = meters.mass_in.total() - meters.mass_out.total() - (mass - mass_before);
    let energy_error =
        meters.energy_in.total() - meters.energy_out.total() - (energy - energy_before);
    let mass_error = mass_error.abs() / meters.mass_in.total();
    let energy_error = energy_error.abs() / meters.energy_in.total();
    println!("error relative to the total input: mass {mass_error:e}, energy {energy_error:e}");
    assert!(mass_error < 1e-9, "mass: {mass_error:e}");
    assert!(energy_error < 1e-9, "energy: {energy_error:e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_operator_actions_keep_balances_exact_and_plant_within_limits(
        seed in any::<u64>(),
        actions in prop::collection::vec((0u8..12, 0.0..1.0f64, 1u32..3_000), 1..24),
    ) {
        let mut plant = Plant::new(seed);
        for (action, fraction, steps) in actions {
            perform_action(&mut plant, action, fraction);
            for _ in 0..steps {
                plant.step();
            }
            prop_assert_eq!(plant.books.imbalance(), Balance::default());
            prop_assert_eq!(plant.books[Account::Gas], Balance::default());
            assert_within_limits(&plant);
        }
    }
}

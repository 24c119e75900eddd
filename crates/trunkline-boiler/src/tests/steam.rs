use proptest::prelude::*;

use super::super::steam::{KELVIN, STEP, Saturation, TEMPERATURE_MAX, TEMPERATURE_MIN, Table};

fn assert_close(found: f64, expected: f64, relative: f64) {
    let error = (found - expected).abs() / expected.abs();
    assert!(
        error < relative,
        "{found} differs from {expected} by {error:e}"
    );
}

/// The check values for programs in IAPWS SR1-86(1992), table 1.
#[test]
fn equations_match_the_check_values_of_the_release() {
    let state = Saturation::at(373.1243 - KELVIN);
    assert_close(state.pressure, 0.101_325e6, 1e-5);
    assert_close(1.0 / state.liquid_volume, 958.365, 1e-6);
    assert_close(1.0 / state.vapour_volume, 0.597_586, 1e-6);
    assert_close(state.liquid_enthalpy(), 419.05e3, 2e-5);
    assert_close(state.vapour_enthalpy(), 2675.7e3, 2e-5);
    let triple = Saturation::at(273.16 - KELVIN);
    assert_close(triple.pressure, 611.657, 1e-5);
    assert_close(1.0 / triple.liquid_volume, 999.789, 1e-6);
    assert_close(1.0 / triple.vapour_volume, 0.004_854_26, 1e-5);
    assert_close(triple.vapour_enthalpy(), 2500.5e3, 5e-5);
    assert!(triple.liquid_energy.abs() < 0.1, "{}", triple.liquid_energy);
}

/// Compares the plant's operating point, 10 bar, with the steam tables of IAPWS-IF97.
#[test]
fn equations_match_the_steam_tables_at_ten_bar() {
    let state = Saturation::at(179.886);
    assert_close(state.pressure, 10.0e5, 1e-3);
    assert_close(state.liquid_enthalpy(), 762.68e3, 1e-3);
    assert_close(state.vapour_enthalpy(), 2777.1e3, 1e-3);
    assert_close(state.vapour_volume, 0.194_36, 2e-3);
    assert_close(state.liquid_volume, 0.001_127_2, 1e-3);
}

#[test]
fn the_table_is_within_a_twentieth_of_a_percent_of_the_equations() {
    let table = Table::new();
    let mut celsius = TEMPERATURE_MIN + STEP / 2.0;
    while celsius < TEMPERATURE_MAX {
        let (found, exact) = (table.at(celsius), Saturation::at(celsius));
        assert_close(found.pressure, exact.pressure, 5e-4);
        assert_close(found.liquid_volume, exact.liquid_volume, 5e-4);
        assert_close(found.vapour_volume, exact.vapour_volume, 5e-4);
        assert_close(found.liquid_enthalpy(), exact.liquid_enthalpy(), 5e-4);
        assert_close(found.vapour_energy, exact.vapour_energy, 5e-4);
        celsius += STEP;
    }
}

#[test]
fn pressure_and_energies_rise_with_temperature_and_vapour_volume_falls() {
    let table = Table::new();
    let mut last = table.at(TEMPERATURE_MIN);
    for step in 1..=((TEMPERATURE_MAX - TEMPERATURE_MIN) / 0.1) as u32 {
        let state = table.at(TEMPERATURE_MIN + f64::from(step) * 0.1);
        assert!(state.pressure > last.pressure);
        assert!(state.liquid_energy > last.liquid_energy);
        assert!(state.vapour_energy > last.vapour_energy);
        assert!(state.vapour_volume < last.vapour_volume);
        last = state;
    }
}

#[test]
fn table_is_clamped_at_its_ends() {
    let table = Table::new();
    assert_eq!(table.at(TEMPERATURE_MIN - 100.0), table.at(TEMPERATURE_MIN));
    assert_eq!(table.at(TEMPERATURE_MAX + 100.0), table.at(TEMPERATURE_MAX));
}

proptest! {
    #[test]
    fn equilibrium_is_computed_from_its_mass_and_energy(
        celsius in 5.0..225.0f64,
        liquid_share in 0.05..0.95f64,
        guess in 1.0..230.0f64,
    ) {
        let table = Table::new();
        let state = table.at(celsius);
        let volume = 3.0;
        let liquid = volume * liquid_share / state.liquid_volume;
        let vapour = volume * (1.0 - liquid_share) / state.vapour_volume;
        let energy = liquid * state.liquid_energy + vapour * state.vapour_energy;
        let found = table.equilibrium(volume, liquid + vapour, energy, guess);
        prop_assert!((found.state.temperature - celsius).abs() < 1e-5);
        prop_assert!((found.liquid_mass - liquid).abs() < 1e-4);
        prop_assert!((found.vapour_mass - vapour).abs() < 1e-4);
        prop_assert!((found.liquid_volume() - volume * liquid_share).abs() < 1e-6);
    }

    #[test]
    fn liquid_temperature_is_computed_from_the_enthalpy(celsius in 1.0..230.0f64) {
        let table = Table::new();
        let found = table.liquid_temperature(table.at(celsius).liquid_enthalpy());
        prop_assert!((found - celsius).abs() < 1e-2, "{found} is not {celsius}");
    }
}

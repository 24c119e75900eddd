//! Defines the parameters of the plant. The comment on each parameter gives the unit.
//!
//! The plant is a compact water-tube steam generator that burns 8.5 MW of natural gas and produces
//! 3 kg/s of steam at 10 bar. The parameters are rounded and realistic, but do not describe a
//! particular product. `docs/explanation/boiler-model.md` explains each choice.

/// Time step of the model, s.
pub const STEP_SECONDS: f64 = 0.1;
/// Time step of the model, ns.
pub const STEP_NANOS: u64 = 100_000_000;

// Drum and evaporator
/// Total volume of water and steam, m³.
pub const DRUM_VOLUME: f64 = 3.0;
/// Volume of water at level 0 %, m³.
pub const LEVEL_ZERO_VOLUME: f64 = 1.90;
/// Volume of water between level 0 % and 100 %, m³.
pub const LEVEL_SPAN_VOLUME: f64 = 0.33;
/// Height between level 0 % and 100 %, mm.
pub const LEVEL_HEIGHT_MM: f64 = 300.0;
/// Mass of the steam bubbles below the surface, in seconds of steam production.
pub const BUBBLE_SECONDS: f64 = 0.08;
/// Time constant of the mass of bubbles after a change of steam production, s.
pub const BUBBLE_TIME_CONSTANT: f64 = 3.0;
/// Volume of water below the lowest pipe, which cannot be drawn from the drum, m³.
pub const BLOW_DOWN_VOLUME_MIN: f64 = 1.0;

// Metal: tubes, drum, brickwork
/// Heat capacity of the metal, J/K.
pub const METAL_HEAT_CAPACITY: f64 = 2.45e6;
/// Heat transfer from metal to water, W/K.
pub const METAL_TO_WATER: f64 = 2.0e5;
/// Heat transfer from metal to boiler house, W/K.
pub const METAL_TO_AMBIENT: f64 = 150.0;
/// Temperature of the boiler house, °C.
pub const AMBIENT_TEMPERATURE: f64 = 25.0;

// Burner
/// Lower heating value of methane, J/kg.
pub const HEATING_VALUE: f64 = 50.0e6;
/// Fuel flow at 100 % firing rate, kg/s.
pub const FUEL_MAX: f64 = 0.17;
/// Mass of air to burn 1 kg of fuel without excess air, kg.
pub const AIR_STOICHIOMETRIC: f64 = 17.2;
/// Air flow during the purge, kg/s.
pub const PURGE_AIR: f64 = 2.0;
/// Mean heat capacity of air, J/(kg K).
pub const AIR_HEAT_CAPACITY: f64 = 1010.0;
/// Mean heat capacity of wet flue gas, J/(kg K).
pub const GAS_HEAT_CAPACITY: f64 = 1200.0;
/// Minimum firing rate, %.
pub const FIRE_MIN: f64 = 10.0;
/// Duration of the purge before ignition, s.
pub const PURGE_SECONDS: f64 = 15.0;
/// Duration of the ignition, s.
pub const IGNITION_SECONDS: f64 = 3.0;

// Steam
/// Flow of the open main steam valve per pressure term of Stodola's law, kg/(s bar).
pub const STEAM_VALVE_FLOW: f64 = 0.436;
/// Pressure after the main steam valve, bar.
pub const HEADER_PRESSURE: f64 = 4.0;
/// Flow of the open safety valve per pressure term of Stodola's law, kg/(s bar).
pub const SAFETY_VALVE_FLOW: f64 = 0.42;
/// Pressure at which the safety valve lifts, bar.
pub const SAFETY_LIFT_PRESSURE: f64 = 12.5;
/// Pressure at which the safety valve closes again, bar.
pub const SAFETY_RESEAT_PRESSURE: f64 = 12.0;
/// Flow of the open roof vent per pressure term of Stodola's law, kg/(s bar).
pub const VENT_VALVE_FLOW: f64 = 0.05;
/// Atmospheric pressure, bar.
pub const ATMOSPHERIC_PRESSURE: f64 = 1.013;

// Feed pump and feed valve
/// Pressure rise of the pump without flow, bar.
pub const PUMP_PRESSURE_RISE: f64 = 22.0;
/// Decrease of the pump's pressure rise with the square of the flow, bar/(kg/s)².
pub const PUMP_RESISTANCE: f64 = 0.1224;
/// Pressure loss of the open feed valve, bar/(kg/s)².
pub const FEED_VALVE_RESISTANCE: f64 = 0.1717;
/// Efficiency of pump and motor, 0 to 1.
pub const PUMP_EFFICIENCY: f64 = 0.65;
/// Time of the pump from standstill to full speed, s.
pub const PUMP_RUN_UP_SECONDS: f64 = 3.0;

// Feed tank
/// Mass of water in the tank at level 100 %, kg.
pub const TANK_MASS: f64 = 6000.0;
/// Heat transfer from tank to boiler house, W/K.
pub const TANK_TO_AMBIENT: f64 = 50.0;
/// Pressure in the tank, bar.
pub const TANK_PRESSURE: f64 = 1.2;
/// Setpoint of the tank temperature, °C.
pub const TANK_TEMPERATURE_SETPOINT: f64 = 103.0;
/// Flow of make-up water with the valve open, kg/s.
pub const MAKE_UP_MAX: f64 = 3.0;
/// Temperature of make-up water, °C.
pub const MAKE_UP_TEMPERATURE: f64 = 15.0;
/// Fraction of the steam that returns as condensate, 0 to 1.
pub const CONDENSATE_FRACTION: f64 = 0.7;
/// Time constant of the condensate flow after a change of the steam flow, s.
pub const CONDENSATE_TIME_CONSTANT: f64 = 30.0;
/// Temperature of condensate, °C.
pub const CONDENSATE_TEMPERATURE: f64 = 85.0;
/// Flow of the open heating valve per pressure term of Stodola's law, kg/(s bar).
pub const HEATING_VALVE_FLOW: f64 = 0.05;
/// Time constant with which the overflow drains the water above level 100 %, s.
pub const OVERFLOW_SECONDS: f64 = 10.0;

// Blow-down
/// Flow of the open blow-down valve at 10 bar, kg/s.
pub const BLOW_DOWN_MAX: f64 = 0.8;
/// Conductivity of feed water, µS/cm.
pub const FEED_CONDUCTIVITY: f64 = 30.0;

// Protections
/// Level below which the burner trips, %.
pub const LOW_WATER: f64 = 20.0;
/// Level above which the burner can be reset, %.
pub const LOW_WATER_RESET: f64 = 30.0;
/// Time for which the level must be too low before the burner trips, s. Waves do not last as long.
pub const LOW_WATER_SECONDS: f64 = 2.0;
/// Level above which the feed valve is closed, %.
pub const HIGH_WATER: f64 = 97.0;
/// Level below which the feed valve may open again, %.
pub const HIGH_WATER_RESET: f64 = 90.0;
/// Pressure above which the burner trips, bar.
pub const HIGH_PRESSURE: f64 = 13.5;
/// Pressure below which the burner can be reset, bar.
pub const HIGH_PRESSURE_RESET: f64 = 12.5;
/// Tank level below which the feed pump stops, %.
pub const TANK_LOW: f64 = 5.0;
/// Tank level above which the feed pump may run again, %.
pub const TANK_LOW_RESET: f64 = 10.0;

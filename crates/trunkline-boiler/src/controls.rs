//! Implements the controllers, the interlocks and the sequence of the burner.
//!
//! The controls use the true values of the plant, not the noisy readings of the sensors. Noise
//! therefore does not affect the plant, and a run depends only on the setpoints and the seed.

use std::sync::Arc;

use super::parameters as p;
use super::valve::{Tag, Valve};

/// Mode of the feed pump and of the level control. The discriminants are the values of the variable
/// `boiler/pump/mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PumpMode {
    /// The pump is stopped.
    Off,
    /// The feed valve follows `boiler/feed`.
    Manual,
    /// The level controller moves the feed valve.
    Auto,
}

/// Mode of the burner. The discriminants are the values of the variable `boiler/burner/mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurnerMode {
    /// The burner is off.
    Off,
    /// The firing rate follows `boiler/burner/firing`.
    Manual,
    /// The pressure controller sets the firing rate, and starts and stops the burner.
    Auto,
}

/// State of the burner's sequence. The discriminants are the values of the variable
/// `boiler/burner/state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurnerState {
    /// The burner is off and can start.
    Off,
    /// The fan blows air through the furnace to remove unburned gas.
    Purge,
    /// The burner runs at the minimum firing rate until the flame is stable.
    Ignition,
    /// The burner is in normal operation.
    Run,
    /// An interlock has shut the burner down. It needs a reset.
    Trip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TripCause {
    /// Low water level in the drum.
    LowWater,
    /// High pressure in the drum.
    HighPressure,
}

/// The plant values that the controls use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlantState {
    /// Drum level, %.
    pub level: f64,
    /// Drum pressure, bar.
    pub pressure: f64,
    /// Steam flow to the consumers, kg/s.
    pub steam: f64,
    /// Feed tank level, %.
    pub tank_level: f64,
    /// Feed tank temperature, °C.
    pub tank_temperature: f64,
}

/// A proportional-integral controller with feed-forward. The output is a percentage.
#[derive(Clone, PartialEq, Debug)]
pub struct Pi {
    /// Proportional gain, % per unit of the error.
    pub gain: f64,
    /// Integral (reset) time, s.
    pub reset_seconds: f64,
    /// Integral term, %. It is limited to `INTEGRAL_MAX`, because the feed-forward provides most of
    /// the output.
    pub integral: f64,
    /// Setpoint minus measured value in the last step.
    pub error: f64,
    /// Output in the last step, 0 to 100 %.
    pub output: f64,
}

impl Pi {
    fn new(gain: f64, reset_seconds: f64) -> Self {
        Self {
            gain,
            reset_seconds,
            integral: 0.0,
            error: 0.0,
            output: 0.0,
        }
    }

    /// Computes one step and returns the output. To prevent windup, the integral term does not change
    /// while it would drive the output further beyond a limit.
    fn step(&mut self, error: f64, feed_forward: f64, output_min: f64) -> f64 {
        self.error = error;
        let unlimited = feed_forward + self.gain * error + self.integral;
        self.output = unlimited.clamp(output_min, 100.0);
        if unlimited == self.output || (unlimited - self.output) * error < 0.0 {
            self.integral += self.gain * error * p::STEP_SECONDS / self.reset_seconds;
            self.integral = self.integral.clamp(-INTEGRAL_MAX, INTEGRAL_MAX);
        }
        self.output
    }

    /// Tracks an output that is set elsewhere. The transfer to this controller is then bumpless, as
    /// far as the limit of the integral term permits.
    fn track(&mut self, error: f64, feed_forward: f64, output: f64) {
        self.error = error;
        self.output = output;
        let integral = output - feed_forward - self.gain * error;
        self.integral = integral.clamp(-INTEGRAL_MAX, INTEGRAL_MAX);
    }
}

/// Setpoints, modes, controllers and interlocks of the plant.
#[derive(Clone, PartialEq, Debug)]
pub struct Controls {
    pub pump_mode: PumpMode,
    pub burner_mode: BurnerMode,
    /// Setpoint of the drum level, %.
    pub level_setpoint: f64,
    /// Command to the feed valve, %.
    pub feed: f64,
    /// Setpoint of the drum pressure, bar.
    pub pressure_setpoint: f64,
    /// Firing rate, % of full fire.
    pub firing: f64,
    /// Setpoint of the feed tank level, %.
    pub tank_setpoint: f64,
    pub level: Pi,
    pub pressure: Pi,
    /// State of the burner's sequence.
    pub burner: BurnerState,
    /// Cause of the burner's trip, until it is reset.
    pub trip: Option<TripCause>,
    pub burner_starts: u32,
    pub pump_runs: bool,
    pub pump_starts: u32,
    /// True while the drum level is too low.
    pub low_water: bool,
    /// True while the drum level is too high. The feed valve is then closed.
    pub high_water: bool,
    /// True while the drum pressure is too high.
    pub high_pressure: bool,
    /// True while the level of the feed tank is too low for the pump.
    pub tank_low: bool,
    /// Text that an operator has written.
    pub note: Arc<str>,
    /// Message about the last event.
    pub message: Arc<str>,
    /// Number of events.
    pub events: u32,
    /// Time for which the drum level has been too low, s.
    low_water_seconds: f64,
    /// Time since the burner entered its current state, s.
    sequence_seconds: f64,
}

impl Controls {
    /// Returns the controls of a plant in normal operation.
    pub fn new() -> Self {
        Self {
            pump_mode: PumpMode::Auto,
            burner_mode: BurnerMode::Auto,
            level_setpoint: 70.0,
            feed: 31.0,
            pressure_setpoint: 10.0,
            firing: 75.0,
            tank_setpoint: 70.0,
            level: Pi::new(2.0, 150.0),
            pressure: Pi::new(12.0, 120.0),
            burner: BurnerState::Run,
            trip: None,
            burner_starts: 1,
            pump_runs: true,
            pump_starts: 1,
            low_water: false,
            high_water: false,
            high_pressure: false,
            tank_low: false,
            note: "".into(),
            message: "Plant in operation".into(),
            events: 0,
            low_water_seconds: 0.0,
            sequence_seconds: 0.0,
        }
    }

    /// Computes one step: reads the plant and commands the valves.
    pub fn step(&mut self, plant: &PlantState, valves: &mut [Valve]) {
        self.update_protections(plant);
        self.control_feed(plant);
        self.control_burner(plant);
        let burning = matches!(self.burner, BurnerState::Ignition | BurnerState::Run);
        let fire = match self.burner {
            BurnerState::Ignition => p::FIRE_MIN,
            BurnerState::Run => self.firing.max(p::FIRE_MIN),
            _ => 0.0,
        };
        let mut command = |tag: Tag, percent: f64| valves[tag as usize].command = percent;
        command(Tag::FV101, if self.high_water { 0.0 } else { self.feed });
        command(Tag::XV106, if burning { 100.0 } else { 0.0 });
        command(Tag::FV107, fire);
        command(
            Tag::FV108,
            if self.burner == BurnerState::Purge {
                100.0
            } else {
                fire
            },
        );
        let level_error = self.tank_setpoint - plant.tank_level;
        command(Tag::LV103, 25.0 + 10.0 * level_error);
        let temperature_error = p::TANK_TEMPERATURE_SETPOINT - plant.tank_temperature;
        command(Tag::TV104, 30.0 + 20.0 * temperature_error);
    }

    /// Records an event with a message for the operator.
    pub fn record_event(&mut self, message: String) {
        self.message = message.into();
        self.events = self.events.saturating_add(1);
    }

    fn update_protections(&mut self, plant: &PlantState) {
        let change = if plant.level < p::LOW_WATER {
            p::STEP_SECONDS
        } else {
            f64::NEG_INFINITY
        };
        self.low_water_seconds = (self.low_water_seconds + change).max(0.0);
        self.low_water = self.low_water_seconds >= p::LOW_WATER_SECONDS;
        self.high_pressure = plant.pressure > p::HIGH_PRESSURE;
        let high_limit = if self.high_water {
            p::HIGH_WATER_RESET
        } else {
            p::HIGH_WATER
        };
        let high_water = plant.level > high_limit;
        if high_water && !self.high_water {
            self.record_event(format!(
                "Feed valve closed: high water, {:.1} %",
                plant.level
            ));
        }
        self.high_water = high_water;
        let low_limit = if self.tank_low {
            p::TANK_LOW_RESET
        } else {
            p::TANK_LOW
        };
        let tank_low = plant.tank_level < low_limit;
        if tank_low && !self.tank_low {
            self.record_event(format!(
                "Feed pump stopped: feed tank at {:.1} %",
                plant.tank_level
            ));
        }
        self.tank_low = tank_low;
    }

    fn control_feed(&mut self, plant: &PlantState) {
        let pump_runs = self.pump_mode != PumpMode::Off && !self.tank_low;
        if pump_runs && !self.pump_runs {
            self.pump_starts = self.pump_starts.saturating_add(1);
        }
        self.pump_runs = pump_runs;
        let error = self.level_setpoint - plant.level;
        let feed_forward = FEED_PER_STEAM * plant.steam;
        match self.pump_mode {
            PumpMode::Auto if pump_runs && !self.high_water => {
                self.feed = self.level.step(error, feed_forward, 0.0);
            }
            PumpMode::Auto | PumpMode::Manual => self.level.track(error, feed_forward, self.feed),
            PumpMode::Off => {
                self.feed = 0.0;
                self.level.track(error, feed_forward, 0.0);
            }
        }
    }

    fn control_burner(&mut self, plant: &PlantState) {
        self.sequence_seconds += p::STEP_SECONDS;
        let cause = match (self.low_water, self.high_pressure) {
            (true, _) => Some(TripCause::LowWater),
            (_, true) => Some(TripCause::HighPressure),
            _ => None,
        };
        let is_stopped = matches!(self.burner, BurnerState::Off | BurnerState::Trip);
        let pressure_excess = plant.pressure - self.pressure_setpoint;
        match (self.burner, cause) {
            (_, Some(cause)) if !is_stopped => self.shut_down(cause, plant),
            (BurnerState::Trip, _) => {}
            _ if self.burner_mode == BurnerMode::Off => self.set_burner_state(BurnerState::Off),
            (BurnerState::Off, None)
                if self.burner_mode == BurnerMode::Manual || pressure_excess < -0.3 =>
            {
                self.record_event("Burner starts: purge".into());
                self.set_burner_state(BurnerState::Purge);
            }
            (BurnerState::Purge, _) if self.sequence_seconds >= p::PURGE_SECONDS => {
                self.set_burner_state(BurnerState::Ignition);
            }
            (BurnerState::Ignition, _) if self.sequence_seconds >= p::IGNITION_SECONDS => {
                self.burner_starts = self.burner_starts.saturating_add(1);
                self.record_event("Burner running".into());
                self.set_burner_state(BurnerState::Run);
            }
            (BurnerState::Run, _)
                if self.burner_mode == BurnerMode::Auto && pressure_excess > 1.0 =>
            {
                self.record_event(format!(
                    "Burner stops: pressure reached, {:.1} bar",
                    plant.pressure
                ));
                self.set_burner_state(BurnerState::Off);
            }
            _ => {}
        }
        let feed_forward = FIRE_PER_STEAM * plant.steam;
        let output_min = p::FIRE_MIN;
        match (self.burner, self.burner_mode) {
            (BurnerState::Run, BurnerMode::Auto) => {
                self.firing = self
                    .pressure
                    .step(-pressure_excess, feed_forward, output_min);
            }
            (BurnerState::Run, _) => {
                self.pressure
                    .track(-pressure_excess, feed_forward, self.firing)
            }
            // The burner always starts at the minimum firing rate.
            (_, BurnerMode::Auto) => {
                self.firing = output_min;
                self.pressure
                    .track(-pressure_excess, feed_forward, output_min);
            }
            _ => {}
        }
    }

    fn shut_down(&mut self, cause: TripCause, plant: &PlantState) {
        self.trip = Some(cause);
        self.record_event(match cause {
            TripCause::LowWater => format!("Burner tripped: low water, {:.1} %", plant.level),
            TripCause::HighPressure => {
                format!("Burner tripped: high pressure, {:.2} bar", plant.pressure)
            }
        });
        self.set_burner_state(BurnerState::Trip);
    }

    /// Clears a trip, so that the burner can start again in its mode.
    pub fn reset(&mut self) {
        if self.burner == BurnerState::Trip {
            self.trip = None;
            self.record_event("Burner reset".into());
            self.set_burner_state(BurnerState::Off);
        }
    }

    fn set_burner_state(&mut self, state: BurnerState) {
        if self.burner != state {
            self.burner = state;
            self.sequence_seconds = 0.0;
        }
    }
}

/// Feed-forward of the level control: feed valve position per steam flow, %/(kg/s).
const FEED_PER_STEAM: f64 = 11.5;
/// Feed-forward of the pressure control: firing rate per steam flow, %/(kg/s).
const FIRE_PER_STEAM: f64 = 27.0;
/// Maximum absolute value of the integral term, %.
const INTEGRAL_MAX: f64 = 20.0;

//! Simulates valves with limit switches, which actuators move at constant speed.

use super::parameters::STEP_SECONDS;

/// A valve and its actuator.
#[derive(Clone, PartialEq, Debug)]
pub struct Valve {
    /// Commanded position, 0 % (closed) to 100 % (open).
    pub command: f64,
    /// Actual position, 0 to 100 %.
    pub travel: f64,
    /// Seconds from closed to open.
    stroke_time: f64,
    moving: bool,
}

/// The tag of a valve in the plant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    FV101,
    FV102,
    LV103,
    TV104,
    FV105,
    XV106,
    FV107,
    FV108,
    PSV109,
    XV110,
}

/// What moves a valve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandSource {
    /// A controller of the plant commands the position.
    Controller,
    /// An operator commands any position.
    Hand,
    /// An operator opens or closes the valve.
    OnOff,
    /// The pressure of the medium opens the valve against a spring.
    Spring,
}

impl Valve {
    /// Returns a closed valve that needs `stroke_time` seconds from closed to open.
    pub fn new(stroke_time: f64) -> Self {
        Self {
            command: 0.0,
            travel: 0.0,
            stroke_time,
            moving: false,
        }
    }

    /// Moves the valve for one simulation step.
    pub fn step(&mut self) {
        self.command = self.command.clamp(0.0, 100.0);
        let position_error = self.command - self.travel;
        let step_max = 100.0 * STEP_SECONDS / self.stroke_time;
        // An actuator at rest ignores small position errors. Otherwise it would never rest.
        let moves = if self.moving {
            position_error != 0.0
        } else {
            position_error.abs() > DEADBAND
        };
        self.moving = moves;
        if moves {
            self.travel = if position_error.abs() <= step_max {
                self.command
            } else {
                self.travel + step_max.copysign(position_error)
            };
        }
    }

    /// Returns the opening as a fraction, 0 to 1.
    pub fn opening(&self) -> f64 {
        self.travel / 100.0
    }

    /// Returns the state of the limit switch for the open position, which is on at 98 % or more.
    pub fn is_open(&self) -> bool {
        self.travel >= 98.0
    }

    /// Returns the state of the limit switch for the closed position, which is on at 2 % or less.
    pub fn is_closed(&self) -> bool {
        self.travel <= 2.0
    }
}

impl Tag {
    pub const ALL: [Tag; 10] = [
        Tag::FV101,
        Tag::FV102,
        Tag::LV103,
        Tag::TV104,
        Tag::FV105,
        Tag::XV106,
        Tag::FV107,
        Tag::FV108,
        Tag::PSV109,
        Tag::XV110,
    ];

    /// Returns the tag as text, such as `FV101`.
    pub fn name(self) -> &'static str {
        match self {
            Tag::FV101 => "FV101",
            Tag::FV102 => "FV102",
            Tag::LV103 => "LV103",
            Tag::TV104 => "TV104",
            Tag::FV105 => "FV105",
            Tag::XV106 => "XV106",
            Tag::FV107 => "FV107",
            Tag::FV108 => "FV108",
            Tag::PSV109 => "PSV109",
            Tag::XV110 => "XV110",
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Tag::FV101 => "Feed water to the drum",
            Tag::FV102 => "Main steam to the users",
            Tag::LV103 => "Make-up water to the feed tank",
            Tag::TV104 => "Heating steam to the feed tank",
            Tag::FV105 => "Continuous blow-down of the drum",
            Tag::XV106 => "Fuel shut-off",
            Tag::FV107 => "Fuel control",
            Tag::FV108 => "Combustion air damper",
            Tag::PSV109 => "Safety valve of the drum",
            Tag::XV110 => "Steam vent to the roof",
        }
    }

    /// Returns the time from closed to open, s.
    pub fn stroke_time(self) -> f64 {
        match self {
            Tag::FV101 => 8.0,
            Tag::FV102 => 12.0,
            Tag::LV103 | Tag::TV104 => 15.0,
            Tag::FV105 => 20.0,
            Tag::XV106 => 1.0,
            Tag::FV107 | Tag::FV108 => 10.0,
            Tag::PSV109 => 0.3,
            Tag::XV110 => 4.0,
        }
    }

    pub fn command_source(self) -> CommandSource {
        match self {
            Tag::FV101 | Tag::LV103 | Tag::TV104 => CommandSource::Controller,
            Tag::XV106 | Tag::FV107 | Tag::FV108 => CommandSource::Controller,
            Tag::FV102 | Tag::FV105 => CommandSource::Hand,
            Tag::XV110 => CommandSource::OnOff,
            Tag::PSV109 => CommandSource::Spring,
        }
    }
}

/// Maximum position error that an actuator at rest ignores, %.
const DEADBAND: f64 = 0.2;

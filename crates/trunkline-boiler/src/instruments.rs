//! Simulates the instruments that have their own state or randomness, and the noise of the sensors.

use std::sync::Arc;

use trunkline_types::{Array, Elements, Timestamp, Value, Waveform};

use super::controls::BurnerState;
use super::parameters as p;
use super::plant::Plant;
use super::valve::Tag;

/// An instrument with its own state or randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instrument {
    /// Vibration of the pump, as one waveform per slow period.
    Vibration,
    /// RMS value of the last vibration waveform.
    VibrationRms,
    /// Wall temperatures along the tubes.
    Tubes,
    /// Temperatures over the furnace's cross-section.
    FlameMap,
    /// The drum's readings as one struct.
    DrumState,
    /// Telegram (message) that the burner's controller sends over its serial line.
    Telegram,
    /// Time of the burner's last start.
    LastStart,
    /// Plant time skipped because scans were late.
    Skipped,
}

/// State of the instruments.
#[derive(Debug)]
pub struct Instruments {
    rng: fastrand::Rng,
    /// Skipped plant time, in nanoseconds.
    pub skipped_nanos: u64,
    /// Number of telegrams so far, modulo 2^16.
    telegrams: u16,
    /// Number of vibration samples so far, modulo [`VIBRATION_RATE`].
    vibration_phase: u64,
    /// RMS value of the last vibration waveform, mm/s.
    vibration_rms: f64,
    /// Number of burner starts, and the time of the last one.
    last_start: Option<(u32, Timestamp)>,
}

impl Instruments {
    /// Returns the instruments. `seed` determines their noise.
    pub fn new(seed: u64) -> Self {
        Self {
            // The plant uses the same seed for its phases, so derive another seed for the noise.
            rng: fastrand::Rng::with_seed(seed ^ 0x5EED_0F5E_4505_0000),
            skipped_nanos: 0,
            telegrams: 0,
            vibration_phase: 0,
            vibration_rms: 0.0,
            last_start: None,
        }
    }

    /// Returns noise with a standard deviation of 1 and an absolute value below 3.5.
    pub fn noise(&mut self) -> f64 {
        let uniform: f64 = (0..4).map(|_| self.rng.f64()).sum();
        (uniform - 2.0) * 3f64.sqrt()
    }

    pub fn read(&mut self, instrument: Instrument, plant: &Plant, wall: Timestamp) -> Value {
        match instrument {
            Instrument::Vibration => self.vibration(plant, wall),
            Instrument::VibrationRms => Value::F64(self.vibration_rms),
            Instrument::Tubes => {
                let tubes = (0..TUBES)
                    .map(|n| tube_temperature(plant, n) + 0.2 * self.noise())
                    .collect();
                Value::Array(Arc::new(Array::vector(Elements::F64(tubes))))
            }
            Instrument::FlameMap => self.flame_map(plant),
            Instrument::DrumState => Value::Struct(Arc::from([
                Value::F64(plant.level),
                Value::F64(plant.pressure()),
                Value::F64(plant.drum.state.temperature),
                Value::Bool(!(plant.controls.low_water || plant.controls.high_water)),
            ])),
            Instrument::Telegram => self.telegram(plant),
            Instrument::LastStart => Value::Timestamp(self.last_start(plant, wall)),
            Instrument::Skipped => Value::F64(self.skipped_nanos as f64 / 1e9),
        }
    }

    /// Returns a waveform of the vibration. It contains the shaft speed, the second harmonic, the
    /// blade frequency and noise. Successive waveforms are continuous.
    fn vibration(&mut self, plant: &Plant, wall: Timestamp) -> Value {
        let speed = plant.pump_speed;
        let load = 1.0 + plant.flows.feed / 10.0;
        let mut sum_of_squares = 0.0;
        let samples: Vec<f64> = (0..VIBRATION_SAMPLES as u64)
            .map(|index| {
                // Every sine completes whole periods within VIBRATION_RATE samples.
                let sine = |hertz: u64| {
                    let position = (self.vibration_phase + index) * hertz % VIBRATION_RATE;
                    (std::f64::consts::TAU * position as f64 / VIBRATION_RATE as f64).sin()
                };
                let shaft = 1.2 * sine(49) + 0.5 * sine(98) + 0.35 * load * sine(245);
                let sample = speed * speed * shaft + 0.05 * self.noise();
                sum_of_squares += sample * sample;
                sample
            })
            .collect();
        self.vibration_phase = (self.vibration_phase + samples.len() as u64) % VIBRATION_RATE;
        self.vibration_rms = (sum_of_squares / samples.len() as f64).sqrt();
        let dt = 1.0 / VIBRATION_RATE as f64;
        let duration_nanos = (samples.len() as f64 * dt * 1e9) as i64;
        Value::Waveform(Arc::new(Waveform {
            t0: wall.saturating_add_nanos(-duration_nanos),
            dt,
            samples: Elements::F64(samples),
            attributes: [("unit".into(), Value::String("mm/s".into()))].into(),
        }))
    }

    /// Returns a map of the furnace temperature, which is highest in the middle.
    fn flame_map(&mut self, plant: &Plant) -> Value {
        let (rows, columns) = FLAME_MAP;
        let (wall, flame) = (plant.metal_temperature, plant.flows.flame_temperature);
        let mut cells = Vec::with_capacity((rows * columns) as usize);
        for row in 0..rows {
            for column in 0..columns {
                let centered = |index: u32, count: u32| {
                    (f64::from(index) + 0.5) / f64::from(count) * 2.0 - 1.0
                };
                let distance = centered(row, rows).powi(2) + centered(column, columns).powi(2);
                let flame_fraction = (0.75 - 0.35 * distance).max(0.05);
                let noise = 3.0 * self.noise();
                cells.push((wall + (flame - wall) * flame_fraction + noise) as f32);
            }
        }
        match Array::new(vec![rows, columns], Elements::F32(cells)) {
            Ok(map) => Value::Array(Arc::new(map)),
            Err(_) => Value::Array(Arc::new(Array::vector(Elements::F32(Vec::new())))),
        }
    }

    /// Returns the telegram, in little-endian order: `TL`, a counter, the status word, the level in
    /// 0.01 %, the pressure in mbar, and the sum of all bytes.
    fn telegram(&mut self, plant: &Plant) -> Value {
        self.telegrams = self.telegrams.wrapping_add(1);
        let mut bytes = b"TL".to_vec();
        bytes.extend(self.telegrams.to_le_bytes());
        bytes.extend(status(plant).to_le_bytes());
        bytes.extend(((plant.level * 100.0) as i16).to_le_bytes());
        bytes.extend(((plant.pressure() * 1000.0) as u16).to_le_bytes());
        let checksum = bytes.iter().fold(0u16, |checksum, byte| {
            checksum.wrapping_add(u16::from(*byte))
        });
        bytes.extend(checksum.to_le_bytes());
        Value::Bytes(bytes.into())
    }

    /// Returns the time of the burner's last start. The time is computed once per start, so that it
    /// does not change with later calls.
    fn last_start(&mut self, plant: &Plant, wall: Timestamp) -> Timestamp {
        let starts = plant.controls.burner_starts;
        match self.last_start {
            Some((known_starts, time)) if known_starts == starts => time,
            _ => {
                let elapsed = plant.steps.saturating_sub(plant.burner_started_at);
                let elapsed =
                    i64::try_from(elapsed.saturating_mul(p::STEP_NANOS)).unwrap_or(i64::MAX);
                let time = wall.saturating_add_nanos(-elapsed);
                self.last_start = Some((starts, time));
                time
            }
        }
    }
}

/// Returns the status bits of the plant.
pub fn status(plant: &Plant) -> u32 {
    let controls = &plant.controls;
    let bits = [
        controls.low_water,
        controls.high_water,
        controls.high_pressure,
        controls.tank_low,
        controls.burner == BurnerState::Trip,
        controls.burner == BurnerState::Run,
        controls.pump_runs,
        !plant.valve(Tag::PSV109).is_closed(),
    ];
    bits.iter()
        .enumerate()
        .fold(0, |word, (bit, set)| word | (u32::from(*set) << bit))
}

/// Returns the wall temperature of a tube, °C. It is highest in the middle, where the flame is.
pub fn tube_temperature(plant: &Plant, n: usize) -> f64 {
    let water = plant.drum.state.temperature;
    let position = (n as f64 + 0.5) / TUBES as f64 * 2.0 - 1.0;
    water + (plant.metal_temperature - water) * (1.3 - 0.9 * position * position)
}

/// Number of tubes with a sensor.
pub const TUBES: usize = 16;
/// Rows and columns of the furnace's temperature map.
pub const FLAME_MAP: (u32, u32) = (4, 6);
/// Number of samples in one vibration waveform.
pub const VIBRATION_SAMPLES: usize = 1024;
/// Sample rate of the vibration waveform, Hz.
pub const VIBRATION_RATE: u64 = 2048;

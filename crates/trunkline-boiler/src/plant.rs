//! Simulates the boiler in fixed time steps.
//!
//! In each step, the controls read the plant and command the valves, and the valves move. The model
//! then computes every flow from the states, enters the flows in the [`Books`], and computes the new
//! states from the books. No mass or energy exists outside the books.

use super::books::{Account, Books};
use super::controls::{BurnerState, Controls, PlantState};
use super::flows::Flows;
use super::parameters as p;
use super::steam::{Mixture, Table};
use super::valve::{Tag, Valve};

#[derive(Clone, Debug)]
pub struct Plant {
    table: Table,
    /// Accounts of all mass and energy.
    pub books: Books,
    pub controls: Controls,
    /// The valves, in the order of [`Tag::ALL`].
    pub valves: Vec<Valve>,
    /// Flows of the last step.
    pub flows: Flows,
    /// Water and steam in the drum.
    pub drum: Mixture,
    /// Drum level, % of the gauge glass; below 0 or above 100 if the level is outside the glass.
    pub level: f64,
    /// Temperature of tubes and brickwork, °C.
    pub metal_temperature: f64,
    /// Temperature of the water in the feed tank, °C.
    pub tank_temperature: f64,
    /// Conductivity of the water in the drum, µS/cm.
    pub conductivity: f64,
    /// Speed of the feed pump, as a fraction of full speed.
    pub pump_speed: f64,
    /// Running time of the feed pump, s.
    pub pump_seconds: f64,
    /// Number of times that the safety valve lifted.
    pub lifts: u32,
    /// Amplitude of the variation of the steam demand, %.
    pub variation: f64,
    /// Number of steps since the plant was created.
    pub steps: u64,
    /// Value of `steps` when the plant had settled and the books were opened.
    pub settled_at: u64,
    /// Value of `steps` at the last start of the burner.
    pub burner_started_at: u64,
    /// Steam production, smoothed with the time constant of the bubbles, kg/s.
    bubbles: f64,
    /// Initial phase of each of the [`WAVES`], in steps.
    phases: [u64; 2],
}

impl Plant {
    /// Returns a plant in normal operation. `seed` determines the phases of the waves in the steam
    /// demand.
    pub fn new(seed: u64) -> Self {
        let table = Table::new();
        let state = table.at(179.9);
        let liquid = (p::LEVEL_ZERO_VOLUME + 0.7 * p::LEVEL_SPAN_VOLUME) / state.liquid_volume;
        let vapour = (p::DRUM_VOLUME - liquid * state.liquid_volume) / state.vapour_volume;
        let drum = Mixture {
            state,
            liquid_mass: liquid,
            vapour_mass: vapour,
        };
        let drum_energy = liquid * state.liquid_energy + vapour * state.vapour_energy;
        let (metal_temperature, tank_temperature) = (206.0, 102.0);
        let tank_mass = 0.7 * p::TANK_MASS;
        let tank_enthalpy = table.at(tank_temperature).liquid_enthalpy();
        let books = Books::open(&[
            (Account::Drum, liquid + vapour, drum_energy),
            (
                Account::Metal,
                0.0,
                p::METAL_HEAT_CAPACITY * metal_temperature,
            ),
            (Account::Tank, tank_mass, tank_mass * tank_enthalpy),
        ]);
        let mut valves: Vec<Valve> = Tag::ALL.map(|tag| Valve::new(tag.stroke_time())).into();
        let initial_openings = [(Tag::FV102, 60.0), (Tag::FV105, 3.0), (Tag::XV106, 100.0)];
        for (tag, percent) in initial_openings {
            valves[tag as usize].command = percent;
            valves[tag as usize].travel = percent;
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut plant = Self {
            table,
            books,
            controls: Controls::new(),
            valves,
            flows: Flows {
                steam: 2.4,
                condensate: 1.7,
                ..Flows::default()
            },
            drum,
            level: 70.0,
            metal_temperature,
            tank_temperature,
            conductivity: 3000.0,
            pump_speed: 1.0,
            pump_seconds: 0.0,
            lifts: 0,
            variation: 4.0,
            steps: 0,
            settled_at: 0,
            burner_started_at: 0,
            bubbles: 0.0,
            phases: WAVES.map(|(steps, _)| rng.u64(0..steps)),
        };
        plant.settle();
        plant
    }

    /// Runs the plant until the initial state no longer has an effect, then opens the books.
    fn settle(&mut self) {
        for _ in 0..SETTLE_STEPS {
            self.step();
        }
        self.settled_at = self.steps;
        let accounts = [Account::Drum, Account::Metal, Account::Tank];
        let contents = accounts.map(|account| {
            (
                account,
                self.books.mass(account),
                self.books.energy(account),
            )
        });
        self.books = Books::open(&contents);
    }

    /// Computes one step of [`p::STEP_SECONDS`].
    pub fn step(&mut self) {
        let starts = self.controls.burner_starts;
        let state = self.state();
        self.controls.step(&state, &mut self.valves);
        self.move_safety_valve();
        for valve in &mut self.valves {
            valve.step();
        }
        if self.controls.burner_starts != starts {
            self.burner_started_at = self.steps;
        }
        self.run_pump();
        let flows = self.compute_flows();
        self.book_flows(&flows);
        self.flows = flows;
        self.update_states();
        self.steps += 1;
    }

    /// Returns the values that the controls use.
    pub fn state(&self) -> PlantState {
        PlantState {
            level: self.level,
            pressure: self.pressure(),
            steam: self.flows.steam,
            tank_level: self.tank_level(),
            tank_temperature: self.tank_temperature,
        }
    }

    /// Returns the drum pressure, bar.
    pub fn pressure(&self) -> f64 {
        self.drum.state.pressure / PASCALS
    }

    /// Returns the feed tank level, %.
    pub fn tank_level(&self) -> f64 {
        self.books.mass(Account::Tank) / p::TANK_MASS * 100.0
    }

    pub fn valve(&self, tag: Tag) -> &Valve {
        &self.valves[tag as usize]
    }

    /// Returns the pressure after the feed pump, bar.
    pub fn discharge_pressure(&self) -> f64 {
        let rise = p::PUMP_PRESSURE_RISE * self.pump_speed * self.pump_speed;
        (p::TANK_PRESSURE + rise - p::PUMP_RESISTANCE * self.flows.feed * self.flows.feed).max(0.0)
    }

    /// Returns the heat from metal to water as a percentage of the heat of combustion; 0 without fire.
    pub fn efficiency(&self) -> f64 {
        if self.flows.combustion_power <= 0.0 {
            return 0.0;
        }
        (100.0 * self.flows.heat_to_water / self.flows.combustion_power).clamp(0.0, 100.0)
    }

    /// Returns the oxygen in the dry flue gas, % by volume. Without fire, this is the oxygen in
    /// air.
    pub fn oxygen(&self) -> f64 {
        match self.flows.air_ratio {
            ratio if ratio > 0.0 => OXYGEN_OF_AIR * (ratio - 1.0) / (ratio - DRY_GAS_DEFICIT),
            _ => OXYGEN_OF_AIR,
        }
    }

    /// Returns the simulated time since the books were opened, s.
    pub fn seconds(&self) -> f64 {
        (self.steps - self.settled_at) as f64 * p::STEP_SECONDS
    }

    /// Opens or closes the safety valve, depending on the pressure.
    fn move_safety_valve(&mut self) {
        let pressure = self.pressure();
        let valve = &mut self.valves[Tag::PSV109 as usize];
        if pressure > p::SAFETY_LIFT_PRESSURE && valve.command == 0.0 {
            valve.command = 100.0;
            self.lifts = self.lifts.saturating_add(1);
            self.controls
                .record_event(format!("Safety valve lifts at {pressure:.2} bar"));
        } else if pressure < p::SAFETY_RESEAT_PRESSURE {
            valve.command = 0.0;
        }
    }

    fn run_pump(&mut self) {
        let change_max = p::STEP_SECONDS / p::PUMP_RUN_UP_SECONDS;
        let target_speed = if self.controls.pump_runs { 1.0 } else { 0.0 };
        self.pump_speed += (target_speed - self.pump_speed).clamp(-change_max, change_max);
        if self.controls.pump_runs {
            self.pump_seconds += p::STEP_SECONDS;
        }
    }

    /// Computes the flows from the states.
    fn compute_flows(&self) -> Flows {
        let pressure = self.pressure();
        let opening = |tag: Tag| self.valve(tag).opening();
        // By Stodola's law, the steam flow is proportional to the square root of the difference of
        // the squared pressures.
        let pressure_term = |downstream: f64| {
            (pressure * pressure - downstream * downstream)
                .max(0.0)
                .sqrt()
        };

        let steam = p::STEAM_VALVE_FLOW
            * opening(Tag::FV102)
            * self.demand_factor()
            * pressure_term(p::HEADER_PRESSURE);
        let can_blow_down = self.drum.liquid_volume() > p::BLOW_DOWN_VOLUME_MIN;
        let pressure_factor = ((pressure - p::ATMOSPHERIC_PRESSURE).max(0.0) / 9.0).sqrt();
        let condensate = self.flows.condensate;
        let condensate_target = p::CONDENSATE_FRACTION * steam;
        let tank_excess = self.books.mass(Account::Tank) - p::TANK_MASS;
        let feed = self.feed_flow(pressure, opening(Tag::FV101));
        let pump_rise = p::PUMP_PRESSURE_RISE * self.pump_speed * self.pump_speed
            - p::PUMP_RESISTANCE * feed * feed;
        let water_volume = self.table.at(self.tank_temperature).liquid_volume;

        let mut flows = Flows {
            steam,
            safety: p::SAFETY_VALVE_FLOW
                * opening(Tag::PSV109)
                * pressure_term(p::ATMOSPHERIC_PRESSURE),
            vent: p::VENT_VALVE_FLOW * opening(Tag::XV110) * pressure_term(p::ATMOSPHERIC_PRESSURE),
            heating: p::HEATING_VALVE_FLOW * opening(Tag::TV104) * pressure_term(p::TANK_PRESSURE),
            blow_down: if can_blow_down {
                p::BLOW_DOWN_MAX * opening(Tag::FV105) * pressure_factor
            } else {
                0.0
            },
            feed,
            make_up: p::MAKE_UP_MAX * opening(Tag::LV103),
            condensate: condensate
                + (condensate_target - condensate) * p::STEP_SECONDS / p::CONDENSATE_TIME_CONSTANT,
            overflow: tank_excess.max(0.0) / p::OVERFLOW_SECONDS,
            heat_to_water: p::METAL_TO_WATER
                * (self.metal_temperature - self.drum.state.temperature),
            metal_heat_loss: p::METAL_TO_AMBIENT
                * (self.metal_temperature - p::AMBIENT_TEMPERATURE),
            tank_heat_loss: p::TANK_TO_AMBIENT * (self.tank_temperature - p::AMBIENT_TEMPERATURE),
            pump_power: feed * pump_rise.max(0.0) * PASCALS * water_volume / p::PUMP_EFFICIENCY,
            ..Flows::default()
        };
        self.compute_combustion(&mut flows);
        flows
    }

    /// Returns the flow at which the pressure of the pump equals the losses in pipe and valve, kg/s.
    /// It is never negative, because a check valve prevents backflow.
    fn feed_flow(&self, pressure: f64, opening: f64) -> f64 {
        let pump_rise = p::PUMP_PRESSURE_RISE * self.pump_speed * self.pump_speed;
        let pressure_difference = p::TANK_PRESSURE + pump_rise - pressure;
        if pressure_difference <= 0.0 || opening <= 1e-6 {
            return 0.0;
        }
        (pressure_difference
            / (p::PUMP_RESISTANCE + p::FEED_VALVE_RESISTANCE / (opening * opening)))
            .sqrt()
    }

    /// Computes combustion and the heat that the flue gas carries away.
    fn compute_combustion(&self, flows: &mut Flows) {
        let opening = |tag: Tag| self.valve(tag).opening();
        let firing_rate = match self.controls.burner {
            BurnerState::Ignition | BurnerState::Run => opening(Tag::FV107) * opening(Tag::XV106),
            _ => 0.0,
        };
        flows.fuel = p::FUEL_MAX * firing_rate;
        if firing_rate > 0.0 {
            // Burners need more excess air at a low firing rate.
            flows.air_ratio = 1.15 + 0.25 * (1.0 - firing_rate);
            flows.air = p::AIR_STOICHIOMETRIC * flows.air_ratio * flows.fuel;
        } else if self.controls.burner == BurnerState::Purge {
            flows.air = p::PURGE_AIR * opening(Tag::FV108);
        }
        flows.combustion_power = flows.fuel * p::HEATING_VALUE;
        let gas_heat_capacity_rate = (flows.fuel + flows.air) * p::GAS_HEAT_CAPACITY;
        if gas_heat_capacity_rate <= 0.0 {
            flows.flue_temperature = p::AMBIENT_TEMPERATURE;
            flows.flame_temperature = p::AMBIENT_TEMPERATURE;
            return;
        }
        let heat_input =
            flows.combustion_power + flows.air * p::AIR_HEAT_CAPACITY * p::AMBIENT_TEMPERATURE;
        // Heat transfer is less effective at a high firing rate.
        let effectiveness = 0.985 - 0.015 * firing_rate;
        flows.flame_temperature = heat_input / gas_heat_capacity_rate;
        let approach = (flows.flame_temperature - self.metal_temperature) * (1.0 - effectiveness);
        flows.flue_temperature = self.metal_temperature + approach;
        flows.flue_heat = gas_heat_capacity_rate * flows.flue_temperature;
    }

    /// Enters the flows of one step in the books.
    fn book_flows(&mut self, flows: &Flows) {
        use Account::{
            Air, Ambient, BlowDown, Condensate, Drum, Electricity, Flue, Fuel, Gas, MakeUp, Metal,
            Overflow, SafetyValve, SteamUser, Tank, Vent,
        };
        let steam_enthalpy = self.drum.state.vapour_enthalpy();
        let water_enthalpy = self.drum.state.liquid_enthalpy();
        let tank_enthalpy = self.books.energy(Tank) / self.books.mass(Tank).max(1e-9);
        let make_up_enthalpy = self.table.at(p::MAKE_UP_TEMPERATURE).liquid_enthalpy();
        let condensate_enthalpy = self.table.at(p::CONDENSATE_TEMPERATURE).liquid_enthalpy();
        let mass_flows = [
            (Drum, SteamUser, flows.steam, steam_enthalpy),
            (Drum, SafetyValve, flows.safety, steam_enthalpy),
            (Drum, Vent, flows.vent, steam_enthalpy),
            (Drum, Tank, flows.heating, steam_enthalpy),
            (Drum, BlowDown, flows.blow_down, water_enthalpy),
            (Tank, Drum, flows.feed, tank_enthalpy),
            (Tank, Overflow, flows.overflow, tank_enthalpy),
            (MakeUp, Tank, flows.make_up, make_up_enthalpy),
            (Condensate, Tank, flows.condensate, condensate_enthalpy),
            (Fuel, Gas, flows.fuel, p::HEATING_VALUE),
            (
                Air,
                Gas,
                flows.air,
                p::AIR_HEAT_CAPACITY * p::AMBIENT_TEMPERATURE,
            ),
        ];
        for (from, to, flow, enthalpy) in mass_flows {
            let mass = flow * p::STEP_SECONDS;
            self.books.transfer(from, to, mass, mass * enthalpy);
        }
        // All gas leaves through the flue. The metal receives the heat that the gas gives off.
        self.books
            .transfer_mass(Gas, Flue, flows.flue_heat * p::STEP_SECONDS);
        self.books.transfer_energy(Gas, Metal);
        let heat_flows = [
            (Electricity, Drum, flows.pump_power),
            (Metal, Drum, flows.heat_to_water),
            (Metal, Ambient, flows.metal_heat_loss),
            (Tank, Ambient, flows.tank_heat_loss),
        ];
        for (from, to, power) in heat_flows {
            self.books.transfer(from, to, 0.0, power * p::STEP_SECONDS);
        }
    }

    /// Computes the states from the books.
    fn update_states(&mut self) {
        let (mass, energy) = (
            self.books.mass(Account::Drum),
            self.books.energy(Account::Drum),
        );
        let previous_temperature = self.drum.state.temperature;
        self.drum = self
            .table
            .equilibrium(p::DRUM_VOLUME, mass, energy, previous_temperature);
        self.metal_temperature = self.books.energy(Account::Metal) / p::METAL_HEAT_CAPACITY;
        let tank_enthalpy =
            self.books.energy(Account::Tank) / self.books.mass(Account::Tank).max(1e-9);
        self.tank_temperature = self.table.liquid_temperature(tank_enthalpy);

        let steam_production =
            self.flows.steam + self.flows.safety + self.flows.vent + self.flows.heating;
        self.bubbles +=
            (steam_production - self.bubbles) * p::STEP_SECONDS / p::BUBBLE_TIME_CONSTANT;
        let swell = self.bubbles * p::BUBBLE_SECONDS * self.drum.state.vapour_volume;
        let below_surface = self.drum.liquid_volume() + swell.min(SWELL_MAX);
        self.level = (below_surface - p::LEVEL_ZERO_VOLUME) / p::LEVEL_SPAN_VOLUME * 100.0;

        let salt_flow =
            self.flows.feed * p::FEED_CONDUCTIVITY - self.flows.blow_down * self.conductivity;
        self.conductivity += salt_flow * p::STEP_SECONDS / self.drum.liquid_mass.max(1.0);
    }

    /// Returns the factor for the steam demand, which varies in two superimposed waves.
    fn demand_factor(&self) -> f64 {
        let waves = WAVES
            .iter()
            .zip(self.phases)
            .map(|((period, amplitude), phase)| {
                let cycle_fraction = ((self.steps + phase) % period) as f64 / *period as f64;
                amplitude * (std::f64::consts::TAU * cycle_fraction).sin()
            });
        1.0 + self.variation / 100.0 * waves.sum::<f64>()
    }
}

/// Pascals in one bar.
const PASCALS: f64 = 1e5;
/// Oxygen in air, % by volume.
const OXYGEN_OF_AIR: f64 = 20.9;
/// 1 minus the ratio of dry flue gas to air, for methane without excess air.
const DRY_GAS_DEFICIT: f64 = 0.105;
/// Maximum volume of the bubbles, m³.
const SWELL_MAX: f64 = 0.1;
/// Period in steps and relative amplitude of each wave of the steam demand.
const WAVES: [(u64, f64); 2] = [(2400, 0.7), (670, 0.3)];
/// Number of steps until the plant has settled: half an hour.
const SETTLE_STEPS: u64 = 18_000;

//! The boiler model: flows, balances and states in fixed steps.
//!
//! In each step, the controls read the plant and command its valves, and the valves move. Every
//! flow is computed from the states and entered in the [`Books`]; the new states are computed from
//! the books. No mass or energy exists outside the books.

use super::books::{Account, Books};
use super::controls::{BurnerState, Controls, PlantState};
use super::flows::Flows;
use super::parameters as p;
use super::steam::{Mixture, Table};
use super::valve::{Tag, Valve};

#[derive(Clone, Debug)]
pub struct Plant {
    table: Table,
    /// Books of mass and energy.
    pub books: Books,
    pub controls: Controls,
    /// The valves, in the order of [`Tag::ALL`].
    pub valves: Vec<Valve>,
    /// Flows of the last step.
    pub flows: Flows,
    /// Water and steam in the drum.
    pub drum: Mixture,
    /// Drum level, %; below 0 and above 100 outside the gauge glass.
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
    /// Amplitude of the variation of the users' draw, %.
    pub variation: f64,
    /// Steps since the plant was created.
    pub steps: u64,
    /// Value of `steps` when the plant had settled and its books were opened.
    pub settled_at: u64,
    /// Value of `steps` at the last start of the burner.
    pub burner_started_at: u64,
    bubbles: f64,
    phases: [u64; 2],
}

impl Plant {
    /// Returns a plant in normal operation. `seed` determines the initial phases of the users'
    /// draw.
    pub fn new(seed: u64) -> Self {
        let table = Table::new();
        let state = table.at(179.9);
        let water = (p::LEVEL_ZERO + 0.7 * p::LEVEL_SPAN) / state.liquid_volume;
        let steam = (p::DRUM_VOLUME - water * state.liquid_volume) / state.vapour_volume;
        let drum = Mixture {
            state,
            liquid: water,
            vapour: steam,
        };
        let drum_energy = water * state.liquid_energy + steam * state.vapour_energy;
        let (metal_temperature, tank_temperature) = (206.0, 102.0);
        let tank_mass = 0.7 * p::TANK_MASS;
        let tank_enthalpy = table.at(tank_temperature).liquid_enthalpy();
        let books = Books::open(&[
            (Account::Drum, water + steam, drum_energy),
            (Account::Metal, 0.0, p::METAL_CAPACITY * metal_temperature),
            (Account::Tank, tank_mass, tank_mass * tank_enthalpy),
        ]);
        let mut valves: Vec<Valve> = Tag::ALL.map(|tag| Valve::new(tag.stroke_time())).into();
        let opened = [(Tag::FV102, 60.0), (Tag::FV105, 3.0), (Tag::XV106, 100.0)];
        for (tag, percent) in opened {
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

    /// Runs the plant until its initial state no longer has an effect, then opens its books.
    fn settle(&mut self) {
        for _ in 0..SETTLE_STEPS {
            self.step();
        }
        self.settled_at = self.steps;
        let inside = [Account::Drum, Account::Metal, Account::Tank];
        let held = inside.map(|account| {
            (
                account,
                self.books.mass(account),
                self.books.energy(account),
            )
        });
        self.books = Books::open(&held);
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
        let flows = self.flow();
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
        let rise = p::PUMP_RISE * self.pump_speed * self.pump_speed;
        (p::TANK_PRESSURE + rise - p::PUMP_CURVE * self.flows.feed * self.flows.feed).max(0.0)
    }

    /// Returns the heat from metal to water divided by the heat of combustion, %; 0 without fire.
    pub fn efficiency(&self) -> f64 {
        if self.flows.combustion_power <= 0.0 {
            return 0.0;
        }
        (100.0 * self.flows.boiling / self.flows.combustion_power).clamp(0.0, 100.0)
    }

    /// Returns the oxygen in the dry flue gas, % by volume. Without fire, this is the oxygen in
    /// air.
    pub fn oxygen(&self) -> f64 {
        match self.flows.air_ratio {
            ratio if ratio > 0.0 => OXYGEN_OF_AIR * (ratio - 1.0) / (ratio - DRY_GAS_DEFICIT),
            _ => OXYGEN_OF_AIR,
        }
    }

    /// Returns the time since the plant had settled, s.
    pub fn seconds(&self) -> f64 {
        (self.steps - self.settled_at) as f64 * p::STEP_SECONDS
    }

    /// Opens or closes the safety valve, depending on the pressure.
    fn move_safety_valve(&mut self) {
        let pressure = self.pressure();
        let valve = &mut self.valves[Tag::PSV109 as usize];
        if pressure > p::SAFETY_LIFT && valve.command == 0.0 {
            valve.command = 100.0;
            self.lifts = self.lifts.saturating_add(1);
            self.controls
                .record_event(format!("Safety valve lifts at {pressure:.2} bar"));
        } else if pressure < p::SAFETY_RESEAT {
            valve.command = 0.0;
        }
    }

    fn run_pump(&mut self) {
        let reach = p::STEP_SECONDS / p::PUMP_RUN_UP;
        let goal = if self.controls.pump_runs { 1.0 } else { 0.0 };
        self.pump_speed += (goal - self.pump_speed).clamp(-reach, reach);
        if self.controls.pump_runs {
            self.pump_seconds += p::STEP_SECONDS;
        }
    }

    /// Computes the flows from the states.
    fn flow(&self) -> Flows {
        let pressure = self.pressure();
        let open = |tag: Tag| self.valve(tag).opening();
        // Stodola's law for steam: the flow is the root of the difference of squared pressures.
        let steam_to = |behind: f64| (pressure * pressure - behind * behind).max(0.0).sqrt();

        let steam = p::STEAM_VALVE * open(Tag::FV102) * self.users() * steam_to(p::HEADER_PRESSURE);
        let drawable = self.drum.liquid_volume() > p::BLOW_DOWN_NOZZLE;
        let push = ((pressure - p::ATMOSPHERE).max(0.0) / 9.0).sqrt();
        let condensate = self.flows.condensate;
        let wanted = p::CONDENSATE_SHARE * steam;
        let tank_excess = self.books.mass(Account::Tank) - p::TANK_MASS;
        let feed = self.feed_flow(pressure, open(Tag::FV101));
        let rise = p::PUMP_RISE * self.pump_speed * self.pump_speed - p::PUMP_CURVE * feed * feed;
        let water = self.table.at(self.tank_temperature).liquid_volume;

        let mut flows = Flows {
            steam,
            safety: p::SAFETY_VALVE * open(Tag::PSV109) * steam_to(p::ATMOSPHERE),
            vent: p::VENT_VALVE * open(Tag::XV110) * steam_to(p::ATMOSPHERE),
            heating: p::HEATING_VALVE * open(Tag::TV104) * steam_to(p::TANK_PRESSURE),
            blow_down: if drawable {
                p::BLOW_DOWN_MAX * open(Tag::FV105) * push
            } else {
                0.0
            },
            feed,
            make_up: p::MAKE_UP_MAX * open(Tag::LV103),
            condensate: condensate + (wanted - condensate) * p::STEP_SECONDS / p::CONDENSATE_LAG,
            overflow: tank_excess.max(0.0) / p::OVERFLOW_SECONDS,
            boiling: p::METAL_TO_WATER * (self.metal_temperature - self.drum.state.temperature),
            loss: p::METAL_TO_AMBIENT * (self.metal_temperature - p::AMBIENT_TEMPERATURE),
            tank_loss: p::TANK_TO_AMBIENT * (self.tank_temperature - p::AMBIENT_TEMPERATURE),
            pump: feed * rise.max(0.0) * PASCALS * water / p::PUMP_EFFICIENCY,
            ..Flows::default()
        };
        self.burn(&mut flows);
        flows
    }

    /// Returns the flow at which the pump's curve meets that of the pipe and valve, kg/s. A check
    /// valve prevents backflow.
    fn feed_flow(&self, pressure: f64, open: f64) -> f64 {
        let rise = p::PUMP_RISE * self.pump_speed * self.pump_speed;
        let head = p::TANK_PRESSURE + rise - pressure;
        if head <= 0.0 || open <= 1e-6 {
            return 0.0;
        }
        (head / (p::PUMP_CURVE + p::FEED_VALVE / (open * open))).sqrt()
    }

    /// Computes combustion and the heat that the flue gas carries away.
    fn burn(&self, flows: &mut Flows) {
        let valve = |tag: Tag| self.valve(tag).opening();
        let share = match self.controls.burner {
            BurnerState::Ignition | BurnerState::Run => valve(Tag::FV107) * valve(Tag::XV106),
            _ => 0.0,
        };
        flows.fuel = p::FUEL_MAX * share;
        if share > 0.0 {
            // Burners need more excess air at low fire.
            flows.air_ratio = 1.15 + 0.25 * (1.0 - share);
            flows.air = p::AIR_STOICHIOMETRIC * flows.air_ratio * flows.fuel;
        } else if self.controls.burner == BurnerState::Purge {
            flows.air = p::AIR_PURGE * valve(Tag::FV108);
        }
        flows.combustion_power = flows.fuel * p::HEATING_VALUE;
        let gas = (flows.fuel + flows.air) * p::GAS_CAPACITY;
        if gas <= 0.0 {
            flows.flue_temperature = p::AMBIENT_TEMPERATURE;
            flows.flame_temperature = p::AMBIENT_TEMPERATURE;
            return;
        }
        let carried =
            flows.combustion_power + flows.air * p::AIR_HEAT_CAPACITY * p::AMBIENT_TEMPERATURE;
        // The boiler is a heat exchanger that is less effective at high fire.
        let effectiveness = 0.985 - 0.015 * share;
        flows.flame_temperature = carried / gas;
        let approach = (flows.flame_temperature - self.metal_temperature) * (1.0 - effectiveness);
        flows.flue_temperature = self.metal_temperature + approach;
        flows.flue = gas * flows.flue_temperature;
    }

    /// Enters the flows of one step in the books.
    fn book_flows(&mut self, flows: &Flows) {
        use Account::{
            Air, Ambient, BlowDown, Condensate, Drum, Electricity, Flue, Fuel, Gas, MakeUp, Metal,
            Overflow, SafetyValve, SteamUser, Tank, Vent,
        };
        let steam = self.drum.state.vapour_enthalpy();
        let water = self.drum.state.liquid_enthalpy();
        let tank = self.books.energy(Tank) / self.books.mass(Tank).max(1e-9);
        let make_up = self.table.at(p::MAKE_UP_TEMPERATURE).liquid_enthalpy();
        let condensate = self.table.at(p::CONDENSATE_TEMPERATURE).liquid_enthalpy();
        let with_mass = [
            (Drum, SteamUser, flows.steam, steam),
            (Drum, SafetyValve, flows.safety, steam),
            (Drum, Vent, flows.vent, steam),
            (Drum, Tank, flows.heating, steam),
            (Drum, BlowDown, flows.blow_down, water),
            (Tank, Drum, flows.feed, tank),
            (Tank, Overflow, flows.overflow, tank),
            (MakeUp, Tank, flows.make_up, make_up),
            (Condensate, Tank, flows.condensate, condensate),
            (Fuel, Gas, flows.fuel, p::HEATING_VALUE),
            (
                Air,
                Gas,
                flows.air,
                p::AIR_HEAT_CAPACITY * p::AMBIENT_TEMPERATURE,
            ),
        ];
        for (from, to, flow, enthalpy) in with_mass {
            let mass = flow * p::STEP_SECONDS;
            self.books.transfer(from, to, mass, mass * enthalpy);
        }
        // All gas leaves through the flue. Heat that it does not carry goes to the metal.
        self.books
            .transfer_mass(Gas, Flue, flows.flue * p::STEP_SECONDS);
        self.books.transfer_energy(Gas, Metal);
        let heat = [
            (Electricity, Drum, flows.pump),
            (Metal, Drum, flows.boiling),
            (Metal, Ambient, flows.loss),
            (Tank, Ambient, flows.tank_loss),
        ];
        for (from, to, power) in heat {
            self.books.transfer(from, to, 0.0, power * p::STEP_SECONDS);
        }
    }

    /// Computes the states from the books.
    fn update_states(&mut self) {
        let (mass, energy) = (
            self.books.mass(Account::Drum),
            self.books.energy(Account::Drum),
        );
        let guess = self.drum.state.temperature;
        self.drum = self.table.equilibrium(p::DRUM_VOLUME, mass, energy, guess);
        self.metal_temperature = self.books.energy(Account::Metal) / p::METAL_CAPACITY;
        let tank = self.books.energy(Account::Tank) / self.books.mass(Account::Tank).max(1e-9);
        self.tank_temperature = self.table.liquid_temperature(tank);

        let boiled = self.flows.steam + self.flows.safety + self.flows.vent + self.flows.heating;
        self.bubbles += (boiled - self.bubbles) * p::STEP_SECONDS / p::BUBBLE_LAG;
        let swell = self.bubbles * p::BUBBLE_SECONDS * self.drum.state.vapour_volume;
        let below_surface = self.drum.liquid_volume() + swell.min(SWELL_MAX);
        self.level = (below_surface - p::LEVEL_ZERO) / p::LEVEL_SPAN * 100.0;

        let salt =
            self.flows.feed * p::FEED_CONDUCTIVITY - self.flows.blow_down * self.conductivity;
        self.conductivity += salt * p::STEP_SECONDS / self.drum.liquid.max(1.0);
    }

    /// Returns the factor by which the users' draw varies: two waves in plant time.
    fn users(&self) -> f64 {
        let waves = WAVES
            .iter()
            .zip(self.phases)
            .map(|((period, share), phase)| {
                let turn = ((self.steps + phase) % period) as f64 / *period as f64;
                share * (std::f64::consts::TAU * turn).sin()
            });
        1.0 + self.variation / 100.0 * waves.sum::<f64>()
    }
}

const PASCALS: f64 = 1e5;
/// Oxygen in air, % by volume.
const OXYGEN_OF_AIR: f64 = 20.9;
/// 1 minus the ratio of dry flue gas to air, for methane without excess air.
const DRY_GAS_DEFICIT: f64 = 0.105;
/// Limit on the volume of the bubbles, m³.
const SWELL_MAX: f64 = 0.1;
/// Period in steps and share of each wave of the users' draw.
const WAVES: [(u64, f64); 2] = [(2400, 0.7), (670, 0.3)];
/// Half an hour.
const SETTLE_STEPS: u64 = 18_000;

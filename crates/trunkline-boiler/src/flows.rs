//! Defines the flows of the plant.

/// Flows of mass and heat in one step, with some of the temperatures that determine them.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Flows {
    /// Steam to the users, kg/s.
    pub steam: f64,
    /// Steam through the safety valve, kg/s.
    pub safety: f64,
    /// Steam through the roof vent, kg/s.
    pub vent: f64,
    /// Steam to the feed tank, kg/s.
    pub heating: f64,
    /// Water blown down, kg/s.
    pub blow_down: f64,
    /// Feed water, kg/s.
    pub feed: f64,
    /// Make-up water, kg/s.
    pub make_up: f64,
    /// Returning condensate, kg/s.
    pub condensate: f64,
    /// Water through the tank's overflow, kg/s.
    pub overflow: f64,
    /// Fuel, kg/s.
    pub fuel: f64,
    /// Combustion air, kg/s.
    pub air: f64,
    /// Flue gas temperature, °C.
    pub flue_temperature: f64,
    /// Gas temperature directly after combustion, °C.
    pub flame_temperature: f64,
    /// Ratio of supplied to stoichiometric air; 0 without fire.
    pub air_ratio: f64,
    /// Heat of combustion, W.
    pub combustion_power: f64,
    /// Heat carried by the flue gas, W.
    pub flue_heat: f64,
    /// Heat from metal to water, W.
    pub heat_to_water: f64,
    /// Heat from the metal to the boiler house, W.
    pub metal_heat_loss: f64,
    /// Heat from the feed tank to the boiler house, W.
    pub tank_heat_loss: f64,
    /// Power that the feed pump's motor takes, W.
    pub pump_power: f64,
}

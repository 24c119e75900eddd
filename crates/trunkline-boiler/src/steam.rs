//! Computes the properties of water and steam at saturation.
//!
//! The equations are from IAPWS SR1-86(1992), "Revised Supplementary Release on Saturation
//! Properties of Ordinary Water Substance" (Wagner and Pruss, J. Phys. Chem. Ref. Data 22 (1993)
//! 783). They give the vapour pressure, the densities of liquid and vapour, and an auxiliary
//! quantity for the enthalpies. They are valid from the triple point (273.16 K) to the critical
//! point, and are used here from 1 °C to 230 °C (0.007 to 28 bar).
//!
//! The equations are evaluated once, for a table with steps of [`STEP`] and linear interpolation.
//! The model uses only the table, which deviates from the equations by less than 0.05 % (tested).
//! The internal energy of the liquid is 0 at the triple point.

/// A state of saturation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Saturation {
    /// Temperature, °C.
    pub temperature: f64,
    /// Pressure, Pa (absolute).
    pub pressure: f64,
    /// Specific volume of the liquid, m³/kg.
    pub liquid_volume: f64,
    /// Specific volume of the vapour, m³/kg.
    pub vapour_volume: f64,
    /// Specific internal energy of the liquid, J/kg.
    pub liquid_energy: f64,
    /// Specific internal energy of the vapour, J/kg.
    pub vapour_energy: f64,
}

impl Saturation {
    /// Returns the specific enthalpy of the liquid, J/kg.
    pub fn liquid_enthalpy(&self) -> f64 {
        self.liquid_energy + self.pressure * self.liquid_volume
    }

    /// Returns the specific enthalpy of the vapour, J/kg.
    pub fn vapour_enthalpy(&self) -> f64 {
        self.vapour_energy + self.pressure * self.vapour_volume
    }

    /// Evaluates the equations at a temperature in °C, which must be at least 0.01 °C and below the
    /// critical point.
    pub fn at(celsius: f64) -> Self {
        let kelvin = celsius + KELVIN;
        let theta = kelvin / CRITICAL_TEMPERATURE;
        let tau = 1.0 - theta;
        let root = tau.sqrt();
        let cube = tau.cbrt();

        let sum = A[0] * tau
            + A[1] * tau * root
            + A[2] * tau.powi(3)
            + A[3] * tau.powi(3) * root
            + A[4] * tau.powi(4)
            + A[5] * tau.powi(7) * root;
        let pressure = CRITICAL_PRESSURE * (sum / theta).exp();
        // d(ln p)/dT, from the same equation.
        let derivative = A[0]
            + 1.5 * A[1] * root
            + 3.0 * A[2] * tau.powi(2)
            + 3.5 * A[3] * tau.powi(2) * root
            + 4.0 * A[4] * tau.powi(3)
            + 7.5 * A[5] * tau.powi(6) * root;
        let slope = -(pressure / kelvin) * ((pressure / CRITICAL_PRESSURE).ln() + derivative);

        let liquid_density = CRITICAL_DENSITY
            * (1.0
                + B[0] * cube
                + B[1] * cube.powi(2)
                + B[2] * cube.powi(5)
                + B[3] * cube.powi(16)
                + B[4] * cube.powi(43)
                + B[5] * cube.powi(110));
        let vapour_density = CRITICAL_DENSITY
            * (C[0] * cube
                + C[1] * cube.powi(2)
                + C[2] * cube.powi(4)
                + C[3] * cube.powi(9)
                + C[4] * (cube.powi(37)).sqrt()
                + C[5] * (cube.powi(71)).sqrt())
            .exp();
        let alpha = 1000.0
            * (D_ALPHA
                + D[0] * theta.powi(-19)
                + D[1] * theta
                + D[2] * theta.powi(4) * theta.sqrt()
                + D[3] * theta.powi(5)
                + D[4] * theta.powi(54) * theta.sqrt());

        let liquid_enthalpy = alpha + kelvin / liquid_density * slope;
        let vapour_enthalpy = alpha + kelvin / vapour_density * slope;
        Self {
            temperature: celsius,
            pressure,
            liquid_volume: 1.0 / liquid_density,
            vapour_volume: 1.0 / vapour_density,
            liquid_energy: liquid_enthalpy - pressure / liquid_density,
            vapour_energy: vapour_enthalpy - pressure / vapour_density,
        }
    }
}

/// Liquid and vapour in equilibrium.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mixture {
    pub state: Saturation,
    /// Mass of the liquid, kg.
    pub liquid_mass: f64,
    /// Mass of the vapour, kg.
    pub vapour_mass: f64,
}

impl Mixture {
    /// Returns the volume of the liquid, m³.
    pub fn liquid_volume(&self) -> f64 {
        self.liquid_mass * self.state.liquid_volume
    }
}

/// The property table that the model uses.
#[derive(Clone, Debug)]
pub struct Table {
    states: Vec<Saturation>,
}

impl Table {
    /// Creates the table from [`TEMPERATURE_MIN`] to [`TEMPERATURE_MAX`].
    pub fn new() -> Self {
        let states = (0..=STEPS).map(|step| Saturation::at(TEMPERATURE_MIN + step as f64 * STEP));
        Self {
            states: states.collect(),
        }
    }

    /// Returns the saturation state at a temperature in °C, which is clamped to the range of the table.
    pub fn at(&self, celsius: f64) -> Saturation {
        let position = ((celsius - TEMPERATURE_MIN) / STEP).clamp(0.0, STEPS as f64);
        let index = (position as usize).min(STEPS - 1);
        let (low, high) = (&self.states[index], &self.states[index + 1]);
        let fraction = position - index as f64;
        let interpolate = |a: f64, b: f64| a + (b - a) * fraction;
        Saturation {
            temperature: TEMPERATURE_MIN + position * STEP,
            pressure: interpolate(low.pressure, high.pressure),
            liquid_volume: interpolate(low.liquid_volume, high.liquid_volume),
            vapour_volume: interpolate(low.vapour_volume, high.vapour_volume),
            liquid_energy: interpolate(low.liquid_energy, high.liquid_energy),
            vapour_energy: interpolate(low.vapour_energy, high.vapour_energy),
        }
    }

    /// Returns the temperature, °C, of saturated liquid with this enthalpy in J/kg.
    pub fn liquid_temperature(&self, enthalpy: f64) -> f64 {
        let above = self
            .states
            .partition_point(|state| state.liquid_enthalpy() <= enthalpy);
        let index = above.clamp(1, STEPS) - 1;
        let low = self.states[index].liquid_enthalpy();
        let high = self.states[index + 1].liquid_enthalpy();
        let fraction = (enthalpy - low) / (high - low);
        TEMPERATURE_MIN + (index as f64 + fraction.clamp(0.0, 1.0)) * STEP
    }

    /// Returns the equilibrium of liquid and vapour in a closed volume: the temperature and the
    /// masses of both.
    ///
    /// The mixture has a mass of `mass` kg and an internal energy of `energy` J, and fills `volume`
    /// m³. The function searches for the temperature at which the mixture has this energy, starting
    /// at `initial_temperature`. If there is no such temperature in the table, or if the volume
    /// contains only liquid or only vapour, the result is the nearest state of the table.
    pub fn equilibrium(
        &self,
        volume: f64,
        mass: f64,
        energy: f64,
        initial_temperature: f64,
    ) -> Mixture {
        let (specific_volume, target) = (volume / mass, energy / mass);
        let vapour_fraction = |state: &Saturation| {
            let spread = state.vapour_volume - state.liquid_volume;
            ((specific_volume - state.liquid_volume) / spread).clamp(0.0, 1.0)
        };
        let energy_error = |state: &Saturation| {
            let spread = state.vapour_energy - state.liquid_energy;
            state.liquid_energy + vapour_fraction(state) * spread - target
        };
        let (mut low, mut high) = (TEMPERATURE_MIN, TEMPERATURE_MAX);
        let mut celsius = initial_temperature.clamp(low, high);
        let mut state = self.at(celsius);
        let mut error = energy_error(&state);
        let mut slope = MIXTURE_HEAT_CAPACITY;
        // Use secant steps within a bracket. If a step would leave the bracket, bisect it instead.
        for _ in 0..ITERATIONS_MAX {
            if error.abs() < ENERGY_TOLERANCE || high - low < 1e-9 {
                break;
            }
            if error > 0.0 {
                high = celsius
            } else {
                low = celsius
            }
            let mut next = celsius - error / slope;
            if !(low..=high).contains(&next) {
                next = 0.5 * (low + high);
            }
            let next_state = self.at(next);
            let next_error = energy_error(&next_state);
            let secant_slope = (next_error - error) / (next - celsius);
            slope = if secant_slope > 0.0 {
                secant_slope
            } else {
                MIXTURE_HEAT_CAPACITY
            };
            (celsius, state, error) = (next, next_state, next_error);
        }
        let vapour_mass = mass * vapour_fraction(&state);
        Mixture {
            state,
            liquid_mass: mass - vapour_mass,
            vapour_mass,
        }
    }
}

/// Lowest temperature of the table, °C.
pub const TEMPERATURE_MIN: f64 = 1.0;
/// Highest temperature of the table, °C.
pub const TEMPERATURE_MAX: f64 = TEMPERATURE_MIN + STEPS as f64 * STEP;
/// Step of the table, K.
pub const STEP: f64 = 0.5;
const STEPS: usize = 458;
/// Approximate heat capacity of the mixture at constant volume, J/(kg K). It is the initial slope of
/// the search for the temperature.
const MIXTURE_HEAT_CAPACITY: f64 = 4500.0;
/// Tolerance for the energy of an equilibrium, J/kg: about 10⁻⁹ of the energy.
const ENERGY_TOLERANCE: f64 = 1e-3;
const ITERATIONS_MAX: usize = 60;

/// 0 °C in kelvin.
pub const KELVIN: f64 = 273.15;
const CRITICAL_TEMPERATURE: f64 = 647.096;
const CRITICAL_PRESSURE: f64 = 22.064e6;
const CRITICAL_DENSITY: f64 = 322.0;
const A: [f64; 6] = [
    -7.859_517_83,
    1.844_082_59,
    -11.786_649_7,
    22.680_741_1,
    -15.961_871_9,
    1.801_225_02,
];
const B: [f64; 6] = [
    1.992_740_64,
    1.099_653_42,
    -0.510_839_303,
    -1.754_934_79,
    -45.517_035_2,
    -6.746_944_50e5,
];
const C: [f64; 6] = [
    -2.031_502_40,
    -2.683_029_40,
    -5.386_264_92,
    -17.299_160_5,
    -44.758_658_1,
    -63.920_106_3,
];
const D_ALPHA: f64 = -1_135.905_627_715;
const D: [f64; 5] = [
    -5.651_349_98e-8,
    2_690.666_31,
    127.287_297,
    -135.003_439,
    0.981_825_814,
];

//! Double-entry bookkeeping of mass and energy.
//!
//! Every flow of the plant is a transfer between two accounts, in whole nanograms and microjoules.
//! The amount that leaves one account is exactly the amount that enters the other, so rounding
//! never creates or loses anything, no matter how long the plant runs. Accounts outside the plant
//! count the amounts that have entered and left it.

use std::ops::{Index, IndexMut};

/// An amount in whole nanograms or microjoules. 128 bits hold the throughput of 10¹⁷ years; 64 bits
/// would overflow within two months.
pub type Whole = i128;

/// A place that holds mass and energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Account {
    // Inside: the contents of the plant.
    Drum,
    Metal,
    Tank,
    /// Gas between burner and flue; empty at the end of a step.
    Gas,
    // Outside, in.
    MakeUp,
    Condensate,
    Fuel,
    Air,
    Electricity,
    // Outside, out.
    SteamUser,
    SafetyValve,
    Vent,
    BlowDown,
    Overflow,
    Flue,
    Ambient,
}

/// Mass and energy of one account.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Holding {
    /// Nanograms.
    pub mass: Whole,
    /// Microjoules.
    pub energy: Whole,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Books {
    holdings: [Holding; ACCOUNTS],
    opening: Holding,
}

impl Books {
    /// Opens the books of a plant with these contents, in kilograms and joules.
    pub fn open(inside: &[(Account, f64, f64)]) -> Self {
        let mut holdings = [Holding::default(); ACCOUNTS];
        for (account, kilograms, joules) in inside {
            holdings[*account as usize] = holding(*kilograms, *joules);
        }
        let mut books = Self {
            holdings,
            opening: Holding::default(),
        };
        books.opening = books.stored();
        books
    }

    /// Moves mass and energy from one account to another, in kilograms and joules. NaN moves
    /// nothing.
    pub fn transfer(&mut self, from: Account, to: Account, kilograms: f64, joules: f64) {
        let amount = holding(kilograms, joules);
        self[from].mass -= amount.mass;
        self[from].energy -= amount.energy;
        self[to].mass += amount.mass;
        self[to].energy += amount.energy;
    }

    /// Moves all mass of an account to another, together with `joules` of energy.
    pub fn transfer_mass(&mut self, from: Account, to: Account, joules: f64) {
        let mass = std::mem::take(&mut self[from].mass);
        self[to].mass += mass;
        self.transfer(from, to, 0.0, joules);
    }

    /// Moves all energy of an account to another.
    pub fn transfer_energy(&mut self, from: Account, to: Account) {
        let energy = std::mem::take(&mut self[from].energy);
        self[to].energy += energy;
    }

    /// Returns the mass of an account, kg.
    pub fn mass(&self, account: Account) -> f64 {
        self[account].mass as f64 / MASS_UNITS
    }

    /// Returns the energy of an account, J.
    pub fn energy(&self, account: Account) -> f64 {
        self[account].energy as f64 / ENERGY_UNITS
    }

    /// Returns the contents of the plant.
    pub fn stored(&self) -> Holding {
        self.sum(INSIDE)
    }

    /// Returns the amounts that have entered since the books were opened.
    pub fn received(&self) -> Holding {
        let sum = self.sum(SOURCES);
        Holding {
            mass: -sum.mass,
            energy: -sum.energy,
        }
    }

    /// Returns the amounts that have left since the books were opened.
    pub fn delivered(&self) -> Holding {
        self.sum(SINKS)
    }

    /// Returns received minus delivered minus the change of the contents: 0 unless the books are
    /// wrong.
    pub fn imbalance(&self) -> Holding {
        let (received, delivered, stored) = (self.received(), self.delivered(), self.stored());
        Holding {
            mass: received.mass - delivered.mass - (stored.mass - self.opening.mass),
            energy: received.energy - delivered.energy - (stored.energy - self.opening.energy),
        }
    }

    fn sum(&self, accounts: &[Account]) -> Holding {
        accounts
            .iter()
            .fold(Holding::default(), |sum, account| Holding {
                mass: sum.mass + self[*account].mass,
                energy: sum.energy + self[*account].energy,
            })
    }
}

impl Index<Account> for Books {
    type Output = Holding;

    fn index(&self, account: Account) -> &Holding {
        &self.holdings[account as usize]
    }
}

impl IndexMut<Account> for Books {
    fn index_mut(&mut self, account: Account) -> &mut Holding {
        &mut self.holdings[account as usize]
    }
}

fn holding(kilograms: f64, joules: f64) -> Holding {
    // The cast rounds to the nearest whole number and turns NaN into 0. One transfer fits into 64
    // bits.
    Holding {
        mass: Whole::from((kilograms * MASS_UNITS).round() as i64),
        energy: Whole::from((joules * ENERGY_UNITS).round() as i64),
    }
}

/// Nanograms in a kilogram.
pub const MASS_UNITS: f64 = 1e12;
/// Microjoules in a joule.
pub const ENERGY_UNITS: f64 = 1e6;

const INSIDE: &[Account] = &[Account::Drum, Account::Metal, Account::Tank, Account::Gas];
const SOURCES: &[Account] = &[
    Account::MakeUp,
    Account::Condensate,
    Account::Fuel,
    Account::Air,
    Account::Electricity,
];
const SINKS: &[Account] = &[
    Account::SteamUser,
    Account::SafetyValve,
    Account::Vent,
    Account::BlowDown,
    Account::Overflow,
    Account::Flue,
    Account::Ambient,
];
const ACCOUNTS: usize = Account::Ambient as usize + 1;

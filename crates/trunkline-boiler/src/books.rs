//! Double-entry bookkeeping of mass and energy.
//!
//! Every flow of the plant is a transfer between two accounts, in whole nanograms and microjoules.
//! The amount that leaves one account is exactly the amount that enters the other, so rounding
//! never creates or loses anything, no matter how long the plant runs. Accounts outside the plant
//! count the amounts that have entered and left it.

use std::ops::{Index, IndexMut};

/// An amount in whole nanograms or microjoules. 128 bits hold the throughput of 10¹⁷ years; 64 bits
/// would overflow within two months.
pub type Amount = i128;

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
pub struct Balance {
    /// Nanograms.
    pub mass: Amount,
    /// Microjoules.
    pub energy: Amount,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Books {
    balances: [Balance; ACCOUNTS],
    opening: Balance,
}

impl Books {
    /// Opens the books of a plant with these contents, in kilograms and joules.
    pub fn open(inside: &[(Account, f64, f64)]) -> Self {
        let mut balances = [Balance::default(); ACCOUNTS];
        for (account, kilograms, joules) in inside {
            balances[*account as usize] = balance(*kilograms, *joules);
        }
        let mut books = Self {
            balances,
            opening: Balance::default(),
        };
        books.opening = books.stored();
        books
    }

    /// Moves mass and energy from one account to another, in kilograms and joules. NaN moves
    /// nothing.
    pub fn transfer(&mut self, from: Account, to: Account, kilograms: f64, joules: f64) {
        let amount = balance(kilograms, joules);
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
    pub fn stored(&self) -> Balance {
        self.sum(INSIDE)
    }

    /// Returns the amounts that have entered since the books were opened.
    pub fn received(&self) -> Balance {
        let sum = self.sum(SOURCES);
        Balance {
            mass: -sum.mass,
            energy: -sum.energy,
        }
    }

    /// Returns the amounts that have left since the books were opened.
    pub fn delivered(&self) -> Balance {
        self.sum(SINKS)
    }

    /// Returns received minus delivered minus the change of the contents: 0 unless the books are
    /// wrong.
    pub fn imbalance(&self) -> Balance {
        let (received, delivered, stored) = (self.received(), self.delivered(), self.stored());
        Balance {
            mass: received.mass - delivered.mass - (stored.mass - self.opening.mass),
            energy: received.energy - delivered.energy - (stored.energy - self.opening.energy),
        }
    }

    fn sum(&self, accounts: &[Account]) -> Balance {
        accounts
            .iter()
            .fold(Balance::default(), |sum, account| Balance {
                mass: sum.mass + self[*account].mass,
                energy: sum.energy + self[*account].energy,
            })
    }
}

impl Index<Account> for Books {
    type Output = Balance;

    fn index(&self, account: Account) -> &Balance {
        &self.balances[account as usize]
    }
}

impl IndexMut<Account> for Books {
    fn index_mut(&mut self, account: Account) -> &mut Balance {
        &mut self.balances[account as usize]
    }
}

fn balance(kilograms: f64, joules: f64) -> Balance {
    // The cast rounds to the nearest whole number and turns NaN into 0. One transfer fits into 64
    // bits.
    Balance {
        mass: Amount::from((kilograms * MASS_UNITS).round() as i64),
        energy: Amount::from((joules * ENERGY_UNITS).round() as i64),
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

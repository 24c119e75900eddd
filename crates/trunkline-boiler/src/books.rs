//! Records mass and energy with double-entry bookkeeping.
//!
//! Every flow of the plant is a transfer between two accounts, in whole nanograms and microjoules.
//! The amount that leaves one account is exactly the amount that enters the other account. Rounding
//! therefore never creates or loses mass or energy, no matter how long the plant runs. Accounts
//! outside the plant count the amounts that have entered and left the plant.

use std::ops::{Index, IndexMut};

/// An amount in whole nanograms or microjoules. 128 bits hold the throughput of 10¹⁷ years; 64 bits
/// would overflow within two months.
pub type Amount = i128;

/// A part of the plant, a source or a sink of mass and energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Account {
    // Parts of the plant.
    Drum,
    Metal,
    Tank,
    /// Gas between burner and flue. This account is empty at the end of a step.
    Gas,
    // Sources outside the plant.
    MakeUp,
    Condensate,
    Fuel,
    Air,
    Electricity,
    // Sinks outside the plant.
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
    /// Mass, ng.
    pub mass: Amount,
    /// Energy, µJ.
    pub energy: Amount,
}

/// The balances of all accounts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Books {
    balances: [Balance; ACCOUNTS],
    /// Contents of the plant when the books were opened.
    opening: Balance,
}

impl Books {
    /// Opens the books of a plant with these contents, in kilograms and joules.
    pub fn open(contents: &[(Account, f64, f64)]) -> Self {
        let mut balances = [Balance::default(); ACCOUNTS];
        for (account, kilograms, joules) in contents {
            balances[*account as usize] = balance(*kilograms, *joules);
        }
        let mut books = Self {
            balances,
            opening: Balance::default(),
        };
        books.opening = books.stored();
        books
    }

    /// Moves mass and energy, in kilograms and joules, from one account to another. NaN counts as 0.
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

    /// Returns the mass and energy in the plant.
    pub fn stored(&self) -> Balance {
        self.sum(INSIDE)
    }

    /// Returns the mass and energy that have entered the plant since the books were opened.
    pub fn received(&self) -> Balance {
        let sum = self.sum(SOURCES);
        Balance {
            mass: -sum.mass,
            energy: -sum.energy,
        }
    }

    /// Returns the mass and energy that have left the plant since the books were opened.
    pub fn delivered(&self) -> Balance {
        self.sum(SINKS)
    }

    /// Returns the received amount minus the delivered amount minus the change of the contents. The
    /// result is 0 unless the books are wrong.
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
    // The cast converts NaN to 0. A single transfer fits into 64 bits.
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

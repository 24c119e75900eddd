//! Why a library cannot be deployed, undeployed, started or stopped.

use trunkline_types::data_type::TypeError;
use trunkline_types::definition::TextFault;
use trunkline_types::fifo::FifoError;
use trunkline_types::scaling::ScalingError;

use crate::alias::AliasFault;
use crate::update::NoMemory;

/// Why a library could not be deployed; nothing of it was.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// A library of this name is deployed.
    #[error("library {name} is already deployed; replace it, or undeploy it first")]
    AlreadyDeployed {
        /// Its name.
        name: String,
    },
    /// A name breaks the rules.
    #[error("{library}/{path}: {error}")]
    InvalidName {
        /// The library.
        library: String,
        /// The variable's path in it.
        path: String,
        /// The rule.
        error: trunkline_types::name::NameError,
    },
    /// A variable named like a field of another.
    #[error("{name} names a field; a variable's name has no `#`, write `%23` for the character")]
    Field {
        /// The full name.
        name: String,
    },
    /// Two variables of the same name.
    #[error("{name} is defined twice; rename one of them")]
    DuplicateName {
        /// The full name.
        name: String,
    },
    /// A library of the name under which register numbers are looked up.
    #[error("a library cannot be named {name}: names that begin with {name}/ are register numbers")]
    NumbersLibrary {
        /// The name.
        name: String,
    },
    /// Two variables of the same register number.
    #[error("{name} has the register number {number}, which {holder} has; give it another one")]
    NumberTaken {
        /// The full name.
        name: String,
        /// The number.
        number: u32,
        /// Who has it.
        holder: String,
    },
    /// The engine is full.
    #[error("{needed} variables do not fit: the engine holds at most {max}, {room} are free")]
    TooMany {
        /// Variables in the library.
        needed: usize,
        /// Free places.
        room: usize,
        /// All places.
        max: usize,
    },
    /// No variable can have this type.
    #[error("{name}: {error}")]
    Type {
        /// The full name.
        name: String,
        /// What is wrong.
        error: TypeError,
    },
    /// The range is none.
    #[error("{name}: the range {low} to {high} is none; give the lower number first, both finite")]
    Range {
        /// The full name.
        name: String,
        /// The lower end as given.
        low: f64,
        /// The upper end as given.
        high: f64,
    },
    /// A deadband that is no percentage.
    #[error("{name}: a deadband of {percent} % makes no sense; give 0 to 100")]
    Deadband {
        /// The full name.
        name: String,
        /// What was given.
        percent: f64,
    },
    /// A text that cannot be part of a definition.
    #[error("{name}: the {key} {fault}")]
    Text {
        /// The library, or the full name of the variable.
        name: String,
        /// Which text.
        key: &'static str,
        /// What is wrong with it.
        fault: TextFault,
    },
    /// Scaling does not fit the type.
    #[error("{name}: {error}")]
    Scaling {
        /// The full name.
        name: String,
        /// What is wrong.
        error: ScalingError,
    },
    /// The real-time FIFO does not fit the type.
    #[error("{name}: {error}")]
    Fifo {
        /// The full name.
        name: String,
        /// What is wrong and what to do.
        error: FifoError,
    },
    /// The system has no memory for the FIFOs of its variables.
    #[error(
        "library {library}: the engine's machine has no {bytes} bytes of memory left for its \
         FIFOs; make them shorter, or give the engine more memory"
    )]
    FifoMemory {
        /// Its name.
        library: String,
        /// Bytes of them all.
        bytes: usize,
    },
    /// The system has no memory for the initial value.
    #[error("{name}: {error}")]
    InitialMemory {
        /// The full name.
        name: String,
        /// How much there would have to be.
        error: NoMemory,
    },
    /// It cannot be an alias.
    #[error("{name}: {fault}")]
    Alias {
        /// The full name.
        name: String,
        /// What is wrong.
        fault: AliasFault,
    },
    /// The initial value is not one of the type, or the FIFO cannot hold it.
    #[error("{name}: the initial value is not {expected}; correct `initial` or `type`")]
    Initial {
        /// The full name.
        name: String,
        /// The type.
        expected: String,
    },
}

/// No library of this name is deployed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no library named {name} is deployed; `trunkline ls` lists those that are")]
pub struct UnknownLibrary {
    /// What was asked for.
    pub name: String,
}

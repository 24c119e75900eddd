//! Errors of deploying, undeploying, starting and stopping a library.

use trunkline_types::data_type::TypeError;
use trunkline_types::definition::TextFault;
use trunkline_types::fifo::FifoError;
use trunkline_types::scaling::ScalingError;

use crate::features::alias::AliasFault;
use crate::update::NoMemory;

/// The reason why a library could not be deployed. Nothing was changed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum DeployError {
    /// A library with this name is already deployed.
    #[error("library {name} is already deployed; replace it, or undeploy it first")]
    AlreadyDeployed {
        /// Name of the library.
        name: String,
    },
    /// A name breaks the rules of names.
    #[error("{library}/{path}: {error}")]
    InvalidName {
        /// Name of the library.
        library: String,
        /// Path of the variable in the library.
        path: String,
        /// The rule that is broken.
        error: trunkline_types::name::NameError,
    },
    /// A variable is named like a field.
    #[error("{name} names a field; a variable's name has no `#`, write `%23` for the character")]
    Field {
        /// Full name of the variable.
        name: String,
    },
    /// Two variables have the same name.
    #[error("{name} is defined twice; rename one of them")]
    DuplicateName {
        /// Full name of the variables.
        name: String,
    },
    /// The library's name is reserved for looking up register numbers.
    #[error("a library cannot be named {name}: names that begin with {name}/ are register numbers")]
    NumbersLibrary {
        /// Name of the library.
        name: String,
    },
    /// Two variables have the same register number.
    #[error("{name} has the register number {number}, which {holder} has; give it another one")]
    NumberTaken {
        /// Full name of the variable.
        name: String,
        /// The register number.
        number: u32,
        /// Full name of the variable that has the number.
        holder: String,
    },
    /// The engine has no room for the variables.
    #[error("{needed} variables do not fit: the engine holds at most {max}, {room} are free")]
    TooMany {
        /// Slots needed for new variables.
        needed: usize,
        /// Free slots.
        room: usize,
        /// Maximum number of variables.
        max: usize,
    },
    /// The data type is not valid for a variable.
    #[error("{name}: {error}")]
    Type {
        /// Full name of the variable.
        name: String,
        /// The fault in the type.
        error: TypeError,
    },
    /// The range is not valid.
    #[error("{name}: the range {low} to {high} is none; give the lower number first, both finite")]
    Range {
        /// Full name of the variable.
        name: String,
        /// Lower end as configured.
        low: f64,
        /// Upper end as configured.
        high: f64,
    },
    /// The deadband is not a percentage.
    #[error("{name}: a deadband of {percent} % makes no sense; give 0 to 100")]
    Deadband {
        /// Full name of the variable.
        name: String,
        /// The configured deadband.
        percent: f64,
    },
    /// A text is not valid in a definition.
    #[error("{name}: the {key} {fault}")]
    Text {
        /// Name of the library, or full name of the variable.
        name: String,
        /// Key of the text in the definition.
        key: &'static str,
        /// The fault in the text.
        fault: TextFault,
    },
    /// The scaling is not valid for the type.
    #[error("{name}: {error}")]
    Scaling {
        /// Full name of the variable.
        name: String,
        /// The fault in the scaling.
        error: ScalingError,
    },
    /// The real-time FIFO is not valid for the type.
    #[error("{name}: {error}")]
    Fifo {
        /// Full name of the variable.
        name: String,
        /// The fault in the FIFO, and the remedy.
        error: FifoError,
    },
    /// The system has no memory for the FIFOs of the library's variables.
    #[error(
        "library {library}: the engine's machine has no {bytes} bytes of memory left for its \
         FIFOs; make them shorter, or give the engine more memory"
    )]
    FifoMemory {
        /// Name of the library.
        library: String,
        /// Bytes needed for all FIFOs.
        bytes: usize,
    },
    /// The system has no memory for the initial value.
    #[error("{name}: {error}")]
    InitialMemory {
        /// Full name of the variable.
        name: String,
        /// Error with the amount of memory needed.
        error: NoMemory,
    },
    /// The variable cannot be an alias.
    #[error("{name}: {fault}")]
    Alias {
        /// Full name of the variable.
        name: String,
        /// The fault in the alias.
        fault: AliasFault,
    },
    /// The initial value has another type, or the FIFO cannot hold it.
    #[error("{name}: the initial value is not {expected}; correct `initial` or `type`")]
    Initial {
        /// Full name of the variable.
        name: String,
        /// The variable's type.
        expected: String,
    },
}

/// No library with this name is deployed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no library named {name} is deployed; `trunkline ls` lists those that are")]
pub struct UnknownLibrary {
    /// The requested name.
    pub name: String,
}

//! Errors of deploying, undeploying, starting and stopping a library.

use trunkline_access::Action;
use trunkline_types::data_type::TypeError;
use trunkline_types::definition::TextFault;
use trunkline_types::fifo::FifoError;
use trunkline_types::scaling::ScalingError;

use crate::caller::Caller;
use crate::features::alias::AliasFault;
use crate::update::NoMemory;

/// The reason why a library was not deployed. Nothing was changed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum DeployError {
    #[error("library {name} is already deployed; replace it, or undeploy it first")]
    AlreadyDeployed { name: String },
    #[error("{library}/{path}: {error}")]
    InvalidName {
        library: String,
        path: String,
        error: trunkline_types::name::NameError,
    },
    #[error("{name} is the name of a field; write `%23` instead of `#` in the name of a variable")]
    Field { name: String },
    #[error("{name} is defined twice; rename one of them")]
    DuplicateName { name: String },
    #[error(
        "a library cannot be named {name}, which is reserved for register numbers; choose another \
         name"
    )]
    NumbersLibrary { name: String },
    #[error(
        "{name} has the register number {number}, which {holder} already has; choose another number"
    )]
    NumberTaken {
        name: String,
        number: u32,
        holder: String,
    },
    #[error(
        "the engine cannot hold {needed} more variables: {room} of its {max} are free; undeploy \
         libraries that are not used"
    )]
    TooMany {
        needed: usize,
        room: usize,
        max: usize,
    },
    #[error("{name}: {error}")]
    Type { name: String, error: TypeError },
    #[error(
        "{name}: the range {low} to {high} is not valid; give the lower number first, both finite"
    )]
    Range { name: String, low: f64, high: f64 },
    #[error("{name}: the deadband cannot be {percent} %; use 0 to 100")]
    Deadband { name: String, percent: f64 },
    #[error("{name}: the {key} {fault}")]
    Text {
        /// Name of the library, or full name of the variable.
        name: String,
        key: &'static str,
        fault: TextFault,
    },
    #[error("{name}: {error}")]
    Scaling { name: String, error: ScalingError },
    #[error("{name}: {error}")]
    Fifo { name: String, error: FifoError },
    #[error(
        "library {library}: the engine's machine does not have {bytes} bytes of memory left for \
         the library's FIFOs; make them shorter, or give the engine more memory"
    )]
    FifoMemory { library: String, bytes: usize },
    #[error("{name}: {error}")]
    InitialMemory { name: String, error: NoMemory },
    #[error("{name}: {fault}")]
    Alias { name: String, fault: AliasFault },
    #[error("{name}: the initial value is not {expected}; correct `initial` or `type`")]
    Initial { name: String, expected: String },
}

impl DeployError {
    /// Returns the error as a sentence for a caller. It does not contain names of variables that the
    /// caller may not read (B-82).
    pub fn sentence_for(&self, caller: &Caller) -> String {
        let is_hidden = |name: &str| !caller.rights.permit_name(Action::Read, name);
        match self {
            DeployError::NumberTaken {
                name,
                number,
                holder,
            } if is_hidden(holder) => format!(
                "{name} has the register number {number}, which is taken; choose another number"
            ),
            DeployError::Alias { name, fault } => {
                let hides_some = is_hidden(name)
                    || match fault {
                        AliasFault::Cycle { path } => path.split(" -> ").any(is_hidden),
                        AliasFault::TooDeep { root, .. } | AliasFault::TooMany { root, .. } => {
                            is_hidden(root)
                        }
                        // These contain only what the library itself names.
                        AliasFault::Url { .. }
                        | AliasFault::InvalidName { .. }
                        | AliasFault::Field { .. }
                        | AliasFault::Contradicted { .. }
                        | AliasFault::Mismatch { .. } => false,
                    };
                match hides_some {
                    true => {
                        "together with other aliases of the engine, the aliases of this library \
                             form a cycle, form a chain that is too long, or are too many; ask the \
                             engine's administrator to deploy it"
                            .to_owned()
                    }
                    false => self.to_string(),
                }
            }
            DeployError::AlreadyDeployed { .. }
            | DeployError::InvalidName { .. }
            | DeployError::Field { .. }
            | DeployError::DuplicateName { .. }
            | DeployError::NumbersLibrary { .. }
            | DeployError::NumberTaken { .. }
            | DeployError::TooMany { .. }
            | DeployError::Type { .. }
            | DeployError::Range { .. }
            | DeployError::Deadband { .. }
            | DeployError::Text { .. }
            | DeployError::Scaling { .. }
            | DeployError::Fifo { .. }
            | DeployError::FifoMemory { .. }
            | DeployError::InitialMemory { .. }
            | DeployError::Initial { .. } => self.to_string(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no library named {name} is deployed; `trunkline ls` lists those that are")]
pub struct UnknownLibrary {
    pub name: String,
}

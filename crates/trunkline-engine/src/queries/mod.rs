//! Answers questions about many variables, or detailed questions about one.

mod explain;
pub mod health;
pub(crate) mod names;
pub mod search;
pub(crate) mod writers;

use crate::features::audit::AuditLog;
use crate::features::control::ControlTable;
use crate::features::leases::LeaseTable;
use crate::features::libraries::LibraryTable;
use crate::features::providers::ProviderTable;
use crate::subscriptions::Subscriptions;
use crate::sync::Arc;
use crate::write::View;

use self::writers::WriterTable;

pub type Queries<'e> = View<'e, QueryTable>;

#[derive(Debug)]
pub struct QueryTable {
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) control: Arc<ControlTable>,
    pub(crate) leases: Arc<LeaseTable>,
    pub(crate) libraries: Arc<LibraryTable>,
    pub(crate) providers: Arc<ProviderTable>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) writers: Arc<WriterTable>,
}

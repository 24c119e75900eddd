//! Alarms of variables: their definitions (`definition`), their states (`status`), and the record
//! of their changes (`journal`).

mod definition;
mod journal;
mod status;

pub use definition::{
    ALARM_NAME_BYTES_MAX, ALARMS_MAX, Acknowledge, AlarmDefinition, AlarmFault, AlarmKind,
    BitsNeeded, DELAY_MAX, LimitLevel, Operand, PRIORITY_RANGE, check_alarms,
};
pub use journal::{
    AlarmChange, AlarmEntry, AlarmJournalPage, AlarmJournalQuery, JournalEvent, SavedAlarm,
};
pub use status::{AlarmAction, AlarmEvent, AlarmRecord, AlarmState, AlarmStatus};

//! Alarms of variables: how they are defined (`definition`), and their states (`status`).

mod definition;
mod status;

pub use definition::{
    ALARM_NAME_BYTES_MAX, ALARMS_MAX, Acknowledge, AlarmDefinition, AlarmFault, AlarmKind,
    BitsNeeded, DELAY_MAX, LimitLevel, Operand, PRIORITY_RANGE, check_alarms,
};
pub use status::{AlarmAction, AlarmChange, AlarmEvent, AlarmRecord, AlarmState, AlarmStatus};

//! The client against a fake engine, on a simulated clock: nothing here waits or opens anything.

mod bulk;
mod connection;
mod contracts;
mod hostile;
mod ledger;
mod reconnect;
mod requests;
mod rig;
mod typed;
mod writes;

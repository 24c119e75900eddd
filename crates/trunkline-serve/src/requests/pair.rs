//! Handles PAIR: issues a joining token.

use trunkline_proto::message::pair::Pair;
use trunkline_proto::{Fault, FaultCode};

use super::Rejection;
use crate::context::Context;
use crate::gate::Admitted;

pub(crate) fn handle(context: &mut Context, frame: &Admitted<'_>) -> Result<(), Rejection> {
    let pair = Pair::decode(frame)?;
    let Some(authenticator) = &context.options.authenticator else {
        let sentence = "this engine has no accounts; create them with `trunkline init`, and set \
                        `security` in the configuration to their folder";
        return Err(Fault::new(FaultCode::NotSupported, sentence).into());
    };
    let paired = authenticator.pair(&context.caller, &pair, context.moment)?;
    paired.encode(frame.request(), &mut context.answers.frames);
    Ok(())
}

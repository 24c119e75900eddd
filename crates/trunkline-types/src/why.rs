//! Defines the steps with which an engine, its session and a client explain why a variable delivers no
//! updates (B-14).

/// One stage on the path from a variable's source to its consumer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WhyStage {
    /// The name resolves to a variable.
    Resolution,
    /// The connection is up.
    Connection,
    /// The connection is secured.
    Tls,
    /// The client and the engine have a common protocol version.
    Version,
    /// The caller has the necessary rights.
    Rights,
    /// The library is running.
    Library,
    /// The source delivers values.
    Source,
    /// No filter withholds the updates.
    Filter,
    /// No buffer is full.
    Buffer,
    /// The consumer reads the updates.
    Consumer,
    /// A stage defined by a newer version.
    Unknown(u8),
}

/// The finding at a stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WhyVerdict {
    Ok,
    /// The stage is the cause of the problem.
    Fault,
    /// The finding is useful to know, but is not the cause.
    Note,
    /// A verdict defined by a newer version.
    Unknown(u8),
}

/// A stage with its verdict. In a received frame, the texts are borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WhyStep<T = String> {
    pub stage: WhyStage,
    /// The verdict on this stage.
    pub verdict: WhyVerdict,
    /// A sentence that describes the finding.
    pub sentence: T,
    /// The next step to take; empty if there is nothing to do.
    pub next: T,
}

const STAGES: [(WhyStage, &str); 10] = [
    (WhyStage::Resolution, "resolution"),
    (WhyStage::Connection, "connection"),
    (WhyStage::Tls, "tls"),
    (WhyStage::Version, "version"),
    (WhyStage::Rights, "rights"),
    (WhyStage::Library, "library"),
    (WhyStage::Source, "source"),
    (WhyStage::Filter, "filter"),
    (WhyStage::Buffer, "buffer"),
    (WhyStage::Consumer, "consumer"),
];

impl WhyStage {
    /// Returns the number on the wire.
    pub fn number(self) -> u8 {
        let index = STAGES.iter().position(|(stage, _)| *stage == self);
        match (self, index) {
            (WhyStage::Unknown(number), _) => number,
            (_, Some(index)) => (index as u8).saturating_add(1),
            (_, None) => 0,
        }
    }

    /// Reads the number on the wire.
    pub fn from_number(number: u8) -> Self {
        let index = usize::from(number).checked_sub(1);
        index
            .and_then(|index| STAGES.get(index))
            .map_or(WhyStage::Unknown(number), |(stage, _)| *stage)
    }

    /// Returns the word shown to users and used by scripts.
    pub fn name(self) -> &'static str {
        STAGES
            .iter()
            .find(|(stage, _)| *stage == self)
            .map_or("unknown", |(_, name)| *name)
    }
}

impl WhyStep {
    /// Creates a step that reports no problem at this stage.
    pub fn ok(stage: WhyStage, sentence: impl Into<String>) -> Self {
        Self {
            stage,
            verdict: WhyVerdict::Ok,
            sentence: sentence.into(),
            next: String::new(),
        }
    }

    /// Creates a step with a finding that is useful to know but is not the cause.
    pub fn note(stage: WhyStage, sentence: impl Into<String>) -> Self {
        Self {
            verdict: WhyVerdict::Note,
            ..Self::ok(stage, sentence)
        }
    }

    /// Creates a step that is the cause, with its remedy.
    pub fn fault(stage: WhyStage, sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            verdict: WhyVerdict::Fault,
            next: next.into(),
            ..Self::ok(stage, sentence)
        }
    }

    /// Returns the borrowed form, for encoding.
    pub fn as_ref(&self) -> WhyStep<&str> {
        WhyStep {
            stage: self.stage,
            verdict: self.verdict,
            sentence: &self.sentence,
            next: &self.next,
        }
    }
}

impl WhyStep<&str> {
    /// Converts to the owned form.
    pub fn to_step(self) -> WhyStep {
        WhyStep {
            stage: self.stage,
            verdict: self.verdict,
            sentence: self.sentence.to_owned(),
            next: self.next.to_owned(),
        }
    }
}

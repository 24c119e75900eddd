//! Converts waveform properties, which describe values at constant intervals.

use crate::property::{Properties, PropertyValue};
use crate::text::Text;
use crate::time::TdmsTime;

const START_TIME: &[u8] = b"wf_start_time";
const START_OFFSET: &[u8] = b"wf_start_offset";
const INCREMENT: &[u8] = b"wf_increment";
const SAMPLES: &[u8] = b"wf_samples";

/// The axis of a channel's values. Value `i` is at `start + offset + i * increment`.
///
/// A channel has only the last written value of each property, so these properties cannot describe
/// a gap.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Waveform {
    /// Time of value 0; `None` if the properties do not define it.
    pub start: Option<TdmsTime>,
    /// Offset of value 0 in the unit of the axis, which is seconds if there is a start.
    pub offset: f64,
    /// Distance between consecutive values, in the unit of the axis.
    pub increment: f64,
    /// Number of values per write, not the length of the channel; `None` if it is not defined.
    pub samples: Option<u64>,
}

impl Waveform {
    /// Returns the waveform that properties define; `None` if they contain no increment.
    pub fn of(properties: &Properties) -> Option<Self> {
        let get = |name: &[u8]| properties.get(name);
        Some(Self {
            increment: get(INCREMENT)?.as_f64()?,
            offset: get(START_OFFSET)
                .and_then(PropertyValue::as_f64)
                .unwrap_or(0.0),
            start: get(START_TIME)
                .and_then(PropertyValue::as_time)
                .filter(|time| !time.is_unset()),
            samples: get(SAMPLES).and_then(PropertyValue::as_u64),
        })
    }

    /// Returns the properties that define this waveform, for the writer.
    pub fn to_properties(self) -> Vec<(Text, PropertyValue)> {
        let text = |name: &[u8]| Text::from(name);
        let mut all = Vec::new();
        if let Some(start) = self.start {
            all.push((text(START_TIME), start.into()));
        }
        all.push((text(START_OFFSET), self.offset.into()));
        all.push((text(INCREMENT), self.increment.into()));
        if let Some(samples) = self.samples {
            let samples = i32::try_from(samples).map_or_else(|_| samples.into(), Into::into);
            all.push((text(SAMPLES), samples));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use trunkline_types::Timestamp;

    use super::*;

    #[test]
    fn waveform_is_described_by_its_properties() {
        let sut = Waveform {
            start: Some(Timestamp::from_nanos(1_767_225_600_123_456_789).into()),
            offset: -0.5,
            increment: 0.001,
            samples: Some(500),
        };
        let properties: Properties = sut.to_properties().into_iter().collect();
        assert_eq!(
            properties[b"wf_samples".as_slice()],
            PropertyValue::I32(500)
        );
        assert_eq!(Waveform::of(&properties), Some(sut));

        let unset = PropertyValue::Time(TdmsTime::default());
        let mut bare: Properties = [(Text::from("wf_start_time"), unset)].into_iter().collect();
        assert_eq!(Waveform::of(&bare), None);
        bare.insert("wf_increment".into(), 2_i32.into());
        let expected = Waveform {
            increment: 2.0,
            ..Waveform::default()
        };
        assert_eq!(Waveform::of(&bare), Some(expected));
    }
}

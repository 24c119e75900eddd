//! Generates and checks simulated samples, each of which encodes its device and its number.

/// Number of low bits that contain the number of a sample. The high bits contain the device.
const NUMBER_BITS: u32 = 48;

/// Size of a sample in bytes. Samples are little-endian.
pub const SAMPLE_BYTES: usize = 8;

/// Returns sample `number` of device `device`. Samples are counted across all channels, from the
/// start of the device, including lost ones.
#[must_use]
pub const fn sample(device: u16, number: u64) -> i64 {
    let number = number & ((1 << NUMBER_BITS) - 1);
    (((device as u64) << NUMBER_BITS) | number).cast_signed()
}

/// A sample that differs from the sample that the device acquired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("sample {number} of device {device} is {found:#x}, but the device acquired {expected:#x}")]
pub struct WrongSample {
    pub device: u16,
    pub number: u64,
    /// The value that the device acquired.
    pub expected: i64,
    pub found: i64,
}

/// Fills `bytes` with samples, starting with sample `number`; a partial sample at the end is left
/// unchanged.
pub fn fill_samples(device: u16, number: u64, bytes: &mut [u8]) {
    for (word, number) in bytes.chunks_exact_mut(SAMPLE_BYTES).zip(number..) {
        word.copy_from_slice(&sample(device, number).to_le_bytes());
    }
}

/// Compares `bytes` with the samples, starting with sample `number`.
///
/// # Errors
/// [`WrongSample`]: the first difference.
pub fn check_samples(device: u16, number: u64, bytes: &[u8]) -> Result<(), WrongSample> {
    for (word, number) in bytes.chunks_exact(SAMPLE_BYTES).zip(number..) {
        let found = word.try_into().map_or(0, i64::from_le_bytes);
        let expected = sample(device, number);
        if found != expected {
            return Err(WrongSample {
                device,
                number,
                expected,
                found,
            });
        }
    }
    Ok(())
}

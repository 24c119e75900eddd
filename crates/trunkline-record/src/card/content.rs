//! What a simulated device acquires: every sample says which it is.

/// Bits of a sample that say its number; those above say its device.
const NUMBER_BITS: u32 = 48;

/// Bytes of a sample, little-endian.
pub const SAMPLE_BYTES: usize = 8;

/// Sample `number` of device `device`, counted through all channels and from the device's start,
/// lost ones too.
#[must_use]
pub const fn sample(device: u16, number: u64) -> i64 {
    let number = number & ((1 << NUMBER_BITS) - 1);
    (((device as u64) << NUMBER_BITS) | number).cast_signed()
}

/// A sample that is not what the device has acquired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("sample {number} of device {device} is {found:#x}, and was {expected:#x} when acquired")]
pub struct WrongSample {
    /// Which device.
    pub device: u16,
    /// Which sample.
    pub number: u64,
    /// What it should be.
    pub expected: i64,
    /// What it is.
    pub found: i64,
}

/// Writes samples from `number` on into `bytes`; what is left of it at the end is not touched.
pub fn fill_samples(device: u16, number: u64, bytes: &mut [u8]) {
    for (word, number) in bytes.chunks_exact_mut(SAMPLE_BYTES).zip(number..) {
        word.copy_from_slice(&sample(device, number).to_le_bytes());
    }
}

/// Compares `bytes` with the samples from `number` on.
///
/// # Errors
/// [`WrongSample`], the first.
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

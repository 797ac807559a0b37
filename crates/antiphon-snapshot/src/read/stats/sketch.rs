//! Estimates the number of distinct values in a column.

use std::hash::{DefaultHasher, Hasher as _};

/// The number of bits in a hash that select the register for the hash. With 12 bits, the standard error is about 1.6
/// %.
const BITS: u32 = 12;
const PLACES: usize = 1 << BITS;

/// A `HyperLogLog` with 4096 registers, which takes 4 KiB for any number of values. Each register contains the length
/// of the longest run of zeros in its hashes.
#[derive(Debug)]
pub(super) struct Sketch {
    longest: Vec<u8>,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Self { longest: vec![0; PLACES] }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        // The keys of this hasher are constant, so equal values have equal hashes in every process.
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        self.hash(hasher.finish());
    }

    pub(super) fn number(&mut self, value: u64) {
        // The finalizer of SplitMix64: each bit of the value affects each bit of the hash.
        let mut hash = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.hash(hash ^ (hash >> 31));
    }

    fn hash(&mut self, hash: u64) {
        // Invariant: the remainder is less than the number of registers.
        let place = usize::try_from(hash % PLACES as u64).unwrap_or(0);
        let zeros =
            u8::try_from(((hash >> BITS) | (1 << (64 - BITS))).trailing_zeros() + 1).unwrap_or(u8::MAX);
        self.longest[place] = self.longest[place].max(zeros);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the answer is an estimate, and it is neither negative nor beyond the number of rows"
    )]
    pub(super) fn count(&self) -> u64 {
        let places = PLACES as f64;
        let sum: f64 = self.longest.iter().map(|&zeros| (-f64::from(zeros)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / places) * places * places / sum;
        let empty: f64 = self.longest.iter().map(|&zeros| f64::from(u8::from(zeros == 0))).sum();
        // While some registers are empty, linear counting is more accurate than the `HyperLogLog` estimate.
        if estimate <= 2.5 * places && empty > 0.0 {
            return (places * (places / empty).ln()).round() as u64;
        }
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_is_near_at_every_size() {
        for count in [0_u64, 1, 10, 1_000, 5_000, 10_000, 50_000, 300_000] {
            let (mut numbers, mut texts) = (Sketch::new(), Sketch::new());
            for value in (0..count).chain(0..count / 2) {
                numbers.number(value);
                texts.bytes(value.to_string().as_bytes());
            }
            for sketch in [numbers, texts] {
                let off = sketch.count().abs_diff(count);
                assert!(off * 100 <= count * 5, "{} for {count}", sketch.count());
            }
        }
    }
}

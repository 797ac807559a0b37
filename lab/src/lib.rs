//! What the programs that the laboratory starts have in common.

#[cfg(feature = "bench")]
pub mod programs;

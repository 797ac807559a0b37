//! The Rust sources of this workspace, parsed: modules, items, and the meaning of names.

pub(crate) mod attributes;
pub(crate) mod item;
pub(crate) mod names;
pub(crate) mod tree;

//! The code of `docs/recipes.md`, one recipe in each module.

mod approval;
mod payment;
mod questions;
mod report;
mod sign_in;

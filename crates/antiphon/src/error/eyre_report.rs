use std::{any::Any, ops::ControlFlow};

use super::{Boxed, Error, inside};

impl From<Error> for eyre::Report {
    fn from(error: Error) -> Self {
        Self::new(Boxed(error))
    }
}

pub(super) fn find(slot: &mut dyn Any) -> ControlFlow<Error, bool> {
    inside::find(slot.downcast_mut(), eyre::Report::downcast_ref, eyre::Report::downcast)
}

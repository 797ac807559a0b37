use std::ops::ControlFlow;

use super::{Boxed, Error, ErrorKind};

/// Searches for an [`Error`] inside the error in `slot`. See [`FindInside`](super::FindInside). `slot` contains an
/// error only if the error of the other crate has the type `R`.
pub(super) fn find<R>(
    slot: Option<&mut Option<R>>,
    look: impl FnOnce(&R) -> Option<&Boxed>,
    take: impl FnOnce(R) -> Result<Boxed, R>,
) -> ControlFlow<Error, bool> {
    let Some(slot) = slot else { return ControlFlow::Continue(false) };
    let Some(Boxed(error)) = slot.as_ref().and_then(look) else { return ControlFlow::Continue(false) };
    if matches!(error.kind(), ErrorKind::Tool(_)) {
        return ControlFlow::Continue(error.is_terminal());
    }
    match slot.take().map(take) {
        Some(Ok(Boxed(error))) => return ControlFlow::Break(error),
        Some(Err(other)) => *slot = Some(other),
        None => {}
    }
    ControlFlow::Continue(false)
}

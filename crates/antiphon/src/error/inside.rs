use std::ops::ControlFlow;

use super::{Boxed, Error, ErrorKind};

/// Searches `slot` for an [`Error`]. See [`FindInside`](super::FindInside). If the error has another type, `slot` is
/// `None`.
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

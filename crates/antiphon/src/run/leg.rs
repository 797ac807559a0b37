//! One leg of a run.

use std::{future::Future, pin::Pin};

use antiphon_replay::{Drift, Suspension};

use super::{
    Pace, Run, Stop,
    drive::{Driven, drive},
};
use crate::{
    error::{Error, ErrorKind, Result},
    output::Returned,
};

/// The end of a leg.
#[derive(Debug)]
pub(crate) enum Leg<T> {
    /// The function returned or failed. An output that is too large or does not fit its schema is a failure too.
    Done(Result<T>),
    /// The function waits. If no answer arrives, continue it at `due`, in milliseconds since 1970.
    Waits { suspension: Suspension, due: Option<u64> },
    /// The run must not continue, because its result cannot be stored.
    Stopped(Stop),
}

/// Runs `function` until it returns or waits, or until `cancelled` completes. `check` validates the output.
///
/// Do not drop `function` before the leg has ended: when it is dropped, it withdraws its questions.
pub(crate) async fn run_leg<T: Returned>(
    run: &Run,
    function: Pin<&mut (dyn Future<Output = Result<T>> + Send)>,
    pace: Pace,
    cancelled: impl Future<Output = ()>,
    check: impl Fn(&T) -> Result<()>,
) -> Leg<T> {
    let driven = tokio::select! {
        biased;
        driven = run.span.within(drive(run, function, pace)) => driven,
        () = cancelled => Driven::Done(Err(Error::new(ErrorKind::Cancelled))),
    };
    match driven {
        Driven::Stopped(stop) => Leg::Stopped(stop),
        Driven::Suspended => {
            let due = run.next_due();
            match run.suspend() {
                Ok(suspension) => Leg::Waits { suspension, due },
                Err(drift) => Leg::Done(Err(drifted(drift))),
            }
        }
        Driven::Done(result) => Leg::Done(result.and_then(|output| {
            run.check_complete().map_err(drifted)?;
            check_size(run, &output)?;
            check(&output)?;
            Ok(output)
        })),
    }
}

fn drifted(drift: Drift) -> Error {
    Error::new(ErrorKind::Drift(drift)).terminal()
}

/// Counts the output's bytes for the caller's quota, and rejects an output that is larger than the limit.
fn check_size(run: &Run, output: &impl Returned) -> Result<()> {
    let (bytes, most) = (output.bytes(), run.runtime.limits.output_bytes);
    if let Some(place) = &run.place {
        place.spend(bytes);
    }
    if bytes <= most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit(format!(
        "the answer has {bytes} bytes, more than the limit of {most}; return less, return a result set (`Ctx::dual_response`), or raise `Limits::with_output_bytes`"
    )))
    .terminal())
}

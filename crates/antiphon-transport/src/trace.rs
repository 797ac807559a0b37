//! W3C trace context in `_meta`, as MCP defines it.
//!
//! MCP defines the format of the trace context, so this module does not use the OpenTelemetry propagator of the
//! program. The module `trace` does not send baggage, because baggage belongs to the application and can contain any
//! data.

use std::str::FromStr as _;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use serde_json::{Map, Value};

/// The `_meta` key for the IDs of the trace and of the span.
pub const TRACEPARENT: &str = "traceparent";
/// The `_meta` key for additional trace data of tracing systems.
pub const TRACESTATE: &str = "tracestate";

/// The maximum length of a forwarded `tracestate`, in bytes. The W3C specification requires a limit of at least 512
/// bytes. A longer `tracestate` is removed, and the trace continues without a `tracestate`.
const LONGEST_STATE: usize = 512;

/// Reads the span context from a message's `_meta`. Returns `None` if the span context is missing or malformed.
pub fn read(meta: &Map<String, Value>) -> Option<SpanContext> {
    let text = |key: &str| meta.get(key).and_then(Value::as_str);
    parse(text(TRACEPARENT)?, text(TRACESTATE))
}

/// Writes a span context into a message's `_meta`, if the context is valid.
pub fn write(context: &SpanContext, meta: &mut Map<String, Value>) {
    if !context.is_valid() {
        return;
    }
    meta.insert(TRACEPARENT.to_owned(), traceparent(context).into());
    match tracestate(context) {
        Some(state) => drop(meta.insert(TRACESTATE.to_owned(), state.into())),
        None => drop(meta.remove(TRACESTATE)),
    }
}

/// Parses the values of `traceparent` and `tracestate`. Returns `None` if these values are malformed.
pub fn parse(parent: &str, state: Option<&str>) -> Option<SpanContext> {
    let mut parts = parent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // A later version of the format can have more fields, but version `00` cannot.
    let whole = version != "00" || parts.next().is_none();
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !whole || version == "ff" || !hex(version, 2) || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) {
        return None;
    }
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    let state = state.filter(|state| state.len() <= LONGEST_STATE);
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::default().with_sampled(sampled),
        true,
        state.and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

/// Formats a span context as one line of text: `traceparent`, a space, and `tracestate`. Use `to_line` to store a span
/// context.
pub fn to_line(context: &SpanContext) -> Option<String> {
    let parent = context.is_valid().then(|| traceparent(context))?;
    Some(match tracestate(context) {
        Some(state) => format!("{parent} {state}"),
        None => parent,
    })
}

/// Parses a span context from a line that [`to_line`] has written.
pub fn from_line(line: &str) -> Option<SpanContext> {
    match line.split_once(' ') {
        Some((parent, state)) => parse(parent, Some(state)),
        None => parse(line, None),
    }
}

fn traceparent(context: &SpanContext) -> String {
    let sampled = u8::from(context.is_sampled());
    format!("00-{}-{}-{sampled:02x}", context.trace_id(), context.span_id())
}

fn tracestate(context: &SpanContext) -> Option<String> {
    let state = context.trace_state().header();
    (!state.is_empty() && state.len() <= LONGEST_STATE).then_some(state)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn meta(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_place_is_read_and_written_as_it_was() {
        let sent = meta(&json!({"traceparent": PARENT, "tracestate": "rojo=1,congo=2"}));
        let context = read(&sent).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        let mut written = meta(&json!({"progressToken": 1, "tracestate": "old=1"}));
        write(&context, &mut written);
        assert_eq!(written["traceparent"], PARENT);
        assert_eq!(written["tracestate"], "rojo=1,congo=2");
        assert_eq!(written["progressToken"], 1);
        let line = to_line(&context).unwrap();
        assert_eq!(from_line(&line), Some(context));
    }

    #[test]
    fn a_place_that_is_not_sampled_stays_so() {
        let context = parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", None).unwrap();
        assert!(!context.is_sampled());
        assert!(to_line(&context).unwrap().ends_with("-00"));
    }

    #[test]
    fn what_is_malformed_names_no_place() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(parse(bad, None), None, "{bad}");
        }
        assert_eq!(read(&meta(&json!({"traceparent": 7}))), None);
    }

    #[test]
    fn a_later_version_may_say_more() {
        assert!(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", None).is_some());
    }

    #[test]
    fn a_state_that_is_too_long_or_none_is_left_out() {
        let long = format!("a={}", "x".repeat(600));
        for state in [long.as_str(), "no state at all,,="] {
            let context = parse(PARENT, Some(state)).unwrap();
            assert_eq!(to_line(&context).as_deref(), Some(PARENT), "{state}");
        }
    }
}

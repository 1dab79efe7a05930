//! The W3C trace context that a run is started in.
//!
//! Promise: a text that is stored has the form of the header `traceparent`.

/// Why a text is not a trace context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a W3C `traceparent`: it must read `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, in lower case and with ids that are not all zeros"
)]
pub struct TraceparentError {
    /// The first characters of the text.
    pub text: String,
}

/// Longest text; later versions may have more parts than version 00.
const LONGEST: usize = 256;

pub(super) fn checked(text: String) -> Result<String, TraceparentError> {
    if is_traceparent(&text) {
        Ok(text)
    } else {
        Err(TraceparentError { text: text.chars().take(80).collect() })
    }
}

fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let is_hex = |part: &&str| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        parts.next().filter(is_hex)
    };
    let (Some(version), Some(trace), Some(span), Some(_flags)) = (part(2), part(32), part(16), part(2))
    else {
        return false;
    };
    let is_zero = |id: &str| id.bytes().all(|b| b == b'0');
    let ends = parts.next().is_none();
    version != "ff" && !is_zero(trace) && !is_zero(span) && (ends || version != "00") && text.len() <= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_of_the_header_is_a_trace_context() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let good = format!("00-{trace}-{span}-01");
        assert_eq!(checked(good.clone()), Ok(good.clone()));
        assert!(is_traceparent(&format!("01-{trace}-{span}-01-more")));
        for bad in [
            String::new(),
            format!("{good}-more"),
            good.to_uppercase(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-1"),
            format!("00-{trace}-{span}-01\n"),
            format!("01-{trace}-{span}-01-{}", "x".repeat(300)),
        ] {
            assert!(checked(bad.clone()).is_err(), "{bad}");
        }
    }
}

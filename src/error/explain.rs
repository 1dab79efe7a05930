//! The meaning of each diagnostic code: the pages of `docs/diagnostics`, for programs that show them.
//!
//! Promise: every code that the attributes can report has a page.

/// The page of `code`: a bad and a good example, and why.
///
/// ```
/// assert!(aether::error::explain("AE0101").is_some_and(|page| page.contains("cx.now()")));
/// assert!(aether::error::explain("AE9999").is_none());
/// ```
pub fn explain(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(id, _)| id.eq_ignore_ascii_case(code)).map(|(_, page)| *page)
}

/// Every code, in order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(id, _)| *id)
}

macro_rules! pages {
    ($($id:literal)+) => {
        &[$(($id, include_str!(concat!("../../docs/diagnostics/", $id, ".md")))),+]
    };
}

const PAGES: &[(&str, &str)] = pages! {
    "AE0001" "AE0002" "AE0003" "AE0004" "AE0005" "AE0006" "AE0007" "AE0008"
    "AE0009" "AE0010" "AE0011" "AE0012" "AE0013" "AE0014" "AE0015" "AE0016"
    "AE0017" "AE0018" "AE0020" "AE0021" "AE0022" "AE0023" "AE0024" "AE0025" "AE0026" "AE0027" "AE0028"
    "AE0029" "AE0030" "AE0031" "AE0032" "AE0040"
    "AE0101" "AE0102" "AE0103" "AE0104" "AE0105" "AE0106" "AE0107" "AE0108"
    "AE0109" "AE0110" "AE0111" "AE0112" "AE0113" "AE0114" "AE0115" "AE0116"
    "AE0117" "AE0118" "AE0119" "AE0120" "AE0121" "AE0122" "AE0123" "AE0124"
    "AE0130" "AE0131" "AE0132" "AE0133"
};

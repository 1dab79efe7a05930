//! Bytes, searched for what was planted and must not be seen, in every form in which a program may have written it.
//!
//! Promise: a text is found as it is, as JSON within JSON, as `{:?}` shows it, percent-encoded, as the numbers of its bytes,
//! and each of these in base64 at any place and in hexadecimal digits.

use std::collections::BTreeSet;
use std::path::Path;

use aho_corasick::AhoCorasick;

/// What is searched for.
pub(crate) struct Planted {
    /// Name and form of each, in the order of the patterns.
    needles: Vec<(String, String)>,
    search: AhoCorasick,
}

impl Planted {
    /// Searches for these texts, each of which has a name. Short ones are found by chance.
    pub(crate) fn new<N: Into<String>, T: AsRef<str>>(texts: impl IntoIterator<Item = (N, T)>) -> Self {
        let (mut needles, mut patterns) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            assert!(text.as_ref().len() >= 8, "{} is found by chance", text.as_ref());
            let name = name.into();
            // A form that is another one, too, is called by its first name.
            let mut known = BTreeSet::new();
            for (form, bytes) in forms(text.as_ref()) {
                if known.insert(bytes.clone()) {
                    needles.push((name.clone(), form));
                    patterns.push(bytes);
                }
            }
        }
        Self { needles, search: AhoCorasick::new(patterns).unwrap() }
    }

    /// What of it is in these bytes: name and form.
    pub(crate) fn found_in(&self, bytes: &[u8]) -> BTreeSet<(String, String)> {
        let all = self.search.find_overlapping_iter(bytes);
        all.map(|found| self.needles[found.pattern().as_usize()].clone()).collect()
    }

    /// What of it is in the files below a folder, and how many bytes they have.
    pub(crate) fn found_below(&self, folder: &Path) -> (BTreeSet<(String, String)>, u64) {
        let (mut found, mut searched) = (BTreeSet::new(), 0);
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, is_folder) = (entry.path(), entry.file_type().unwrap().is_dir());
            if is_folder {
                let (below, bytes) = self.found_below(&path);
                found.extend(below);
                searched += bytes;
            } else if let Ok(bytes) = std::fs::read(&path) {
                // One that is gone meanwhile holds nothing.
                found.extend(self.found_in(&bytes));
                searched += bytes.len() as u64;
            }
        }
        (found, searched)
    }
}

/// The forms of a text, each with its name.
fn forms(text: &str) -> Vec<(String, Vec<u8>)> {
    let unquoted = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
    let json = |text: &str| unquoted(serde_json::Value::from(text).to_string());
    let percent = |plain: fn(u8) -> bool| -> String {
        let shown =
            |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        text.bytes().map(shown).collect()
    };
    let numbers =
        |separator: &str| text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(separator);
    let ascii: String = text
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => json(&char::from(byte).to_string()),
            _ => format!("\\u{unit:04x}"),
        })
        .collect();
    let written = [
        ("as it is", text.to_owned()),
        ("in JSON", json(text)),
        ("in JSON in JSON", json(&json(text))),
        ("in ASCII JSON", ascii),
        ("as {:?}", unquoted(format!("{text:?}"))),
        ("percent-encoded", percent(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))),
        ("as numbers", numbers(",")),
        ("as shown numbers", numbers(", ")),
    ];
    let mut forms = Vec::new();
    for (form, text) in written {
        let bytes = text.into_bytes();
        for (alphabet, last) in [("base64", b"+/"), ("base64url", b"-_")] {
            for before in 0..3 {
                forms.push((format!("{form}, {alphabet}"), base64_after(before, &bytes, last)));
            }
        }
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        forms.push((format!("{form}, hexadecimal"), digits.to_uppercase().into_bytes()));
        forms.push((format!("{form}, hexadecimal"), digits.into_bytes()));
        forms.push((form.to_owned(), bytes));
    }
    forms
}

/// The characters of the base64 of `bytes` that do not depend on what stands around them, where so many bytes of a group of
/// three stand before them.
fn base64_after(before: usize, bytes: &[u8], last: &[u8; 2]) -> Vec<u8> {
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').chain(*last).collect::<Vec<_>>();
    let bits = |number: usize| {
        let byte = (number / 8).checked_sub(before).map_or(0, |at| bytes[at]);
        usize::from(byte >> (7 - number % 8) & 1)
    };
    let (first, end) = ((before * 8).div_ceil(6), (before + bytes.len()) * 8 / 6);
    (first..end).map(|letter| letters[(0..6).fold(0, |sum, bit| sum * 2 + bits(letter * 6 + bit))]).collect()
}

#[test]
fn a_text_is_found_in_each_form_at_each_place() {
    let text = "kïng\"\\/ 7+?>";
    let planted = Planted::new([("it", text)]);
    let named =
        |bytes: &[u8]| -> Vec<String> { planted.found_in(bytes).into_iter().map(|(_, form)| form).collect() };
    assert!(named("kïng\"\\ 7+?>, kïng".as_bytes()).is_empty());
    assert_eq!(named(format!("a {text} b").as_bytes()), ["as it is"]);
    let json = serde_json::json!({ "a": text }).to_string();
    assert_eq!(named(json.as_bytes()), ["in JSON"]);
    assert_eq!(named(serde_json::json!([json]).to_string().as_bytes()), ["in JSON in JSON"]);
    assert_eq!(named(br#""k\u00efng\"\\/ 7+?>""#), ["in ASCII JSON"]);
    assert_eq!(named(b"?q=k%C3%AFng%22%5C%2F%207%2B%3F%3E"), ["percent-encoded"]);
    assert_eq!(named(format!("{:?}", text.as_bytes()).as_bytes()), ["as shown numbers"]);
    assert_eq!(named(serde_json::to_string(text.as_bytes()).unwrap().as_bytes()), ["as numbers"]);
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(named(digits.as_bytes()), ["as it is, hexadecimal"]);
    // As another program encodes it, with one, two and three bytes before and after it.
    for encoded in [
        "eGvDr25nIlwvIDcrPz55",
        "eHhrw69uZyJcLyA3Kz8+eXk=",
        "eHh4a8OvbmciXC8gNys/PnkK",
        "a8OvbmciXC8gNys/Pg==",
    ] {
        assert_eq!(named(encoded.as_bytes()), ["as it is, base64"], "{encoded}");
    }
    assert_eq!(named(b"eHhrw69uZyJcLyA3Kz8-eXk"), ["as it is, base64url"]);
}

//! Text that is escaped only where it must be
//! how: clean

use std::borrow::Cow;

use aether::prelude::*;

fn escaped(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(['&', '<', '>', '"']) else {
        return text.into();
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out.into()
}

fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> (String, usize) {
    let mut copied = 0;
    let mut html = String::from("<tr>");
    for cell in cells {
        let cell = escaped(cell);
        copied += usize::from(matches!(cell, Cow::Owned(_)));
        html.extend(["<td>", &cell, "</td>"]);
    }
    (html + "</tr>", copied)
}

#[workflow]
pub async fn cow_escaping(cx: &mut Cx, _input: u64) -> Result<String> {
    let n = cx.random().await.to_string();
    let (html, copied) = row(["plain", "a < b & c", &n, "\"quoted\""]);
    Ok(format!("{html} {copied}"))
}

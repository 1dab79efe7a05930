//! Links of pages are parsed, normalized and checked, at most ten at a time
//! how: clean

use std::collections::{BTreeMap, BTreeSet};

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use url::Url;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    good: usize,
    moved: BTreeMap<String, String>,
    broken: BTreeMap<String, String>,
    malformed: Vec<String>,
}

fn normalized(base: &Url, link: &str) -> std::result::Result<Url, url::ParseError> {
    let mut url = base.join(link)?;
    url.set_fragment(None);
    if url.query() == Some("") {
        url.set_query(None);
    }
    Ok(url)
}

/// What follows each `href="` in a page.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("href=\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(link, _)| link)
}

#[workflow]
pub async fn link_checker(cx: &mut Cx, start: String) -> Result<Checked> {
    let base = Url::parse(&start).in_context("the address to begin with")?;
    let page = cx.http().get(base.as_str()).send().await?.error_for_status()?;
    let mut checked = Checked::default();
    let mut found = BTreeSet::new();
    for link in links(&page.text()) {
        match normalized(&base, link) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                found.insert(url.to_string());
            }
            Ok(_) => {}
            Err(error) => checked.malformed.push(format!("{link}: {error}")),
        }
    }
    let results = cx
        .each(found, async |cx: &mut Cx, url| {
            let reply = cx.http().get(url.as_str()).send().await;
            (url, reply)
        })
        .limit(10)
        .await;
    for (url, reply) in results {
        match reply {
            Ok(reply) if reply.status >= 400 => {
                checked.broken.insert(url, reply.status.to_string());
            }
            Ok(reply) => match reply.redirected_to {
                Some(target) => {
                    checked.moved.insert(url, target.to_string());
                }
                None => checked.good += 1,
            },
            Err(error) => {
                checked.broken.insert(url, error.to_string());
            }
        }
    }
    Ok(checked)
}

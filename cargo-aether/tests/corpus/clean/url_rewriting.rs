//! Addresses that are taken apart and put together, with no request
//! how: clean

use aether::prelude::*;
use url::{Host, Url};

fn canonical(address: &str) -> std::result::Result<Url, url::ParseError> {
    let mut url = Url::parse(address)?;
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    pairs.retain(|(name, _)| !name.starts_with("utm_"));
    pairs.sort();
    url.set_fragment(None);
    url.set_query(None);
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(&pairs);
    }
    Ok(url)
}

fn kind(url: &Url) -> &'static str {
    match url.host() {
        Some(Host::Domain(name)) if name.ends_with(".example") => "ours",
        Some(Host::Domain(_)) => "theirs",
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => "a number",
        None => "nothing",
    }
}

#[workflow]
pub async fn url_rewriting(cx: &mut Cx, _input: u64) -> Result<String> {
    let page = cx.random().await % 90;
    let address = format!("https://Shop.example:443/a/../b?utm_source=x&size=%C3%BC&page={page}#top");
    let url = canonical(&address)?;
    let next = url.join("../c?d=1")?;
    Ok(format!("{url} {next} {} {:?}", kind(&url), url.port_or_known_default()))
}

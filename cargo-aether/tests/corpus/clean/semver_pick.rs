//! The newest version that meets a requirement
//! how: clean

use aether::prelude::*;
use semver::{Version, VersionReq};

fn pick<'a>(versions: &'a [&'a str], wanted: &str) -> std::result::Result<Option<Version>, semver::Error> {
    let wanted = VersionReq::parse(wanted)?;
    let mut fitting = Vec::new();
    for version in versions {
        let version: Version = version.parse()?;
        if wanted.matches(&version) {
            fitting.push(version);
        }
    }
    fitting.sort();
    Ok(fitting.pop())
}

#[workflow]
pub async fn semver_pick(cx: &mut Cx, _input: u64) -> Result<String> {
    let minor = cx.random().await % 4;
    let versions = ["1.0.0", "1.2.3", "1.3.0-rc.1", "1.2.11+build.7", "2.0.0", "0.9.9"];
    let found = pick(&versions, &format!("^1.{minor}"))?;
    Ok(found.map_or_else(|| "none".to_owned(), |version| version.to_string()))
}

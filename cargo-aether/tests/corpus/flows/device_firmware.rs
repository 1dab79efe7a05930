//! Devices get firmware in groups, by a manifest of semantic versions in TOML
//! how: clean

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use aether::prelude::*;
use semver::{Version, VersionReq};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Deserialize)]
struct Manifest {
    release: Vec<Release>,
}

#[derive(Debug, Deserialize)]
struct Release {
    #[serde(deserialize_with = "parsed")]
    version: Version,
    #[serde(deserialize_with = "parsed")]
    upgrades: VersionReq,
    #[serde(default)]
    models: Vec<String>,
}

fn parsed<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> std::result::Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Device {
    serial: String,
    model: String,
    firmware: String,
}

impl Manifest {
    fn newest_for(&self, device: &Device) -> Option<&Release> {
        let present = Version::parse(&device.firmware).ok()?;
        self.release
            .iter()
            .filter(|release| release.models.is_empty() || release.models.contains(&device.model))
            .filter(|release| release.version > present && release.upgrades.matches(&present))
            .max_by(|a, b| a.version.cmp(&b.version))
    }
}

#[step(effect = "tool", idempotent, on_unknown = "retry", limit = "devices")]
pub async fn device_firmware_install(_cx: &mut StepCx, serial: &str, version: &str) -> Result<bool> {
    Ok(!serial.is_empty())
}

#[workflow]
pub async fn device_firmware(
    cx: &mut Cx,
    manifest: String,
    devices: Vec<Device>,
) -> Result<BTreeMap<String, Vec<String>>> {
    let manifest: Manifest = toml::from_str(&manifest).in_context("read the manifest")?;
    let planned: Vec<(Device, String)> = devices
        .into_iter()
        .filter_map(|device| manifest.newest_for(&device).map(|r| r.version.to_string()).map(|v| (device, v)))
        .collect();
    let (canaries, others) = planned.split_at(planned.len().min(5));
    let mut installed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (device, version) in canaries {
        if !device_firmware_install(cx, &device.serial, version).await? {
            return Err(Failure::permanent(format!("{} did not take {version}", device.serial)));
        }
        installed.entry(version.clone()).or_default().push(device.serial.clone());
    }
    let results = cx
        .each(others.to_vec(), async |cx: &mut Cx, (device, version)| {
            device_firmware_install(cx, &device.serial, &version)
                .await
                .map(|done| (device.serial, version, done))
        })
        .limit(50)
        .await;
    for (serial, version, _) in results.into_iter().flatten().filter(|(_, _, done)| *done) {
        installed.entry(version).or_default().push(serial);
    }
    Ok(installed)
}

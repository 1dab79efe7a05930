//! The wrappers of the compiler that cargo's configuration names.
//!
//! Promise: the one that cargo would have called is found: <https://doc.rust-lang.org/cargo/reference/config.html>. A file that
//! cannot be understood is refused by cargo itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A wrapper by its name in the environment and the configuration: `RUSTC_WRAPPER` is `build.rustc-wrapper`.
pub(crate) fn wrapper(name: &str) -> Option<OsString> {
    let of_environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    // Set to nothing, it switches off what the configuration names.
    if std::env::var_os(name).is_some() {
        return of_environment(name);
    }
    let key = name.to_lowercase().replace('_', "-");
    of_environment(&format!("CARGO_BUILD_{name}")).or_else(|| files().find_map(|file| in_file(&file, &key)))
}

/// The files in the order in which they count.
fn files() -> impl Iterator<Item = PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let folders: Vec<PathBuf> = here.ancestors().map(|folder| folder.join(".cargo")).collect();
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let both = |folder: PathBuf| [folder.join("config"), folder.join("config.toml")];
    folders.into_iter().chain(home).flat_map(both)
}

fn in_file(file: &Path, key: &str) -> Option<OsString> {
    let document: toml::Table = toml::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    let wrapper = document.get("build")?.get(key)?.as_str()?;
    // A plain name is searched for; a path is relative to the folder that `.cargo` is in.
    let is_path = wrapper.contains(std::path::MAIN_SEPARATOR) || wrapper.contains('/');
    let folder = file.parent().and_then(Path::parent).filter(|_| is_path);
    Some(folder.map_or_else(|| wrapper.into(), |folder| folder.join(wrapper).into_os_string()))
}

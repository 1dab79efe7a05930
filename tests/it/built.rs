//! What the build of this workspace left: examples to run, and libraries against which tests compile programs of their
//! own. Nothing is built a second time for them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::cargo_build::{cargo_build, profile_folder};

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The libraries and examples of the profile that this test was built in.
pub(crate) struct Built {
    profile: PathBuf,
    /// Libraries by the name that programs use: of several versions the newest.
    libraries: BTreeMap<String, PathBuf>,
}

/// Asks cargo what it built; it builds what is missing, once.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(Built::ask)
}

impl Built {
    fn ask() -> Self {
        let build = cargo_build().args(["--examples", "--message-format=json"]).output().unwrap();
        assert!(
            build.status.success(),
            "the examples do not build: {}",
            String::from_utf8_lossy(&build.stderr)
        );
        let mut newest = BTreeMap::new();
        for line in String::from_utf8_lossy(&build.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let Some((name, file)) = library(&message) else { continue };
            let version = version(message["package_id"].as_str().unwrap_or_default());
            newest
                .entry(name)
                .and_modify(|known: &mut (Vec<u64>, PathBuf)| {
                    if known.0 < version {
                        *known = (version.clone(), file.clone());
                    }
                })
                .or_insert((version, file));
        }
        let libraries: BTreeMap<_, _> = newest.into_iter().map(|(name, (_, file))| (name, file)).collect();
        assert!(libraries.contains_key("aether"), "cargo names no libraries");
        Self { profile: profile_folder(), libraries }
    }

    /// The program of an example.
    pub(crate) fn example(&self, name: &str) -> PathBuf {
        self.profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// A call of the compiler that knows all libraries, in the folder of the workspace.
    pub(crate) fn rustc(&self) -> Command {
        let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
        rustc.current_dir(root()).args(["--edition=2024", "--color=never", "-Cdebuginfo=0"]);
        rustc.arg(format!("-Ldependency={}", self.profile.join("deps").display()));
        for (name, file) in &self.libraries {
            rustc.arg("--extern").arg(format!("{name}={}", file.display()));
        }
        rustc
    }
}

/// The name and the file of a library that cargo tells of.
fn library(message: &Value) -> Option<(String, PathBuf)> {
    let is_library = |kind: &Value| ["lib", "rlib", "proc-macro"].iter().any(|known| kind == known);
    if message["reason"] != "compiler-artifact"
        || !message["target"]["kind"].as_array()?.iter().any(is_library)
    {
        return None;
    }
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
    let file = files.filter(|file| !file.ends_with(".rmeta")).map(PathBuf::from).next()?;
    Some((message["target"]["name"].as_str()?.replace('-', "_"), file))
}

/// The version at the end of a package's id.
fn version(id: &str) -> Vec<u64> {
    let version = id.rsplit(['#', '@']).next().unwrap_or_default();
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Does something for every item, on as many threads as there are cores; the results in the items' order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, lanes) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(2, usize::from));
    let lane = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let mine = numbers.map_while(|number| Some((number, items.get(number)?)));
        mine.map(|(number, item)| (number, work(item))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let panicked = |payload| std::panic::resume_unwind(payload);
        lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_else(panicked)).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

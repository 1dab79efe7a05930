//! Files: whether one is there, how long it is, and the SHA-256 of its content.

use std::io::{self, Read};
use std::path::Path;

use aether_core::failure::{Failure, Result};
use aether_core::id::RunId;
use aether_core::journal::event::StateChanged;
use aether_core::payload::hex;
use aether_core::policy::Inspection;
use aether_core::policy::Verifier;
use aether_core::step::StepCx;
use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};

use super::kind::{ABSENT, FILE};
use crate::plain_file;

/// Looks at files: existence, length and SHA-256 must be as they were left. A file without a recorded version only has to
/// be there.
///
/// ```
/// use aether_core::policy::Verifier;
/// use aether_effects::resource::FileVerifier;
/// assert!(!FileVerifier::new().skips_confirmed());
/// assert!(FileVerifier::new().once().skips_confirmed());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FileVerifier {
    once: bool,
}

impl FileVerifier {
    /// Looks at every recovery.
    pub const fn new() -> Self {
        Self { once: false }
    }

    /// Does not look again at a file that was once found as it was left.
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true }
    }
}

impl Verifier for FileVerifier {
    fn name(&self) -> &str {
        "file"
    }

    fn look<'a>(&'a self, _: &'a RunId, change: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        let path = change.id.clone();
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || version(Path::new(&path))).await;
            let found = looked.map_err(Failure::from)?.map_err(|error| unreadable(&change.id, &error))?;
            Ok(match &change.version {
                Some(expected) if *expected == found => Inspection::Unchanged,
                None if found != ABSENT => Inspection::Unchanged,
                Some(expected) => Inspection::Differs { expected: expected.clone(), found },
                None => Inspection::Differs { expected: "a file".into(), found },
            })
        })
    }

    fn skips_confirmed(&self) -> bool {
        self.once
    }
}

/// Reports a file as it is now.
pub(crate) fn report(cx: &StepCx, path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    let absolute = std::path::absolute(path).map_err(|error| unreadable(&shown, &error))?;
    let Some(id) = absolute.to_str() else {
        return Err(Failure::permanent(format_args!(
            "file `{shown}`: its path is not UTF-8, so it cannot be recorded"
        )));
    };
    let version = version(&absolute).map_err(|error| unreadable(id, &error))?;
    let operation = if version == ABSENT { "delete" } else { "write" };
    drop(cx.changed(FILE, id, operation).version(version));
    Ok(())
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure::new(format_args!("file `{path}`: {error}"))
}

/// A file's state in one text.
fn version(path: &Path) -> io::Result<String> {
    let mut file = match plain_file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ABSENT.into()),
        Err(error) => return Err(error),
    };
    let (mut hash, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format!("{bytes} bytes, sha256:{}", hex(&hash.finalize()))),
            Ok(count) => {
                hash.update(&buffer[..count]);
                bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! Images and files that go along with a message, by reference.
//!
//! Promise: what is recorded is the reference and not the content, unless the content itself is given; a file is read when
//! it is sent, up to a limit, and one that is missing, too large or another than promised is a typed error.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::ModelError;
use crate::plain_file;

/// Largest file that is sent, in bytes.
const MAX_FILE: u64 = 32 << 20;

/// An image or a file for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its media type, such as `image/png` or `application/pdf`.
    pub media_type: String,
    /// Where its content is.
    pub source: AttachmentSource,
    /// Its name, where the model is to know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Where the content of an attachment is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttachmentSource {
    /// At a URL, from which the provider fetches it.
    Url(String),
    /// In a file of the machine on which the question is sent.
    File {
        /// Path of the file.
        path: String,
        /// Digest that its content must have, in hexadecimal digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// Here, in standard base64. It is recorded with the question.
    Base64(String),
}

/// The content of an attachment as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachmentContent {
    /// A URL, from which the provider fetches it.
    Url(String),
    /// The content in standard base64.
    Base64(String),
}

impl Attachment {
    /// What is at `url`. The provider fetches it, so the URL must be one that the provider can reach; it is recorded.
    pub fn url(media_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self::of(media_type, AttachmentSource::Url(url.into()))
    }

    /// The file at `path`, up to 32 MiB. It is read at every attempt to ask, and must stay as it is until the question is
    /// answered: see [`Attachment::with_sha256`].
    pub fn file(media_type: impl Into<String>, path: impl Into<String>) -> Self {
        Self::of(media_type, AttachmentSource::File { path: path.into(), sha256: None })
    }

    /// The content itself. It is recorded; over 64 KiB it stands once in the effect store, and the journal refers to it.
    pub fn bytes(media_type: impl Into<String>, content: &[u8]) -> Self {
        Self::of(media_type, AttachmentSource::Base64(STANDARD.encode(content)))
    }

    fn of(media_type: impl Into<String>, source: AttachmentSource) -> Self {
        Self { media_type: media_type.into(), source, name: None }
    }

    /// Gives it a name that the model may see.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The SHA-256 that the file must have, in hexadecimal digits: a file that was changed is not sent. It says nothing of
    /// other attachments.
    #[must_use]
    pub fn with_sha256(mut self, digest: impl Into<String>) -> Self {
        if let AttachmentSource::File { sha256, .. } = &mut self.source {
            *sha256 = Some(digest.into().to_ascii_lowercase());
        }
        self
    }

    /// Whether it is an image, by its media type.
    pub fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }

    /// The content, as clients send it.
    ///
    /// # Errors
    /// [`ModelError::Attachment`] when the file cannot be read, is no file (a directory, a pipe), is over 32 MiB, or has another
    /// digest.
    pub async fn load(&self) -> Result<AttachmentContent, ModelError> {
        match &self.source {
            AttachmentSource::Url(url) => Ok(AttachmentContent::Url(url.clone())),
            AttachmentSource::Base64(content) => Ok(AttachmentContent::Base64(content.clone())),
            AttachmentSource::File { path, sha256 } => {
                let (path, sha256) = (path.clone(), sha256.clone());
                let read = tokio::task::spawn_blocking(move || {
                    read(&path, sha256.as_deref()).map_err(|reason| ModelError::Attachment { path, reason })
                });
                read.await.unwrap_or_else(|error| Err(ModelError::Setup(error.to_string())))
            }
        }
    }
}

fn read(path: &str, sha256: Option<&str>) -> Result<AttachmentContent, String> {
    let file = plain_file::open(Path::new(path)).map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!("it is over the limit of {MAX_FILE} bytes"));
    }
    if let Some(expected) = sha256 {
        let found: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != expected {
            return Err(format!("its SHA-256 is {found}, and {expected} was promised: it was changed"));
        }
    }
    Ok(AttachmentContent::Base64(STANDARD.encode(content)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_no_file_is_an_error_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, folder.path()] {
            let attachment = Attachment::file("image/png", path.to_str().unwrap());
            let loaded = tokio::time::timeout(Duration::from_secs(10), attachment.load()).await;
            if loaded.is_err() {
                // Whoever waits to read goes on.
                drop(File::options().read(true).write(true).open(path));
            }
            let Ok(Err(ModelError::Attachment { reason, .. })) = &loaded else { panic!("{loaded:?}") };
            assert_eq!(reason, "it is not a file");
        }
    }
}

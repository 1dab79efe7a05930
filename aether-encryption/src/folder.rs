//! Keys of data subjects in a folder: one small file each, encrypted with a key of the program.
//!
//! Promise: a key is durable before it is used and the same for all processes; once [`SubjectKeyFolder::destroy`] has
//! returned without an error, no process gets it from here any more. The name of a file says nothing of its subject. A folder
//! belongs to one wrapping key: under another one it is refused, gets no keys, and says of none that it was destroyed. The
//! same holds where the folder has gone, as a volume that is not mounted.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::key::{KeyError, SecretKey, random};
use crate::keys::{SubjectKey, SubjectKeys};

/// What stands in the file of a key that was destroyed.
const DESTROYED: &[u8] = b"destroyed\n";

/// The file that tells whose folder it is: [`MARK`], encrypted with the wrapping key.
const CHECK: &str = "folder.check";
const MARK: &[u8] = b"aether subject keys 1";
/// How the names of files with keys end.
const KEY: &str = "key";

/// A folder with the keys of data subjects. Several processes may use it at the same time; its file system must have hard
/// links. It must not be part of the backups of the database: a key that comes back with a backup brings its subject back.
#[derive(Clone, Debug)]
pub struct SubjectKeyFolder {
    path: Arc<Path>,
    wrapping: SecretKey,
    /// Files that are known to be in the folder for good.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
}

/// Why a key cannot be read, made or destroyed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The file system refuses.
    #[error("cannot {what} `{path}`: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file holds no key that the wrapping key opens.
    #[error(
        "`{path}` holds no key that the wrapping key opens: it was altered, or the folder has another wrapping key"
    )]
    Altered {
        /// The file.
        path: PathBuf,
    },
    /// The folder was made with another wrapping key.
    #[error(
        "the folder `{path}` was made with another wrapping key, so that its keys cannot be read with this one, and none is \
         made in it: give the key that it was made with, or another folder"
    )]
    OtherKey {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is no folder of subject keys, and is not to be made into one.
    #[error(
        "the folder `{path}` holds no keys of subjects: is it the right one, and mounted? `SubjectKeyFolder::open` makes a new \
         one"
    )]
    NoKeys {
        /// The folder.
        path: PathBuf,
    },
    /// The folder, of an older build, does not tell with which wrapping key it was made, and has no key of the subject that
    /// would prove it.
    #[error(
        "the folder `{path}` does not tell with which wrapping key it was made, and holds no key of this subject that would \
         prove it, so that nobody knows whether there is one to destroy: use the key of another subject first, as by starting \
         a run for one"
    )]
    Unproven {
        /// The folder.
        path: PathBuf,
    },
    /// No key can be made.
    #[error(transparent)]
    Key(#[from] KeyError),
}

fn io_error<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> FolderError + 'p {
    move |error| FolderError::Io { what, path: path.to_owned(), error }
}

/// What is in a file, if there is one.
fn content_of(file: &Path) -> Result<Option<Vec<u8>>, FolderError> {
    match fs::read(file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", file)(error)),
    }
}

/// Whether the key that a file held was destroyed.
fn is_destroyed(content: &[u8]) -> bool {
    // Zeros: the process that destroyed it died before it could say so.
    let is_overwritten = !content.is_empty() && content.iter().all(|byte| *byte == 0);
    content == DESTROYED || is_overwritten
}

impl SubjectKeyFolder {
    /// Opens the folder at `path`, and makes it if it is not there. `wrapping` encrypts the keys in it, and stays the same for
    /// as long as there is the folder.
    ///
    /// A folder of an older build does not say with which key it was made: it says so from when a key in it was first read.
    ///
    /// # Errors
    /// [`FolderError::OtherKey`] when it was made with another key; [`FolderError::Io`] when there is no such folder and none
    /// can be made.
    pub fn open(path: impl Into<PathBuf>, wrapping: SecretKey) -> Result<Self, FolderError> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(io_error("make the folder", &path))?;
        let folder = Self { path: path.into(), wrapping, durable: Arc::default() };
        if !folder.is_checked()? && !folder.has_keys()? {
            folder.write_check()?;
        }
        Ok(folder)
    }

    /// Opens a folder that was made before, and makes none: for a place that may not be mounted, and for programs that only
    /// read.
    ///
    /// # Errors
    /// [`FolderError::OtherKey`] when it was made with another key; [`FolderError::NoKeys`] when it is no folder of subject
    /// keys; [`FolderError::Io`] when there is none, or it cannot be read.
    pub fn open_existing(path: impl Into<PathBuf>, wrapping: SecretKey) -> Result<Self, FolderError> {
        let path = path.into();
        fs::read_dir(&path).map_err(io_error("open the folder", &path))?;
        let folder = Self { path: path.into(), wrapping, durable: Arc::default() };
        folder.is_own()?;
        Ok(folder)
    }

    /// Whether the folder says with which key it was made, and that is this one.
    fn is_checked(&self) -> Result<bool, FolderError> {
        let Some(content) = content_of(&self.path.join(CHECK))? else { return Ok(false) };
        match self.wrapping.decrypt(&content, CHECK.as_bytes()) {
            Some(mark) if mark == MARK => Ok(true),
            _ => Err(FolderError::OtherKey { path: self.path.to_path_buf() }),
        }
    }

    /// Whether there is the key of a subject, of whatever wrapping key. One that was destroyed is none: a build that did not
    /// look where it is may have left that behind in a place that was not mounted.
    fn has_keys(&self) -> Result<bool, FolderError> {
        for entry in fs::read_dir(&self.path).map_err(io_error("read the folder", &self.path))? {
            let file = entry.map_err(io_error("read the folder", &self.path))?.path();
            if file.extension().is_some_and(|kind| kind == KEY)
                && content_of(&file)?.is_some_and(|content| !is_destroyed(&content))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the folder says with which key it was made.
    ///
    /// # Errors
    /// [`FolderError::OtherKey`] when that is another key; [`FolderError::NoKeys`] when it is no folder of subject keys: it may
    /// be another one by now, or none that is mounted.
    fn is_own(&self) -> Result<bool, FolderError> {
        let is_checked = self.is_checked()?;
        if !is_checked && !self.has_keys()? {
            return Err(FolderError::NoKeys { path: self.path.to_path_buf() });
        }
        Ok(is_checked)
    }

    /// A folder of an older build says whose it is from when a key in it was read with the wrapping key, as that of `subject`.
    fn prove(&self, subject: &str) -> Result<(), FolderError> {
        if self.is_own()? {
            return Ok(());
        }
        match self.read(subject)? {
            SubjectKey::Known(_) => self.write_check(),
            SubjectKey::Unknown | SubjectKey::Destroyed => {
                Err(FolderError::Unproven { path: self.path.to_path_buf() })
            }
        }
    }

    /// Says that the folder was made with this key, unless somebody else has said of which it is.
    fn write_check(&self) -> Result<(), FolderError> {
        let draft = self.draft(&self.wrapping.encrypt(MARK, CHECK.as_bytes())?)?;
        let file = self.path.join(CHECK);
        let linked = fs::hard_link(&draft, &file);
        let _left_behind = fs::remove_file(&draft);
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("make", &file)(error)),
        }
        self.sync()?;
        self.is_checked().map(drop)
    }

    /// Destroys the key of `subject`: what was encrypted with it can never be read again. One that never had a key gets
    /// none from here on.
    ///
    /// # Errors
    /// After any error the key may still be there: remove the cause, and try again. [`FolderError::Io`];
    /// [`FolderError::NoKeys`] when the folder is not there any more, as one that is not mounted; [`FolderError::OtherKey`]
    /// when another one is there; [`FolderError::Unproven`] and [`FolderError::Altered`] when nobody can tell whether the key
    /// is in it.
    pub fn destroy(&self, subject: &str) -> Result<(), FolderError> {
        self.prove(subject)?;
        let file = self.file(subject)?;
        // Over the bytes themselves first: a file that is replaced may stay on the disk.
        match OpenOptions::new().write(true).open(&file) {
            Ok(mut old) => {
                let length = old.metadata().map_err(io_error("look at", &file))?.len();
                let nothing = vec![0; usize::try_from(length).unwrap_or(0)];
                old.write_all(&nothing)
                    .and_then(|()| old.sync_all())
                    .map_err(io_error("overwrite", &file))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("open", &file)(error)),
        }
        let draft = self.draft(DESTROYED)?;
        fs::rename(&draft, &file).map_err(io_error("replace", &file))?;
        self.sync()?;
        // It may have gone away meanwhile.
        self.is_own().map(drop)
    }

    /// The file of a subject's key.
    fn file(&self, subject: &str) -> Result<PathBuf, FolderError> {
        let no_digest = || KeyError::Length { length: self.wrapping.bytes().len() };
        let digest = self.wrapping.digest(subject.as_bytes()).ok_or_else(no_digest)?;
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.path.join(format!("{name}.{KEY}")))
    }

    /// A new file with this content, durable, under a name that nobody else uses.
    fn draft(&self, content: &[u8]) -> Result<PathBuf, FolderError> {
        let name: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let draft = self.path.join(format!("{name}.draft"));
        let written = File::create_new(&draft).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.map_err(io_error("write", &draft))?;
        Ok(draft)
    }

    /// Makes the names in the folder durable.
    fn sync(&self) -> Result<(), FolderError> {
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(io_error("sync", &self.path))
    }

    fn is_kept(&self, file: &Path) -> bool {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner).contains(file)
    }

    /// Makes the name of a file durable that somebody else may just have made, once.
    fn keep(&self, file: PathBuf) -> Result<(), FolderError> {
        if self.is_kept(&file) {
            return Ok(());
        }
        self.sync()?;
        self.durable.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        Ok(())
    }

    fn read(&self, subject: &str) -> Result<SubjectKey, FolderError> {
        let file = self.file(subject)?;
        let Some(content) = content_of(&file)? else { return Ok(SubjectKey::Unknown) };
        if is_destroyed(&content) {
            return Ok(SubjectKey::Destroyed);
        }
        let key = self.wrapping.decrypt(&content, subject.as_bytes());
        let key = key.and_then(|key| SecretKey::from_slice(&zeroize::Zeroizing::new(key)).ok());
        key.map(SubjectKey::Known).ok_or(FolderError::Altered { path: file })
    }

    fn make(&self, subject: &str) -> Result<SubjectKey, FolderError> {
        self.is_own()?;
        let file = self.file(subject)?;
        let key = SecretKey::generate()?;
        let draft = self.draft(&self.wrapping.encrypt(key.bytes(), subject.as_bytes())?)?;
        // Only if there is none: of two processes that make it, both read the one that came first.
        let linked = fs::hard_link(&draft, &file);
        let _left_behind = fs::remove_file(&draft);
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("make", &file)(error)),
        }
        self.keep(file)?;
        self.read(subject)
    }

    /// The key of `subject`, as it will be after a power cut, too: who made it may not have come to that yet.
    fn read_or_make(&self, subject: &str) -> Result<SubjectKey, FolderError> {
        match self.read(subject)? {
            SubjectKey::Unknown => self.make(subject),
            found @ SubjectKey::Known(_) => {
                let file = self.file(subject)?;
                // A key that was read proves the wrapping key, in a folder that does not say of which it is.
                if !self.is_kept(&file) && !self.is_checked()? {
                    self.write_check()?;
                }
                self.keep(file).map(|()| found)
            }
            SubjectKey::Destroyed => Ok(SubjectKey::Destroyed),
        }
    }
}

impl SubjectKeys for SubjectKeyFolder {
    fn find(&self, subject: &str) -> Result<SubjectKey, String> {
        self.read(subject).map_err(|error| error.to_string())
    }

    fn find_or_make(&self, subject: &str) -> Result<SubjectKey, String> {
        self.read_or_make(subject).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn known(found: Result<SubjectKey, String>) -> Option<String> {
        match found.unwrap() {
            SubjectKey::Known(key) => Some(key.to_base64()),
            SubjectKey::Destroyed | SubjectKey::Unknown => None,
        }
    }

    #[test]
    fn a_key_is_the_same_for_all_until_it_is_destroyed_for_all() {
        let home = tempfile::tempdir().unwrap();
        let wrapping = SecretKey::generate().unwrap();
        let open = || SubjectKeyFolder::open(home.path().join("keys"), wrapping.clone()).unwrap();
        let (one, other) = (open(), open());
        assert!(matches!(one.find("ann"), Ok(SubjectKey::Unknown)));
        let key = known(one.find_or_make("ann")).unwrap();
        assert_eq!(known(other.find_or_make("ann")), Some(key.clone()));
        assert_ne!(known(other.find_or_make("bob")), Some(key));
        let texts = || fs::read_dir(home.path().join("keys")).unwrap().map(|file| file.unwrap().path());
        assert_eq!(texts().count(), 3, "two keys and the check: no drafts stay behind");
        assert!(texts().all(|file| !file.to_string_lossy().contains("ann")));
        other.destroy("ann").unwrap();
        other.destroy("never seen").unwrap();
        for subject in ["ann", "never seen"] {
            assert!(matches!(one.find(subject), Ok(SubjectKey::Destroyed)));
            assert!(matches!(one.find_or_make(subject), Ok(SubjectKey::Destroyed)));
        }
        assert!(known(one.find("bob")).is_some());
    }

    #[test]
    fn a_key_that_another_process_made_is_made_durable_before_it_is_used() {
        let home = tempfile::tempdir().unwrap();
        let wrapping = SecretKey::generate().unwrap();
        let open = || SubjectKeyFolder::open(home.path(), wrapping.clone()).unwrap();
        let (maker, other) = (open(), open());
        maker.find_or_make("ann").unwrap();
        other.find("ann").unwrap();
        assert!(other.durable.lock().unwrap().is_empty(), "what only reads writes nothing");
        other.find_or_make("ann").unwrap();
        assert!(other.durable.lock().unwrap().contains(&other.file("ann").unwrap()));
    }

    #[test]
    fn many_that_make_a_key_at_once_get_one() {
        let home = tempfile::tempdir().unwrap();
        let folder = SubjectKeyFolder::open(home.path(), SecretKey::generate().unwrap()).unwrap();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let folder = folder.clone();
                std::thread::spawn(move || known(folder.find_or_make("ann")).unwrap())
            })
            .collect();
        let keys: std::collections::BTreeSet<_> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn a_file_that_was_altered_or_moved_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let folder = SubjectKeyFolder::open(home.path(), SecretKey::generate().unwrap()).unwrap();
        folder.find_or_make("ann").unwrap();
        fs::copy(folder.file("ann").unwrap(), folder.file("bob").unwrap()).unwrap();
        assert!(folder.find("bob").unwrap_err().contains("holds no key"));
        let other = SubjectKeyFolder { wrapping: SecretKey::generate().unwrap(), ..folder.clone() };
        assert!(matches!(other.find("ann"), Ok(SubjectKey::Unknown)));
        for (content, is_destroyed) in [(&[0; 73][..], true), (b"", false), (b"x", false)] {
            fs::write(folder.file("ann").unwrap(), content).unwrap();
            assert_eq!(matches!(folder.find("ann"), Ok(SubjectKey::Destroyed)), is_destroyed);
            assert_eq!(folder.find_or_make("ann").is_err(), !is_destroyed);
        }
    }

    #[test]
    fn a_folder_of_another_wrapping_key_is_refused_and_gets_no_keys() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("keys");
        let (own, wrong) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let missing = SubjectKeyFolder::open_existing(&path, own.clone());
        assert!(matches!(missing, Err(FolderError::Io { .. })), "{missing:?}");
        assert!(!path.exists(), "it makes no folder");
        fs::create_dir(&path).unwrap();
        let empty = SubjectKeyFolder::open_existing(&path, own.clone());
        assert!(matches!(empty, Err(FolderError::NoKeys { .. })), "{empty:?}");
        let folder = SubjectKeyFolder::open(&path, own.clone()).unwrap();
        let key = known(folder.find_or_make("ann"));
        type Open = fn(PathBuf, SecretKey) -> Result<SubjectKeyFolder, FolderError>;
        let opens: [Open; 2] = [SubjectKeyFolder::open, SubjectKeyFolder::open_existing];
        for open in opens {
            let refused = open(path.clone(), wrong.clone());
            assert!(matches!(refused, Err(FolderError::OtherKey { .. })), "{refused:?}");
            assert_eq!(known(open(path.clone(), own.clone()).unwrap().find("ann")), key);
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
        // The folder goes away under a program that has it open.
        fs::rename(&path, home.path().join("unmounted")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(folder.find_or_make("bob").unwrap_err().contains("mounted"));
        for subject in ["ann", "never seen"] {
            let destroyed = folder.destroy(subject);
            assert!(matches!(destroyed, Err(FolderError::NoKeys { .. })), "{destroyed:?}");
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        // What an older build left behind there is no sign of the folder.
        for left in [DESTROYED, &[0; 73]] {
            fs::write(folder.file("ann").unwrap(), left).unwrap();
            assert!(folder.find_or_make("bob").unwrap_err().contains("mounted"));
        }
        // Another folder is there.
        fs::remove_dir_all(&path).unwrap();
        SubjectKeyFolder::open(&path, wrong).unwrap();
        let destroyed = folder.destroy("ann");
        assert!(matches!(destroyed, Err(FolderError::OtherKey { .. })), "{destroyed:?}");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        fs::remove_dir_all(&path).unwrap();
        fs::rename(home.path().join("unmounted"), &path).unwrap();
        assert_eq!(known(folder.find("ann")), key);
        folder.destroy("ann").unwrap();
        assert!(matches!(folder.find("ann"), Ok(SubjectKey::Destroyed)));
    }

    #[test]
    fn a_folder_of_an_older_build_destroys_only_what_proves_the_wrapping_key() {
        let home = tempfile::tempdir().unwrap();
        let (own, wrong) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let open = |key: &SecretKey| SubjectKeyFolder::open(home.path(), key.clone()).unwrap();
        for subject in ["ann", "bob"] {
            open(&own).find_or_make(subject).unwrap();
        }
        fs::remove_file(home.path().join(CHECK)).unwrap();
        for (key, subject) in [(&wrong, "ann"), (&wrong, "never seen"), (&own, "never seen")] {
            let destroyed = open(key).destroy(subject);
            assert!(matches!(destroyed, Err(FolderError::Unproven { .. })), "{destroyed:?}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
        let folder = open(&own);
        for _again in 0..2 {
            folder.destroy("ann").unwrap();
            assert!(matches!(folder.find("ann"), Ok(SubjectKey::Destroyed)));
        }
        folder.destroy("never seen").unwrap();
        assert!(known(folder.find("bob")).is_some());
        assert!(home.path().join(CHECK).exists());
    }

    #[test]
    fn a_folder_of_an_older_build_says_whose_it_is_once_a_key_was_read() {
        let home = tempfile::tempdir().unwrap();
        let (own, wrong) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let open = |key: &SecretKey| SubjectKeyFolder::open(home.path(), key.clone());
        open(&own).unwrap().find_or_make("ann").unwrap();
        fs::remove_file(home.path().join(CHECK)).unwrap();
        // Nobody can say, and nothing is said.
        open(&wrong).unwrap();
        assert!(!home.path().join(CHECK).exists());
        open(&own).unwrap().find_or_make("ann").unwrap();
        assert!(matches!(open(&wrong), Err(FolderError::OtherKey { .. })));
        open(&own).unwrap();
    }
}

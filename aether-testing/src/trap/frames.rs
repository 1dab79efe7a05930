//! Where a forbidden call came from: the frames between libc and the run, and which of them excuse the call.
//!
//! Promise: taking a backtrace in an override of libc takes no lock of the standard library's own backtraces, so it
//! cannot wait for itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;

use backtrace::{resolve, trace};

/// Crates of logging, and of backtraces: they read the clock and files, and nothing of it comes back to the workflow.
const EXCUSED: [&str; 7] = [
    "tracing_core",
    "tracing_subscriber",
    "tracing_log",
    "tracing_appender",
    "env_logger",
    "log",
    "backtrace",
];

/// Where the engine polls workflow code; what stands below is the engine's own.
const BOTTOM: (&str, &str) =
    ("aether_core::workflow::gate::WorkflowCode", "aether-core/src/workflow/gate.rs");

/// Where the overrides are.
const OVERRIDES: &str = "aether-testing/src/trap/overrides.rs";

thread_local! {
    /// What was found out about an address.
    static NAMED: RefCell<BTreeMap<usize, Named>> = const { RefCell::new(BTreeMap::new()) };
}

/// The functions at one address, innermost first; several where the compiler inlined.
#[derive(Clone, Debug, Default)]
struct Named {
    frames: Vec<Frame>,
}

#[derive(Clone, Debug)]
struct Frame {
    name: String,
    place: Option<String>,
}

impl Frame {
    fn is_bottom(&self) -> bool {
        self.name.contains(BOTTOM.0) || self.is_in(BOTTOM.1)
    }

    /// Whether its source is in a file of this path. The names of generic functions do not always tell their module.
    fn is_in(&self, path: &str) -> bool {
        self.place.as_ref().is_some_and(|place| place.contains(path))
    }

    /// Whether it belongs to this crate.
    fn is_of(&self, package: &str) -> bool {
        let name = self.name.trim_start_matches(['<', '&']);
        let inside = name.strip_prefix(package).is_some_and(|rest| rest.starts_with("::"));
        // The directory of a package: its name, and its version.
        let version = |place: &str| {
            let folder = format!("/{}-", package.replace('_', "-"));
            place
                .match_indices(&folder)
                .any(|(at, _)| place[at + folder.len()..].starts_with(|next: char| next.is_ascii_digit()))
        };
        inside || self.place.as_deref().is_some_and(version)
    }
}

/// The frames of a call, innermost first.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(Vec<Frame>);

impl Frames {
    /// The frames of this thread, from the caller of `function` to the workflow's own.
    pub(super) fn above(function: &str) -> Self {
        let mut addresses = Vec::with_capacity(64);
        trace(|frame| {
            addresses.push(frame.ip());
            addresses.len() < 512
        });
        let mut frames = Vec::new();
        for address in addresses {
            let named = name(address);
            let bottom = named.frames.iter().position(Frame::is_bottom);
            let until = bottom.unwrap_or(named.frames.len());
            frames.extend(named.frames.into_iter().take(until));
            if bottom.is_some() {
                break;
            }
        }
        let own = frames.iter().rposition(|frame| frame.name == function || frame.is_in(OVERRIDES));
        Self(frames.split_off(own.map_or(0, |last| last + 1)))
    }

    /// Whether logging, a backtrace, or a frame named by the test made the call.
    pub(super) fn excused(&self, by_test: &[String]) -> bool {
        self.0.iter().any(|frame| {
            EXCUSED.iter().any(|excused| frame.is_of(excused))
                || holds(&frame.name, "std::backtrace::")
                || frame.is_in("library/std/src/backtrace")
                || by_test.iter().any(|excused| frame.name.contains(excused.as_str()) || frame.is_in(excused))
        })
    }

    /// One line a frame; the standard library's own are left out where others tell enough.
    pub(super) fn lines(&self) -> Vec<String> {
        let shown = self.0.iter().filter(|frame| !is_plumbing(&frame.name));
        shown
            .map(|frame| match &frame.place {
                Some(place) => format!("{} at {place}", frame.name),
                None => frame.name.clone(),
            })
            .collect()
    }
}

/// Whether `name` begins with `path`, also as `<path…` of a method.
fn holds(name: &str, path: &str) -> bool {
    name.trim_start_matches(['<', '&']).starts_with(path)
}

fn is_plumbing(name: &str) -> bool {
    ["core::ops::function", "core::pin", "core::future", "core::result", "__rust", "std::sys::backtrace"]
        .iter()
        .any(|path| holds(name, path))
}

fn name(address: *mut c_void) -> Named {
    if let Some(named) = NAMED.with_borrow(|named| named.get(&(address as usize)).cloned()) {
        return named;
    }
    let mut named = Named::default();
    // A frame's address is where the call returns to; the call itself is before it.
    resolve(address.cast::<u8>().wrapping_sub(1).cast(), |symbol| {
        let place = symbol.filename().zip(symbol.lineno());
        named.frames.push(Frame {
            name: symbol.name().map_or_else(|| String::from("?"), |name| format!("{name:#}")),
            place: place.map(|(file, line)| format!("{}:{line}", shortened(&file.to_string_lossy()))),
        });
    });
    NAMED.with_borrow_mut(|all| all.insert(address as usize, named.clone()));
    named
}

/// The path of a source file, without the commit of the compiler where it is the standard library's.
fn shortened(path: &str) -> &str {
    path.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/')).map_or(path, |(_, inside)| inside)
}

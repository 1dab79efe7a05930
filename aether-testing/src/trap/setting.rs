//! What a test says about the trap: whether it ends the simulation, warns or is off, and what it lets pass.
//!
//! Promise: a setting is data; the watch of a thread applies it.

/// What a simulation does when workflow code calls libc for something that replay would not reproduce.
///
/// ```
/// # use aether::prelude::*;
/// use aether_testing::{Sim, SimError, Trap, TrapKind};
///
/// /// Reads the clock, out of sight of the macro.
/// fn seconds() -> u64 {
///     std::time::SystemTime::now().elapsed().map_or(0, |passed| passed.as_secs())
/// }
///
/// #[workflow]
/// async fn dated(cx: &mut Cx) -> Result<u64> {
///     Ok(seconds())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # if cfg!(not(all(feature = "trap", target_os = "linux", target_env = "gnu"))) { return }
/// let sim = Sim::new::<dated>();
/// let error = sim.try_run(()).await.unwrap_err();
/// assert!(matches!(error, SimError::Trapped(hit) if hit.kind == TrapKind::Clock));
///
/// let report = sim.trap(Trap::warn()).run(()).await;
/// assert_eq!(report.trapped[0].kind, TrapKind::Clock);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    mode: Mode,
    allowed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Strict,
    Warn,
    Off,
}

impl Default for Trap {
    fn default() -> Self {
        Self::strict()
    }
}

impl Trap {
    /// The first such call ends the simulation with [`SimError::Trapped`](crate::SimError::Trapped).
    pub fn strict() -> Self {
        Self { mode: Mode::Strict, allowed: Vec::new() }
    }

    /// Such calls are printed as warnings, and listed in [`SimReport::trapped`](crate::SimReport::trapped).
    pub fn warn() -> Self {
        Self { mode: Mode::Warn, allowed: Vec::new() }
    }

    /// Such calls pass unseen.
    pub fn off() -> Self {
        Self { mode: Mode::Off, allowed: Vec::new() }
    }

    /// Lets calls pass that come through a function whose path, or source file, holds `frame`, for example
    /// `src/metrics.rs`: for code of which nothing comes back to the workflow. Logging through `tracing` and `log`
    /// passes anyway. Functions have names only in programs that are not stripped; with debug information those of
    /// generic ones may lack their modules, while files are known.
    pub fn allow(mut self, frame: impl Into<String>) -> Self {
        self.allowed.push(frame.into());
        self
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.mode == Mode::Strict
    }

    pub(crate) fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    pub(crate) fn allowed(&self) -> &[String] {
        &self.allowed
    }
}

//! Cassettes: HTTP and model traffic, recorded once against real endpoints and played back without them.
//!
//! Promise: a played-back call reaches no network; one that is not on the cassette is refused and told apart from those
//! that are; credentials are not on it; the file is always whole, and a damaged one is an error that leaves it alone.
//!
//! A cassette lies below `cx.http()` and `cx.llm(..)`: workflows, journals and retries are the same with and without.
//!
//! ```
//! use aether_effects::cassette::{Cassette, Mode};
//! use aether_effects::http::HttpClient;
//! # fn open(folder: &std::path::Path, model: aether_effects::llm::OpenAiClient) -> Result<(), Box<dyn std::error::Error>> {
//! let cassette = Cassette::open(folder.join("weather.json"), Mode::Auto)?;
//! let http = HttpClient::builder().cassette(&cassette).build()?; // for `.provide(http)`
//! let model = cassette.model(model); // for `.model(model)`
//! # Ok(())
//! # }
//! ```

pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod interaction;
pub(crate) mod mode;
pub(crate) mod model;
pub(crate) mod nearest;
pub(crate) mod player;

pub use error::CassetteError;
pub use mode::Mode;
pub use model::CassetteModel;
pub use player::Cassette;

//! The files that pages load, all inside the program.
//!
//! Promise: nothing is read from a disk, and a name that is not in the list is not found.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const FILES: [(&str, &str, &[u8]); 8] = [
    ("console.css", "text/css; charset=utf-8", include_bytes!("../assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_bytes!("../assets/console.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_bytes!("../assets/htmx.min.js")),
    ("htmx-sse.min.js", "text/javascript; charset=utf-8", include_bytes!("../assets/htmx-sse.min.js")),
    ("login.js", "text/javascript; charset=utf-8", include_bytes!("../assets/login.js")),
    ("inter.woff2", "font/woff2", include_bytes!("../assets/inter.woff2")),
    ("jetbrains-mono.woff2", "font/woff2", include_bytes!("../assets/jetbrains-mono.woff2")),
    ("mark.svg", "image/svg+xml", include_bytes!("../assets/mark.svg")),
];

/// One of them.
pub(crate) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, bytes)) => {
            let headers = [(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "max-age=3600")];
            (headers, *bytes).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
    }
}

/// What changes when the files do: a browser then loads them again.
pub(crate) fn version() -> &'static str {
    use std::sync::OnceLock;
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        use sha2::{Digest as _, Sha256};
        let mut hash = Sha256::new();
        FILES.iter().for_each(|(_, _, bytes)| hash.update(bytes));
        hash.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect()
    })
}

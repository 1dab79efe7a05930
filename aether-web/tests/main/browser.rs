//! Chromium, driven over WebDriver. `scripts/test` installs it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A driver with one browser.
pub(crate) struct Browser {
    pub(crate) page: Client,
    driver: Child,
    /// Where the driver is asked.
    port: u16,
    _profile: TempDir,
}

/// A driver that is killed leaves its browser behind, so it is asked to end both.
impl Drop for Browser {
    fn drop(&mut self) {
        let begun = Instant::now();
        let _asked = self.shut_down();
        while begun.elapsed() < PATIENCE && matches!(self.driver.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _gone = self.driver.kill();
        let _reaped = self.driver.wait();
    }
}

/// How long a driver may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

impl Browser {
    pub(crate) async fn open(width: u32, dark: bool) -> Self {
        Self::open_with(width, dark, true).await
    }

    pub(crate) async fn open_with(width: u32, dark: bool, script: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(
                "these tests need the packages chromium and chromium-driver, which scripts/test installs",
            );
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("chromedriver says its port").unwrap();
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').parse().unwrap();
            }
        };
        // What it says later is read, so that it never waits for that.
        std::thread::spawn(move || lines.for_each(drop));
        let mut args = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            "--no-first-run".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            "--disable-dev-shm-usage".into(),
            "--hide-scrollbars".into(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if dark {
            args.push("--blink-settings=preferredColorScheme=0".into());
        }
        let mut options = json!({ "args": args });
        if !script {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        let capabilities = json!({ "browserName": "chrome", "goog:chromeOptions": options });
        let Value::Object(capabilities) = capabilities else { panic!("capabilities are an object") };
        let page = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let browser = Self { page, driver, port, _profile: profile };
        browser.resize(width, 900).await;
        browser
            .call(
                "Emulation.setEmulatedMedia",
                json!({ "features": [
            { "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] }),
            )
            .await;
        browser
    }

    fn shut_down(&self) -> std::io::Result<()> {
        let mut driver = TcpStream::connect(("127.0.0.1", self.port))?;
        driver.set_read_timeout(Some(PATIENCE))?;
        driver.write_all(b"GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        driver.read_to_end(&mut Vec::new()).map(drop)
    }

    /// A window is never narrower than 500 pixels; a page can be.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// A command of the DevTools protocol.
    pub(crate) async fn call(&self, command: &str, params: Value) -> Value {
        self.page.issue_cmd(DevTools { command: command.to_owned(), params }).await.unwrap()
    }

    /// The whole page as a picture.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        use base64::Engine as _;
        let size = self
            .page
            .execute(
                "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]",
                vec![],
            )
            .await
            .unwrap();
        let (width, height) = (size[0].as_u64().unwrap(), size[1].as_u64().unwrap().min(2_400));
        self.resize(width as u32, (height as u32).max(844)).await;
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }
}

#[derive(Debug)]
struct DevTools {
    command: String,
    params: Value,
}

impl fantoccini::wd::WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _url: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({ "cmd": self.command, "params": self.params });
        (http::Method::POST, Some(body.to_string()))
    }
}

//! A real browser: Chromium with its WebDriver, as Debian packs them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use needs::{Need, lacks};
use serde_json::{Value, json};
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::error::{WebDriverErrorInner, WebDriverResult};
use thirtyfour::{By, CapabilitiesHelper, DesiredCapabilities, WebDriver};
use tokio::runtime::Runtime;

/// Times that an element is looked for again.
const STALE_MAX: u32 = 5;
/// How long the driver may take to start, and a page to become as it should be. Generous: clusters share the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Chromium without what needs a desktop, a network or a sandbox of the kernel.
const ARGUMENTS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
];

/// A browser with one window; ended when dropped.
pub(super) struct Browser {
    runtime: Runtime,
    driver: Option<WebDriver>,
    /// Dropped last: it is asked to end the browser before.
    _process: Process,
}

/// The driver's process; ended when dropped, with the browser that it started.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Browser {
    /// Starts one; `None` where there is none, which is told.
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = match command.spawn() {
            Ok(process) => Process(process),
            Err(error) => {
                lacks(Need::Browser, format_args!("chromedriver: {error}"));
                return None;
            }
        };
        let address = format!("http://127.0.0.1:{}", port(&mut process.0));
        let runtime = Runtime::new().unwrap();
        let driver = runtime.block_on(connect(&address)).expect("Chromium starts");
        Some(Browser { runtime, driver: Some(driver), _process: process })
    }

    fn run<T>(
        &self,
        act: impl AsyncFnOnce(&WebDriver) -> WebDriverResult<T>,
    ) -> WebDriverResult<T> {
        let driver = self.driver.as_ref().expect("it is taken only when dropped");
        self.runtime.block_on(act(driver))
    }

    /// Opens a page and waits until it is loaded.
    pub(super) fn open(&self, url: &str) {
        self.run(async |driver| driver.goto(url).await).unwrap();
    }

    /// What a script returns.
    pub(super) fn script(&self, script: &str) -> Value {
        let run =
            async |driver: &WebDriver| Ok(driver.execute(script, Vec::new()).await?.json().clone());
        self.run(run).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The cookies of the page that is open, as a request carries them.
    pub(super) fn cookies(&self) -> String {
        let cookies = self.run(async |driver| driver.get_all_cookies().await).unwrap();
        let pairs = cookies.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value));
        pairs.collect::<Vec<_>>().join("; ")
    }

    /// The text of the page as people read it.
    pub(super) fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.script(&format!("return Boolean({expression})")) != true {
            assert!(Instant::now() < deadline, "not in time: {what}\n{}", self.text());
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub(super) fn wait_text(&self, text: &str) {
        self.wait(text, &format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Clicks like a mouse: only on what is to be seen.
    #[track_caller]
    pub(super) fn click(&self, css: &str) {
        let click = || self.run(async |driver| driver.find(By::Css(css)).await?.click().await);
        let mut clicked = click();
        // A page that is drawn anew may take the element away just before it is clicked.
        for _ in 0..STALE_MAX {
            let Err(error) = &clicked else { return };
            if !matches!(**error, WebDriverErrorInner::StaleElementReference(_)) {
                break;
            }
            clicked = click();
        }
        clicked.unwrap_or_else(|error| panic!("click {css}: {error}"));
    }

    /// Clicks a button that asks before it destroys something, and says yes.
    #[track_caller]
    pub(super) fn confirm(&self, css: &str, question: &str) {
        self.click(css);
        self.wait_text(question);
        self.click("dialog button.danger");
    }

    /// Types into a field; of one for files, the path.
    #[track_caller]
    pub(super) fn type_into(&self, css: &str, text: &str) {
        self.run(async |driver| driver.find(By::Css(css)).await?.send_keys(text).await)
            .unwrap_or_else(|error| panic!("type into {css}: {error}"));
    }

    /// Size of the window, and whether the system is dark.
    pub(super) fn appear(&self, (width, height): (u32, u32), dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.run(async |driver| {
            let cdp = driver.cdp();
            cdp.send_raw("Emulation.setDeviceMetricsOverride", size).await?;
            cdp.send_raw("Emulation.setEmulatedMedia", media).await.map(drop)
        })
        .unwrap();
    }

    /// Sends no faster than so many bytes a second; -1 for as fast as it can.
    pub(super) fn send_at(&self, rate: i64) {
        let speed = json!({ "offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": rate });
        self.run(async |driver| {
            let cdp = driver.cdp();
            cdp.send_raw("Network.enable", json!({})).await?;
            cdp.send_raw("Network.emulateNetworkConditions", speed).await.map(drop)
        })
        .unwrap();
    }

    /// What is in the window, as a PNG.
    pub(super) fn screenshot(&self) -> Vec<u8> {
        self.run(async |driver| driver.screenshot_as_png().await).unwrap()
    }

    /// What the browser had to complain about since the last time: errors of scripts, refusals of the content policy, failed loads.
    pub(super) fn complaints(&self) -> Vec<String> {
        let log = self.run(async |driver| driver.browser_log().await).unwrap();
        log.iter().map(|entry| format!("{entry:?}")).collect()
    }

    /// Nothing to complain about, and no dialog: an open one would have failed the commands before.
    #[track_caller]
    pub(super) fn assert_quiet(&self, place: &str) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{place}: {complaints:#?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            let _ = self.runtime.block_on(driver.quit());
        }
    }
}

/// The port that the driver says it listens on.
fn port(process: &mut Child) -> u16 {
    let stdout = process.stdout.take().expect("it is piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let port = line.rsplit_once("on port ").map(|(_, rest)| rest.trim_end_matches('.'));
            let port: Option<u16> = port.and_then(|port| port.parse().ok());
            if let Some(port) = port.filter(|port| *port > 0) {
                let _ = sender.send(port);
            }
        }
    });
    receiver.recv_timeout(PATIENCE).expect("the driver names its port")
}

async fn connect(address: &str) -> WebDriverResult<WebDriver> {
    let mut capabilities = DesiredCapabilities::chrome();
    for argument in ARGUMENTS {
        capabilities.add_arg(argument)?;
    }
    capabilities.set("goog:loggingPrefs", json!({ "browser": "WARNING" }))?;
    // A dialog that a page raises makes the next command fail.
    capabilities.set("unhandledPromptBehavior", "ignore")?;
    // The driver is called without encryption, but its client wants to know how it would encrypt; another test may have said so already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    WebDriver::new(address, capabilities).await
}

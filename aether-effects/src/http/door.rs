//! `cx.http()`: where requests start, in workflows and in step bodies.

use aether_core::step::StepCx;
use aether_core::workflow::Cx;
use reqwest::Method;

use super::draft::Draft;
use super::request::HttpRequest;

/// Where requests start: `cx.http()`.
#[derive(Debug)]
pub struct Door<C>(C);

impl<C> Door<C> {
    /// Begins a `GET` request. In a workflow it is a read, retried by itself.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://api.example.com/users/7").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::GET, url.as_ref())
    }

    /// Begins a `HEAD` request: a `GET` whose answer has no body.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().head("https://api.example.com/users/7").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn head(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::HEAD, url.as_ref())
    }

    /// Begins an `OPTIONS` request. In a workflow it is a read, retried by itself.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().options("https://api.example.com/users").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn options(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::OPTIONS, url.as_ref())
    }

    /// Begins a `POST` request. In a workflow its intent is durable before it is sent.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().post("https://api.example.com/users").json(&["Ada"]).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn post(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::POST, url.as_ref())
    }

    /// Begins a `PUT` request. In a workflow its intent is durable before it is sent.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().put("https://api.example.com/users/7").json(&["Ada"]).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::PUT, url.as_ref())
    }

    /// Begins a `PATCH` request. In a workflow its intent is durable before it is sent.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().patch("https://api.example.com/users/7").json(&["Ada"]).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn patch(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::PATCH, url.as_ref())
    }

    /// Begins a `DELETE` request. In a workflow its intent is durable before it is sent.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().delete("https://api.example.com/users/7").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::DELETE, url.as_ref())
    }

    fn request(self, method: Method, url: &str) -> HttpRequest<C> {
        HttpRequest::new(self.0, Draft::new(method, url))
    }
}

/// `cx.http()` in workflows.
pub trait CxHttp {
    /// Begins a recorded request.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let user = cx.http().get("https://api.example.com/users/7").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn http(&mut self) -> Door<&mut Cx>;
}

impl CxHttp for Cx {
    fn http(&mut self) -> Door<&mut Cx> {
        Door(self)
    }
}

/// `cx.http()` in step bodies.
pub trait StepHttp {
    /// Begins a request whose exchange is recorded with the step's outcome.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # use aether_effects::http::StepHttp;
    /// # async fn workflow(cx: &mut StepCx) -> Result<()> {
    /// let user = cx.http().get("https://api.example.com/users/7").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn http(&self) -> Door<StepCx>;
}

impl StepHttp for StepCx {
    fn http(&self) -> Door<StepCx> {
        Door(self.clone())
    }
}

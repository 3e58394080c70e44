//! One row of the HTTP contract: a request, and what must come back.
//!
//! A row is data; `send` performs rows and says what is wrong with the answers. What holds for every answer (JSON with two
//! spaces and a final newline, errors that say their text twice) is checked for every row without being written down.

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// The content type of bodies, asked and answered.
pub(crate) const JSON: &str = "application/json; charset=UTF-8";
const FORM: &str = "application/x-www-form-urlencoded";

/// A request and what must come back.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// A short name of the rule; `Q-nn` is the row of docs/compatibility.md.
    paragraph: &'static str,
    method: Method,
    path: String,
    body: Option<(&'static str, String)>,
    status: u16,
    expects: Vec<Expect>,
    /// The answer may need a moment: asked again until it is right.
    soon: bool,
}

/// Something that must be true of an answer.
#[derive(Debug, Clone)]
enum Expect {
    /// An error with this text.
    Refused(String),
    /// An error whose text begins so.
    RefusedFor(String),
    /// An error of the router itself.
    RefusedByRouter(&'static str),
    /// This document, apart from the id of an operation.
    Document(Value),
    /// An object with exactly these keys; none of the values counts.
    Keys(Vec<&'static str>),
    /// This value at this JSON pointer.
    Holds(&'static str, Value),
    /// Exactly this text of this content type.
    Text(&'static str, String),
    /// Nothing.
    Nothing,
    /// A header.
    Header(&'static str, String),
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) text: String,
}

/// A row: paragraph, and method and path as one text.
pub(crate) fn ask(paragraph: &'static str, request: impl Into<String>) -> Row {
    let request = request.into();
    let (method, path) = request.split_once(' ').expect("a method and a path");
    Row {
        paragraph,
        method: method.parse().expect("a method"),
        path: path.to_owned(),
        body: None,
        status: 200,
        expects: Vec::new(),
        soon: false,
    }
}

/// Sends the rows in order, row k to apiserver k modulo their number, and returns what is wrong with the answers. An answer
/// that the contract gives time may become right within `patience`. After ten wrong answers the others would say no more.
pub(crate) async fn send(rows: &[Row], apiservers: &[&str], patience: Duration) -> Vec<String> {
    let client = fabric::http::client(Duration::from_secs(10));
    let mut wrong = Vec::new();
    for (row, base) in rows.iter().zip(apiservers.iter().cycle()) {
        if wrong.len() == 10 {
            break;
        }
        let (seen, result) = row.answer(&client, base, patience).await;
        if let Err(why) = result {
            let title = format!("[{}] {} {} through {base}", row.paragraph, row.method, row.path);
            wrong.push(format!("{title}:\n{why}\n{} {}", seen.status, seen.text));
        }
    }
    wrong
}

impl Row {
    pub(crate) fn body(self, body: impl ToString) -> Self {
        self.typed(JSON, body)
    }
    pub(crate) fn form(self, body: impl ToString) -> Self {
        self.typed(FORM, body)
    }
    #[allow(clippy::needless_pass_by_value, reason = "tables read better without ampersands")]
    pub(crate) fn typed(mut self, content_type: &'static str, body: impl ToString) -> Self {
        self.body = Some((content_type, body.to_string()));
        self
    }
    pub(crate) fn soon(mut self) -> Self {
        self.soon = true;
        self
    }
    fn with(mut self, status: u16, expect: Expect) -> Self {
        self.status = status;
        self.expects.push(expect);
        self
    }
    pub(crate) fn refused(self, status: u16, message: impl Into<String>) -> Self {
        self.with(status, Expect::Refused(message.into()))
    }
    pub(crate) fn refused_for(self, status: u16, begins: impl Into<String>) -> Self {
        self.with(status, Expect::RefusedFor(begins.into()))
    }
    pub(crate) fn refused_by_router(self, status: u16, message: &'static str) -> Self {
        self.with(status, Expect::RefusedByRouter(message))
    }
    /// 202 with the usual body.
    pub(crate) fn accepted(self, check_url: impl Into<String>, message: &str) -> Self {
        let body = json!({"check_url": check_url.into(), "message": message});
        self.document(202, body)
    }
    pub(crate) fn document(self, status: u16, body: Value) -> Self {
        self.with(status, Expect::Document(body))
    }
    pub(crate) fn keys(self, status: u16, keys: &[&'static str]) -> Self {
        self.with(status, Expect::Keys(keys.to_vec()))
    }
    pub(crate) fn holds(self, status: u16, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.with(status, Expect::Holds(pointer, value.into()))
    }
    pub(crate) fn text(self, status: u16, content_type: &'static str, text: impl Into<String>) -> Self {
        self.with(status, Expect::Text(content_type, text.into()))
    }
    pub(crate) fn nothing(self, status: u16) -> Self {
        self.with(status, Expect::Nothing)
    }
    pub(crate) fn header(self, status: u16, name: &'static str, value: impl Into<String>) -> Self {
        self.with(status, Expect::Header(name, value.into()))
    }

    fn request(&self, client: &reqwest::Client, base: &str) -> RequestBuilder {
        let request = client.request(self.method.clone(), format!("{base}{}", self.path));
        match &self.body {
            Some((content_type, body)) => request.header(CONTENT_TYPE, *content_type).body(body.clone()),
            None => request,
        }
    }

    async fn answer(&self, client: &reqwest::Client, base: &str, patience: Duration) -> (Seen, Result<(), String>) {
        let deadline = Instant::now() + if self.soon { patience } else { Duration::ZERO };
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        loop {
            pause.tick().await;
            let seen = Seen::of(self.request(client, base)).await;
            let result = self.judge(&seen);
            if result.is_ok() || Instant::now() >= deadline {
                return (seen, result);
            }
        }
    }

    /// What is wrong with an answer to this row.
    fn judge(&self, seen: &Seen) -> Result<(), String> {
        if seen.status != self.status {
            return Err(format!("status {} instead of {}", seen.status, self.status));
        }
        if self.method != Method::HEAD {
            seen.is_encoded_right()?;
        }
        self.expects.iter().try_for_each(|expect| expect.judge(seen))
    }
}

impl Expect {
    fn judge(&self, seen: &Seen) -> Result<(), String> {
        let says = |message: &str, data: &str| seen.is(&json!({"message": message, "data": data}));
        match self {
            Self::Refused(message) => says(message, message),
            Self::RefusedByRouter(message) => says(message, ""),
            Self::RefusedFor(begins) => {
                let message = seen.json()?["message"].as_str().unwrap_or_default().to_owned();
                if message.starts_with(begins) {
                    says(&message, &message)
                } else {
                    Err(format!("does not begin {begins:?}"))
                }
            }
            Self::Document(body) => seen.is(body),
            Self::Keys(keys) => same_keys(&seen.json()?, keys),
            Self::Holds(pointer, value) => equal(&seen.json()?.pointer(pointer), &Some(value)),
            Self::Text(content_type, text) => {
                equal(&(seen.header("content-type"), seen.text.as_str()), &(*content_type, text.as_str()))
            }
            Self::Nothing => equal(&seen.text.as_str(), &""),
            Self::Header(name, value) => equal(&seen.header(name), &value.as_str()),
        }
    }
}

impl Seen {
    /// Sends the request and reads the answer.
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.timeout(Duration::from_secs(10)).send().await.expect("an answer, as clients wait 10 s");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, text: response.text().await.expect("a body") }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text).map_err(|error| format!("no JSON: {error}"))
    }

    /// Equal to `body`, whatever the id of the operation.
    fn is(&self, body: &Value) -> Result<(), String> {
        let mut seen = self.json()?;
        if self.status == 202
            && let Some(object) = seen.as_object_mut()
        {
            object.remove("operation");
        }
        equal(&seen, body)
    }

    /// Rules for every answer: content type, indent, final newline, escaped HTML, members of an error.
    fn is_encoded_right(&self) -> Result<(), String> {
        if self.text.is_empty() || self.header("content-type").starts_with("text/") {
            return Ok(());
        }
        equal(&self.header("content-type"), &JSON)?;
        let body = self.json()?;
        let nested = body.as_object().is_some_and(|o| !o.is_empty()) || body.as_array().is_some_and(|a| !a.is_empty());
        let indented = self.text.lines().nth(1).is_some_and(|line| line.starts_with("  ") && !line.starts_with("   "));
        if !self.text.ends_with('\n') || (nested && !indented) {
            return Err("not two spaces of indent and a final newline".to_owned());
        }
        if self.text.contains(['<', '>', '&']) {
            return Err("<, > or & are not escaped".to_owned());
        }
        let keys: Vec<&String> = body.as_object().into_iter().flatten().map(|(key, _)| key).collect();
        if self.status >= 400 { equal(&keys, &["data", "message"].map(str::to_owned).iter().collect()) } else { Ok(()) }
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(seen: &T, wanted: &T) -> Result<(), String> {
    if seen == wanted { Ok(()) } else { Err(format!("is {seen:?}\ninstead of {wanted:?}")) }
}

fn same_keys(body: &Value, wanted: &[&str]) -> Result<(), String> {
    let object = body.as_object().ok_or("no object")?;
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    equal(&object.keys().map(String::as_str).collect::<Vec<_>>(), &wanted)
}

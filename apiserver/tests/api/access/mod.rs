//! Access control of the API: who gets in, and what each client sees and may change.

mod clients;
mod document;
mod joins;
mod limits;
mod lists;
mod matrix;
mod peers;
mod redaction;
mod requests;
mod tokens;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use contract::access::Principal;
use contract::access::token::{Token, TokenRecord};
use contract::digest::Digest;
use contract::time::Timestamp;
use reqwest::{Client, Method, RequestBuilder};

use crate::bodies::spec_with;
use crate::world::{Seen, World, seen};

/// Later than any test.
const FOREVER: Timestamp = Timestamp::from_millis(4_000_000_000_000);

/// A user with a token.
pub(super) struct Person {
    pub(super) token: Token,
    pub(super) record: TokenRecord,
}

impl Person {
    pub(super) fn new(name: &str, bindings: &[&str]) -> Self {
        let digest = Digest::of_bytes(name.as_bytes()).to_string();
        let bytes: Vec<u8> = digest.bytes().cycle().take(40).collect();
        let token = Token::from_random(&bytes.try_into().unwrap());
        let record = TokenRecord {
            id: token.id.clone(),
            hash: token.proof().hash(),
            principal: name.to_owned(),
            bindings: bindings.iter().map(|text| text.parse().unwrap()).collect(),
            by: "tests".to_owned(),
            created: Timestamp::from_millis(1),
            expires: FOREVER,
        };
        Self { token, record }
    }

    pub(super) fn principal(&self) -> Principal {
        Principal { name: self.record.principal.clone(), bindings: self.record.bindings.clone() }
    }

    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.token.reveal())
    }
}

pub(super) fn records(people: &[&Person]) -> Vec<TokenRecord> {
    people.iter().map(|person| person.record.clone()).collect()
}

/// A client at 127.0.`network`.`host`.
pub(super) fn client_at(network: u8, host: u8) -> Client {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, network, host));
    fabric::http::client_with(Duration::from_secs(20), |builder| builder.local_address(address))
}

pub(super) fn request(client: &Client, method: &str, url: String, body: Option<&str>) -> RequestBuilder {
    let request = client.request(Method::from_bytes(method.as_bytes()).unwrap(), url);
    match body {
        Some(body) => request.header("Content-Type", "application/json").body(body.to_owned()),
        None => request,
    }
}

impl World {
    /// Sends a request with a token.
    pub(super) async fn send(&self, person: &Person, method: &str, path: &str, body: Option<&str>) -> Seen {
        self.send_with(&person.header(), method, path, body).await
    }

    pub(super) async fn send_with(&self, header: &str, method: &str, path: &str, body: Option<&str>) -> Seen {
        let request = request(&self.client, method, self.at(path), body);
        seen(request.header("Authorization", header).send().await.unwrap()).await
    }

    pub(super) async fn read(&self, person: &Person, path: &str) -> Seen {
        self.send(person, "GET", path, None).await
    }

    /// Creates the group NAME in a namespace.
    pub(super) async fn create(&self, person: &Person, namespace: &str, name: &str) {
        let created = self.send(person, "POST", "/api/podgroups", Some(&group(namespace, name))).await;
        assert_eq!(created.status, 202, "{}", created.text);
    }
}

/// A spec with a stream port that depends on the length of the name.
pub(super) fn group(namespace: &str, name: &str) -> String {
    let port = 9_000 + name.len();
    let ports = format!(r#""{{\"ports\":[{{\"srcport\":{port},\"dstport\":1}}]}}""#);
    let named = spec_with("hello.web.web", name);
    named.replace(r#""Namespace":"hello""#, &format!(r#""Namespace":"{namespace}""#)).replace(r#""{}""#, &ports)
}

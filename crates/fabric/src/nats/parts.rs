//! Splits values that exceed NATS' message size, and reassembles them.
//!
//! Every part carries a header `<id> <index> <count>`. The parts of one value come from one connection, so they arrive
//! in order or not at all. A value with a missing part never completes and is dropped when newer ones need the space.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};

use super::{Error, Message};

const PART: &str = "Fabric-Part";
/// Bytes reserved for protocol and headers: the server's limit counts them too.
const HEADER_ROOM: usize = 512;
/// Size limit of a value.
pub(super) const LARGEST: usize = 64 << 20;
/// Limit of incomplete values per subscription; beyond it the oldest is dropped.
const MOST_UNFINISHED: usize = 32;

pub(super) struct Part {
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

/// Splits a payload; a single part without a header when it fits.
pub(super) fn split(subject: &str, payload: Bytes, most: usize) -> Result<Vec<Part>, Error> {
    let room = most.saturating_sub(HEADER_ROOM).max(1);
    if payload.len() > LARGEST {
        return Err(Error::TooLarge { subject: subject.to_owned(), size: payload.len(), limit: LARGEST });
    }
    if payload.len() <= room {
        return Ok(vec![Part { headers: None, payload }]);
    }
    let id = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let count = payload.len().div_ceil(room);
    let part = |index: usize| {
        let mut headers = HeaderMap::new();
        headers.insert(PART, format!("{id:016x} {index} {count}"));
        let end = payload.len().min((index + 1) * room);
        Part { headers: Some(headers), payload: payload.slice(index * room..end) }
    };
    Ok((0..count).map(part).collect())
}

/// Reassembles parts.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    unfinished: VecDeque<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    id: String,
    next: usize,
    count: usize,
    content: BytesMut,
}

impl Assembler {
    /// Returns the message when it is complete.
    pub(super) fn add(&mut self, message: async_nats::Message) -> Option<Message> {
        let Some((id, index, count)) = message.headers.as_ref().and_then(part_of) else {
            return Some(complete(message, None));
        };
        let position = match self.unfinished.iter().position(|value| value.id == id) {
            Some(position) => position,
            None => self.begin(id, count),
        };
        let value = &mut self.unfinished[position];
        let fits =
            index == value.next && count == value.count && value.content.len() + message.payload.len() <= LARGEST;
        if !fits {
            tracing::warn!(subject = %message.subject, index, "a part of a large message is missing, dropping the rest");
            self.unfinished.remove(position);
            return None;
        }
        value.content.extend_from_slice(&message.payload);
        value.next += 1;
        if value.next < value.count {
            return None;
        }
        let content = self.unfinished.remove(position).map(|value| value.content.freeze());
        Some(complete(message, content))
    }

    fn begin(&mut self, id: String, count: usize) -> usize {
        if self.unfinished.len() >= MOST_UNFINISHED {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(Unfinished { id, next: 0, count, content: BytesMut::new() });
        self.unfinished.len() - 1
    }
}

fn complete(message: async_nats::Message, content: Option<Bytes>) -> Message {
    Message {
        subject: message.subject.to_string(),
        reply: message.reply.map(|reply| reply.to_string()),
        payload: content.unwrap_or(message.payload),
        headers: message.headers,
    }
}

fn part_of(headers: &HeaderMap) -> Option<(String, usize, usize)> {
    let mut words = headers.get(PART)?.as_str().split(' ');
    let (id, index, count) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((id.to_owned(), index, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(part: &Part) -> async_nats::Message {
        async_nats::Message {
            subject: "a".into(),
            reply: None,
            payload: part.payload.clone(),
            headers: part.headers.clone(),
            status: None,
            description: None,
            length: part.payload.len(),
        }
    }

    fn cut(payload: &'static [u8]) -> Vec<Part> {
        split("a", Bytes::from_static(payload), HEADER_ROOM + 4).expect("small enough")
    }

    #[test]
    fn a_small_payload_is_one_part_without_a_header() {
        let parts = cut(b"1234");
        assert_eq!(parts.len(), 1);
        assert!(parts[0].headers.is_none());
    }

    #[test]
    fn interleaved_parts_of_two_values_are_reassembled_separately() {
        let (first, second) = (cut(b"123456789"), cut(b"abcdef"));
        let mut assembler = Assembler::default();
        let order = [&first[0], &second[0], &first[1], &second[1], &first[2]];
        let whole: Vec<Bytes> = order.iter().filter_map(|part| assembler.add(sent(part))).map(|m| m.payload).collect();
        assert_eq!(whole, [Bytes::from_static(b"abcdef"), Bytes::from_static(b"123456789")]);
        assert!(assembler.unfinished.is_empty());
    }

    #[test]
    fn a_value_with_a_lost_part_is_dropped() {
        let parts = cut(b"123456789");
        let mut assembler = Assembler::default();
        assert!(assembler.add(sent(&parts[0])).is_none());
        assert!(assembler.add(sent(&parts[2])).is_none());
    }

    #[test]
    fn unfinished_values_are_bounded() {
        let mut assembler = Assembler::default();
        for _ in 0..10 * MOST_UNFINISHED {
            assembler.add(sent(&cut(b"123456789")[0]));
        }
        assert_eq!(assembler.unfinished.len(), MOST_UNFINISHED);
    }
}

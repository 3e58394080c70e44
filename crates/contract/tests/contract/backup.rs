//! Backup files round-trip, and truncated or changed files are refused.

use contract::backup::{self, Backup, Content, Entry, Error, FORMAT, Header, LARGEST_PART, Writer};
use contract::keys;
use contract::record::SCHEMA_VERSION;
use contract::time::Timestamp;

fn header() -> Header {
    Header {
        format: FORMAT,
        schema: SCHEMA_VERSION,
        revision: 4711,
        taken_at: Timestamp::parse("2026-11-16T10:00:00Z").expect("a time"),
        version: "0.1.0".to_owned(),
    }
}

fn entries() -> Vec<Entry> {
    let group = |name: &str| keys::group(&name.parse().expect("a name"));
    vec![
        Entry::new(keys::CALLBACKS.to_owned(), br#"{"urls":["http://127.0.0.1/"]}"#.to_vec()),
        Entry::new(group("a.web.web"), "{\"env\":\"line\\nand \u{e4}\"}".as_bytes().to_vec()),
        Entry::new(group("b.web.web"), vec![0xff, 0x00, 0x7b]),
    ]
}

fn write(header: &Header, entries: &[Entry]) -> String {
    let mut writer = Writer::default();
    let mut text = writer.header(header);
    for entry in entries {
        text.push_str(&writer.entry(entry));
    }
    text + &writer.end()
}

#[test]
fn a_backup_decodes_to_what_was_written() {
    let text = write(&header(), &entries());
    assert_eq!(backup::read(&text), Ok(Backup { header: header(), entries: entries() }));
    assert_eq!(text.lines().count(), 5);
    let empty = write(&header(), &[]);
    assert_eq!(backup::read(&empty), Ok(Backup { header: header(), entries: Vec::new() }));
}

#[test]
fn a_binary_value_keeps_its_bytes() {
    let odd = Entry::new(keys::ENGINE.to_owned(), vec![0xff, 0x00, 0x7b]);
    assert_eq!(odd.content, Content::Hex("ff007b".to_owned()));
    assert_eq!(odd.value(), Some(vec![0xff, 0x00, 0x7b]));
    let bad = Entry { content: Content::Hex("xy".to_owned()), ..odd };
    assert_eq!(bad.value(), None);
    assert!(matches!(backup::read(&write(&header(), &[bad])), Err(Error::Line { line: 2, .. })));
}

#[test]
fn a_truncated_backup_is_refused() {
    let text = write(&header(), &entries());
    for length in (0..text.len()).filter(|length| text.is_char_boundary(*length)) {
        assert!(backup::read(&text[..length]).is_err(), "the first {length} of {} bytes were taken", text.len());
    }
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.pop();
    assert_eq!(backup::read(&lines.concat()), Err(Error::Truncated));
}

#[test]
fn an_edited_dropped_repeated_or_moved_line_is_detected() {
    let text = write(&header(), &entries());
    assert_eq!(backup::read(&text.replace("4711", "4712")), Err(Error::Altered));
    assert_eq!(backup::read(&text.replace("127.0.0.1", "127.0.0.2")), Err(Error::Altered));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let of = |order: &[usize]| order.iter().map(|index| lines[*index]).collect::<String>();
    assert!(backup::read(&of(&[0, 1, 2, 3, 4])).is_ok());
    for order in [vec![0, 1, 3, 4], vec![0, 1, 1, 2, 3, 4], vec![0, 2, 1, 3, 4]] {
        assert_eq!(backup::read(&of(&order)), Err(Error::Altered), "{order:?}");
    }
}

#[test]
fn a_foreign_file_and_a_newer_format_are_refused_with_the_reason() {
    assert_eq!(backup::read(""), Err(Error::NoBackup));
    assert_eq!(backup::read("{\"Name\":\"hello.web.web\"}\n"), Err(Error::NoBackup));
    let newer = write(&Header { format: FORMAT + 1, ..header() }, &entries());
    assert_eq!(backup::read(&newer), Err(Error::Format { found: FORMAT + 1 }));
    let schema = write(&Header { schema: SCHEMA_VERSION + 1, ..header() }, &entries());
    assert_eq!(backup::read(&schema), Err(Error::Schema { found: SCHEMA_VERSION + 1 }));
}

#[test]
fn keys_outside_a_backup_are_refused() {
    let part = keys::restore_part(&"r-1".parse().expect("an id"), 0);
    for key in [keys::CURSOR, keys::SCHEMA, keys::RESTORE, "/other/key", part.as_str()] {
        let text = write(&header(), &[Entry::new(key.to_owned(), b"{}".to_vec())]);
        assert_eq!(backup::read(&text), Err(Error::Key { line: 2, key: key.to_owned() }));
    }
    assert!(keys::is_backed_up(keys::STORE) && keys::is_backed_up(keys::ENGINE));
}

#[test]
fn the_parts_of_a_backup_concatenate_to_its_text() {
    let long = write(&header(), &[Entry::new(keys::ENGINE.to_owned(), "\u{e4}\"".repeat(200_000).into_bytes())]);
    let parts = backup::parts(&long);
    assert!(parts.len() > 5 && parts.iter().all(|part| !part.is_empty() && part.len() <= LARGEST_PART));
    assert_eq!(parts.concat(), long);
    assert!(backup::parts("").is_empty());
}

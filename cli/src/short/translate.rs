//! Says in the words of the short form what the checks of a PodGroupSpec say. Pure.

use super::keys::{self, KeyKind, ShortKey};

/// The text with fields and values of a PodGroupSpec replaced by those of the short form.
pub(super) fn to_short(problem: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    let mut text = String::new();
    let mut rest = problem;
    while let Some(start) = rest.find(is_part) {
        let end = rest[start..].find(|letter| !is_part(letter)).map_or(rest.len(), |length| start + length);
        text.push_str(&rest[..start]);
        text.push_str(&word(&rest[start..end]));
        rest = &rest[end..];
    }
    text + rest
}

/// The path of a field of a PodGroupSpec in the short form. An absent container stands at the top level.
pub(super) fn path(spec: &str) -> String {
    key(spec).map_or_else(|| spec.to_owned(), |key| key.path.to_owned())
}

/// The key of a field of a PodGroupSpec.
pub(super) fn key(spec: &str) -> Option<&'static ShortKey> {
    let plain = without_indexes(spec);
    keys::all().find(|key| key.spec == plain)
}

fn without_indexes(path: &str) -> String {
    let mut inside = false;
    let keep = |letter: &char| {
        inside = (inside && *letter != ']') || *letter == '[';
        !inside || *letter == '['
    };
    path.chars().filter(keep).collect()
}

fn word(word: &str) -> String {
    let begins_upper = word.starts_with(|letter: char| letter.is_ascii_uppercase());
    if !begins_upper {
        return word.to_owned();
    }
    let named = |key: &&ShortKey| key.spec == word || (!word.contains('.') && key.spec.ends_with(&format!(".{word}")));
    let mut keys = keys::all().filter(named).filter(|key| !key.is_alias);
    if let (Some(key), None) = (keys.next(), keys.next()) {
        return key.path.to_owned();
    }
    let choices = keys::all().filter_map(|key| match key.kind {
        KeyKind::Choice(choices) => Some(choices),
        _ => None,
    });
    let chosen = choices.flatten().find(|(_, value)| value.json() == word);
    chosen.map_or_else(|| word.to_owned(), |(short, _)| (*short).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_values_are_named_as_in_the_short_form() {
        for (long, short) in [
            (
                "only has a meaning with Strategy.Type Batch or Beta, which is RollingUpdate; leave it out",
                "only has a meaning with strategy.type batch or beta, which is rolling; leave it out",
            ),
            ("must not be 0 where MaxSurge is 0: no", "must not be 0 where strategy.maxSurge is 0: no"),
            ("There is no answer. MinReadySeconds, is 5", "There is no answer. minReady, is 5"),
        ] {
            assert_eq!(to_short(long), short);
        }
        assert_eq!(path("Pod.Containers[12].Image"), "image");
        assert_eq!(path("Topology.Values"), "units.values");
    }
}

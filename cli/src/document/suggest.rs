//! Finds the word that a misspelt one was most likely meant to be. Pure.

/// The known word closest to `word`; none is closer than half of its letters, and none contains it.
pub(crate) fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    within(word, known, word.len() / 2)
}

/// The same with at most a quarter of the letters wrong: for words that are no names themselves.
pub(crate) fn near<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    within(word, known, word.len() / 4)
}

fn within<'a>(word: &str, known: &[&'a str], most: usize) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let rank = |known: &str| {
        let candidate = known.to_lowercase();
        let distance = distance(&lower, &candidate);
        // A word of one or two letters resembles every short one.
        let is_close = distance <= most || (lower.len() >= 3 && candidate.contains(&lower));
        is_close.then_some((distance, candidate.len()))
    };
    known.iter().filter_map(|known| rank(known).map(|rank| (rank, *known))).min().map(|(_, known)| known)
}

/// The number of letters to insert, remove or replace to turn one word into the other (Levenshtein).
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_is_suggested_unless_none_resembles() {
        let known = ["replicas", "restart", "port", "memory"];
        for (word, meant) in [("replica", Some("replicas")), ("Memroy", Some("memory")), ("rep", Some("replicas"))] {
            assert_eq!(closest(word, &known), meant, "{word}");
        }
        assert_eq!(closest("secrets", &known), None);
    }

    #[test]
    fn the_distance_counts_changed_letters() {
        for (left, right, count) in [("", "abc", 3), ("kitten", "sitting", 3), ("typ", "type", 1), ("a", "a", 0)] {
            assert_eq!((distance(left, right), distance(right, left)), (count, count), "{left} {right}");
        }
    }
}

//! From a model's name to a file name.

use super::SnapshotError;

/// Longest file name without extension, in bytes; file systems stop at 255.
const LONGEST: usize = 200;

/// The name of a model's snapshot without the extension.
///
/// Letters, digits and `. _ - + @` stay, everything else becomes `_`, and so does a leading dot: a
/// name can neither leave the folder nor hide in it. Two models may end up with one file name; see
/// [`same_file`].
pub(super) fn file_stem(model: &str) -> Result<String, SnapshotError> {
    let name_error = |problem| SnapshotError::Name {
        model: model.to_owned(),
        problem,
    };
    if model.is_empty() {
        return Err(name_error("a name without characters makes no file name"));
    }
    let safe = |(at, c): (usize, char)| {
        let stays = c.is_alphanumeric() || "_-+@".contains(c) || (c == '.' && at > 0);
        if stays {
            c
        } else {
            '_'
        }
    };
    let stem: String = model.char_indices().map(safe).collect();
    if stem.len() > LONGEST {
        return Err(name_error("the name is too long for a file name"));
    }
    Ok(stem)
}

/// Whether two models would share a file, on a file system that does not tell upper from lower case
/// either.
pub(super) fn same_file(a: &str, b: &str) -> bool {
    match (file_stem(a), file_stem(b)) {
        (Ok(a), Ok(b)) => same_stem(&a, &b),
        _ => false,
    }
}

/// Whether two file names are one on a file system that does not tell upper from lower case.
pub(super) fn same_stem(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stem(model: &str) -> String {
        file_stem(model).unwrap()
    }

    #[test]
    fn ordinary_names_stay() {
        assert_eq!(stem("kv_cache-2.b"), "kv_cache-2.b");
        assert_eq!(stem("größe"), "größe");
    }

    #[test]
    fn names_cannot_leave_the_folder_or_hide_in_it() {
        assert_eq!(stem("../../etc/passwd"), "_._.._etc_passwd");
        assert_eq!(stem("/abs"), "_abs");
        assert_eq!(stem(".hidden"), "_hidden");
        assert_eq!(stem(".."), "_.");
        assert_eq!(stem("a\\b:c\n"), "a_b_c_");
    }

    #[test]
    fn names_without_a_file_name_are_refused() {
        assert_eq!(
            file_stem("").unwrap_err().to_string(),
            "model \"\": a name without characters makes no file name; give the model another name"
        );
        assert!(file_stem(&"x".repeat(201)).is_err());
        assert!(file_stem(&"ü".repeat(100)).is_ok());
    }

    #[test]
    fn names_that_differ_only_in_lost_characters_or_case_share_a_file() {
        assert!(same_file("a/b", "a_b"));
        assert!(same_file("Main", "main"));
        assert!(!same_file("a", "b"));
    }

    proptest! {
        #[test]
        fn every_stem_is_one_ordinary_path_component(model in any::<String>()) {
            if let Ok(stem) = file_stem(&model) {
                let path = std::path::Path::new(&stem);
                let parts: Vec<_> = path.components().collect();
                prop_assert_eq!(parts.len(), 1);
                prop_assert!(matches!(parts[0], std::path::Component::Normal(_)));
                prop_assert!(!stem.starts_with('.'));
            }
        }
    }
}

//! Reading a contract back from JSON.

use super::strict::Object;
use super::{Contract, Function, SCHEMA_VERSION};
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;

/// Why a text is no contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {}{message}", at(.path))]
pub struct ParseError {
    /// The file, as the caller named it.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 where the line as a whole is meant.
    pub column: usize,
    /// Where in the document: `functions[0].states[1].dtype`; empty for the document itself.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

fn at(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("at `{}`: ", crate::text::line(path))
    }
}

/// Reads a contract from the JSON that [`json`](super::json) writes.
///
/// `origin` is the file's name for error messages. Layout and key order do not matter; unknown,
/// missing and repeated keys, wrong types, two functions of one name and another `schema_version`
/// are errors.
pub fn parse(text: &str, origin: &str) -> Result<Contract, ParseError> {
    parse_from_line(text, origin, 1)
}

/// Like [`parse`], for a text that starts at line `first_line` of its file.
pub fn parse_from_line(
    text: &str,
    origin: &str,
    first_line: usize,
) -> Result<Contract, ParseError> {
    let locate = |(path, error): (String, serde_json::Error)| {
        let message = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&position).unwrap_or(&message);
        ParseError {
            origin: origin.to_owned(),
            // serde_json reports line 0 for an empty text.
            line: error.line().max(1) + first_line - 1,
            column: error.column(),
            message: explain(&error, &path, message),
            path,
        }
    };
    // The version first: a newer format has keys this one does not know, and the useful thing to say
    // then is the version.
    let _: Object<Version> = read(text).map_err(locate)?;
    let Object(document): Object<Document> = read(text).map_err(locate)?;
    Ok(Contract {
        functions: document.functions,
    })
}

/// The value, or the path in the document and what is wrong there.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, (String, serde_json::Error)> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        (path, error.into_inner())
    })?;
    json.end().map_err(|error| (String::new(), error))?;
    Ok(value)
}

/// Adds what a contract is where the text does not even begin to be one.
fn explain(error: &serde_json::Error, path: &str, message: &str) -> String {
    let another_document = path.is_empty()
        && (message.starts_with("invalid type") || message == "missing field `schema_version`");
    if error.is_data() && !another_document {
        message.to_owned()
    } else {
        format!("{message}; expected a contract in JSON, as `coreai-audit contract --format json` writes it")
    }
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "schema_version", deserialize_with = "known_version")]
    _schema_version: u64,
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let version = u64::deserialize(deserializer)?;
    if version == u64::from(SCHEMA_VERSION) {
        return Ok(version);
    }
    Err(D::Error::custom(format!(
        "schema_version {version} is not known here, this version of coreai-audit reads {SCHEMA_VERSION}; \
         use the version that wrote the file, or write it anew"
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "schema_version")]
    _schema_version: u64,
    #[serde(deserialize_with = "distinct_functions")]
    functions: Vec<Function>,
}

/// Refuses a repeated function name while reading, so that the error has its line.
fn distinct_functions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Function>, D::Error> {
    struct Distinct;

    impl<'de> Visitor<'de> for Distinct {
        type Value = Vec<Function>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of functions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut names = HashSet::new();
            let mut functions: Vec<Function> = Vec::new();
            while let Some(Object(function)) = seq.next_element::<Object<Function>>()? {
                if !names.insert(function.name.clone()) {
                    return Err(A::Error::custom(format!(
                        "a second function named {}; expected distinct names",
                        crate::text::name(&function.name)
                    )));
                }
                functions.push(function);
            }
            Ok(functions)
        }
    }

    deserializer.deserialize_seq(Distinct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::json;
    use crate::contract::testing::{any_contract, sample};
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse(text, "old.json").unwrap_err().to_string()
    }

    const PORT: &str = r#"{"name": "x", "dtype": "float32", "shape": [1]}"#;

    fn with_function(function: &str) -> String {
        format!("{{\"schema_version\": 1,\n\"functions\": [\n{function}]}}")
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse(&json(&sample()), "x"), Ok(sample()));
    }

    #[test]
    fn an_unknown_version_is_the_first_thing_said() {
        assert_eq!(
            error(r#"{"schema_version": 2, "models": []}"#),
            "old.json:1:20: at `schema_version`: schema_version 2 is not known here, this version of \
             coreai-audit reads 1; use the version that wrote the file, or write it anew"
        );
        assert_eq!(
            error(r#"{"functions": []}"#),
            "old.json:1:17: missing field `schema_version`; expected a contract in JSON, as `coreai-audit \
             contract --format json` writes it"
        );
        assert_eq!(
            error(r#"{"schema_version": "1", "functions": []}"#),
            "old.json:1:22: at `schema_version`: invalid type: string \"1\", expected u64"
        );
    }

    #[test]
    fn unknown_missing_and_repeated_keys_are_named_with_path_and_line() {
        let states = format!(
            "{{\"name\": \"f\", \"inputs\": [{PORT}],\n\"states\": [{PORT}],\n\"outputs\": []}}"
        );
        assert_eq!(
            error(&with_function(&states)),
            "old.json:4:58: at `functions[0].states[0]`: missing field `access`"
        );
        let unknown =
            r#"{"name": "f", "inputs": [], "states": [], "outputs": [{"name": "y", "extent": 1}]}"#;
        assert_eq!(
            error(&with_function(unknown)),
            "old.json:3:76: at `functions[0].outputs[0].extent`: unknown field `extent`, expected one of \
             `name`, `dtype`, `shape`, `source`"
        );
        assert_eq!(
            error(&with_function(r#"{"name": "f", "name": "g"}"#)),
            "old.json:3:20: at `functions[0]`: duplicate field `name`"
        );
        assert_eq!(
            error(r#"{"schema_version": 1, "functions": [], "torch": "2.13"}"#),
            "old.json:1:46: at `torch`: unknown field `torch`, expected `schema_version` or `functions`"
        );
    }

    #[test]
    fn wrong_types_are_named_with_path_and_line() {
        for (extent, message) in [
            ("-1", "invalid value: integer `-1`, expected u64"),
            ("1.5", "invalid type: floating point `1.5`, expected u64"),
            ("\"?\"", "invalid type: string \"?\", expected u64"),
        ] {
            let port = format!(
                r#"{{"name": "f", "inputs": [{{"name": "x", "dtype": "float32", "shape": [1, {extent}]}}]}}"#
            );
            let said = error(&with_function(&port));
            assert!(said.starts_with("old.json:3:"), "{said}");
            assert!(
                said.ends_with(&format!("at `functions[0].inputs[0].shape[1]`: {message}")),
                "{said}"
            );
        }
        let access = r#"{"name": "f", "inputs": [], "states": [{"access": "rw"}]}"#;
        assert_eq!(
            error(&with_function(access)),
            "old.json:3:54: at `functions[0].states[0].access`: unknown variant `rw`, expected one of \
             `read-write`, `write-only`, `read-only`, `unused`"
        );
    }

    #[test]
    fn arrays_are_no_objects() {
        let lists = "\"inputs\": [], \"states\": [], \"outputs\": []";
        for (text, at) in [
            ("[1, []]".to_owned(), "old.json:1:0: invalid type: sequence, expected an object;"),
            (with_function("[\"f\", [], [], []]"), "old.json:3:0: at `functions[0]`: invalid type: sequence"),
            (
                with_function(&format!("{{\"name\": \"f\", \"export\": [true], {lists}}}")),
                "old.json:3:24: at `functions[0].export`: invalid type: sequence, expected an object",
            ),
            (
                with_function(r#"{"name": "f", "inputs": [["x", "float32", [1]]], "states": [], "outputs": []}"#),
                "old.json:3:25: at `functions[0].inputs[0]`: invalid type: sequence, expected an object",
            ),
            (
                with_function(r#"{"name": "f", "inputs": [{"name": "x", "dtype": "f", "shape": [], "source": null}]}"#),
                "old.json:3:80: at `functions[0].inputs[0].source`: invalid type: null, expected an object",
            ),
        ] {
            assert!(error(&text).starts_with(at), "{}", error(&text));
        }
    }

    #[test]
    fn two_functions_of_one_name_are_refused() {
        let f = r#"{"name": "f", "inputs": [], "states": [], "outputs": []}"#;
        let said = error(&with_function(&format!("{f},\n{f}")));
        assert_eq!(
            said,
            "old.json:4:57: at `functions`: a second function named f; expected distinct names"
        );
    }

    #[test]
    fn what_is_no_json_is_told_with_what_was_expected() {
        let expected =
            "; expected a contract in JSON, as `coreai-audit contract --format json` writes it";
        assert_eq!(
            error(""),
            format!("old.json:1:0: EOF while parsing a value{expected}")
        );
        assert_eq!(
            error("\n\nhello"),
            format!("old.json:3:1: expected value{expected}")
        );
        let twice = r#"{"schema_version": 1, "functions": []} {}"#;
        assert_eq!(
            error(twice),
            format!("old.json:1:40: trailing characters{expected}")
        );
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let deep = "[".repeat(1_000_000);
        assert!(error(&deep).starts_with("old.json:1:"));
        let inside = format!(r#"{{"schema_version": 1, "functions": {deep}"#);
        assert!(error(&inside).starts_with("old.json:1:"));
        let skipped = format!(r#"{{"junk": {deep}"#);
        assert!(error(&skipped).starts_with("old.json:1:"));
    }

    #[test]
    fn lines_count_from_where_the_text_stands_in_its_file() {
        let error = parse_from_line("\n!", "m.snap", 5).unwrap_err();
        assert_eq!((error.line, error.column), (6, 1));
    }

    proptest! {
        #[test]
        fn any_contract_survives_the_round_trip(contract in any_contract()) {
            prop_assert_eq!(parse(&json(&contract), "x"), Ok(contract));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse(&text, "x");
        }

        #[test]
        fn a_damaged_contract_is_read_or_refused(at in 0usize..2000, byte in any::<u8>()) {
            let mut bytes = json(&sample()).into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(&String::from_utf8_lossy(&bytes), "x");
        }
    }
}

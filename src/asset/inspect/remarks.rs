//! What a reader should know before using an asset.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{FileRole, Inspection, DIALECT_VERSION, NEWEST_REVISION};
use crate::asset::Integrity;
use crate::contract::Note;
use crate::text::{count, name};

/// One thing to know. The JSON rendering has an `id` and the values; [`fmt::Display`] is a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "id", rename_all = "kebab-case")]
pub enum Remark {
    /// The program is not what its hash says.
    HashMismatch,
    /// There is nothing to check the program against.
    HashMissing,
    /// `main.hash` is no hash.
    HashUnreadable {
        /// Its length in bytes.
        length: u64,
    },
    /// Loaders accept it, but nothing is known of its making.
    MetadataMissing,
    /// Loaders refuse the asset.
    AssetVersion {
        /// The version; `None` where there is none.
        version: Option<String>,
    },
    /// Written by the 0.4.0 converter, as far as can be told.
    ProducerMissing,
    /// Needs a newer runtime than any known.
    RevisionUnknown {
        /// The revision.
        revision: i64,
    },
    /// Written in another version of the dialect than any known.
    DialectVersion {
        /// The version.
        version: u64,
    },
    /// There is no entry point.
    NoFunctions,
    /// Inputs marked as mutated buffers that are plain tensors.
    NoStates {
        /// The function.
        function: String,
        /// How many such inputs.
        inputs: usize,
    },
    /// Something odd in a function's signature.
    Signature {
        /// What.
        note: Note,
    },
    /// A symbolic link in place of a part.
    Symlink {
        /// The file.
        file: String,
    },
    /// Files and directories that are no part of an asset.
    ExtraFiles {
        /// How many.
        files: usize,
        /// The first of them by name.
        names: Vec<String>,
    },
    /// Sub-byte constants with a byte for each element.
    Unpacked {
        /// How many.
        constants: usize,
    },
    /// Paths of the author's machine are inside.
    AbsolutePaths {
        /// How many files.
        files: usize,
    },
}

/// Each remark with the sentence a person reads.
pub(super) fn with_messages<S: Serializer>(remarks: &[Remark], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Told<'a> {
        #[serde(flatten)]
        remark: &'a Remark,
        message: String,
    }
    to.collect_seq(remarks.iter().map(|remark| Told {
        remark,
        message: remark.to_string(),
    }))
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::HashMismatch => f.write_str(
                "main.hash is not the hash of main.mlirb: the program was changed after it was saved, \
                 or damaged (the Linux loader does not check)",
            ),
            Remark::HashMissing => f.write_str("there is no main.hash: a damaged program would go unnoticed"),
            Remark::HashUnreadable { length } => {
                write!(f, "main.hash holds {length} bytes instead of the 32 of a hash")
            }
            Remark::MetadataMissing => f.write_str("there is no metadata.json: producer and date are not known"),
            Remark::AssetVersion { version: Some(version) } => write!(
                f,
                "metadata.json says assetVersion {}: loaders refuse all but 2.0",
                name(version)
            ),
            Remark::AssetVersion { version: None } => {
                f.write_str("metadata.json has no assetVersion: loaders refuse the asset")
            }
            Remark::ProducerMissing => f.write_str(
                "metadata.json names no producer, as the 0.4.0 converter left it: later runtimes abort \
                 on its assets; convert again",
            ),
            Remark::RevisionUnknown { revision } => write!(
                f,
                "needs dialect revision {revision}, which is newer than {NEWEST_REVISION}, the newest known here"
            ),
            Remark::DialectVersion { version } => write!(
                f,
                "is written in version {version} of the dialect, and only {DIALECT_VERSION} is known: \
                 runtimes abort on others, and what is said here may be wrong"
            ),
            Remark::NoFunctions => f.write_str("there is no entry point: nothing in it can be called"),
            Remark::NoStates { function, inputs } => write!(
                f,
                "{}: {} marked as mutated, but plain: made by converter 0.4.0 to 0.4.2 without its \
                 optimise step. The runtime will report no states, and updates come back as outputs",
                name(function),
                count(*inputs, "input")
            ),
            Remark::Signature { note } => write!(f, "{}: {note}", name(note.function())),
            Remark::Symlink { file } => {
                write!(f, "{} is a symbolic link: copies of the asset may miss it", name(file))
            }
            Remark::ExtraFiles { files, names } => {
                let shown: Vec<_> = names.iter().map(|n| name(n)).collect();
                let more = if names.len() < *files { ", …" } else { "" };
                write!(
                    f,
                    "{} no loader reads in the directory: {}{more}",
                    count(*files, "entry"),
                    shown.join(", ")
                )
            }
            Remark::Unpacked { constants } => write!(
                f,
                "{} of elements below eight bits with a byte for each: the vendor's interpreter reads \
                 past the end and gives wrong values",
                count(*constants, "constant")
            ),
            Remark::AbsolutePaths { files } => write!(
                f,
                "debug information names {} by absolute path: strip it before you ship",
                count(*files, "source file")
            ),
        }
    }
}

/// All remarks, most important first.
pub(super) fn about(inspection: &Inspection, notes: Vec<Note>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    match inspection.integrity {
        Some(Integrity::Mismatch { .. }) => remarks.push(Remark::HashMismatch),
        Some(Integrity::Unreadable { length, .. }) => {
            remarks.push(Remark::HashUnreadable { length })
        }
        _ => {}
    }
    match &inspection.metadata {
        None => remarks.push(Remark::MetadataMissing),
        Some(metadata) => {
            if metadata.asset_version.as_deref() != Some("2.0") {
                remarks.push(Remark::AssetVersion {
                    version: metadata.asset_version.clone(),
                });
            }
            if metadata.producer.is_none() {
                remarks.push(Remark::ProducerMissing);
            }
        }
    }
    if let Some(revision) = inspection
        .bytecode
        .revision
        .filter(|r| *r > NEWEST_REVISION)
    {
        remarks.push(Remark::RevisionUnknown { revision });
    }
    if let Some(version) = inspection.bytecode.dialect_version {
        if version != DIALECT_VERSION {
            remarks.push(Remark::DialectVersion { version });
        }
    }
    if inspection.functions.is_empty() {
        remarks.push(Remark::NoFunctions);
    }
    for function in &inspection.functions {
        let plain = |n: &&Note| {
            matches!(n, Note::MutationWithoutHandle { .. })
                && n.function() == function.contract.name
        };
        let inputs = notes.iter().filter(plain).count();
        if inputs > 0 {
            remarks.push(Remark::NoStates {
                function: function.contract.name.clone(),
                inputs,
            });
        }
    }
    let rest = notes
        .into_iter()
        .filter(|n| !matches!(n, Note::MutationWithoutHandle { .. }));
    remarks.extend(rest.map(|note| Remark::Signature { note }));
    if !inspection.weights.unpacked.is_empty() {
        remarks.push(Remark::Unpacked {
            constants: inspection.weights.unpacked.len(),
        });
    }
    let missing = |file: &str| {
        inspection
            .files
            .entries
            .iter()
            .any(|e| e.name == file && e.role == FileRole::Missing)
    };
    if missing(crate::asset::HASH) {
        remarks.push(Remark::HashMissing);
    }
    for entry in inspection.files.entries.iter().filter(|e| e.symlink) {
        remarks.push(Remark::Symlink {
            file: entry.name.clone(),
        });
    }
    let entries = inspection.files.entries.iter();
    let extra: Vec<_> = entries.filter(|e| e.role == FileRole::Extra).collect();
    if !extra.is_empty() {
        remarks.push(Remark::ExtraFiles {
            files: extra.len(),
            names: extra.iter().take(5).map(|e| e.name.clone()).collect(),
        });
    }
    if inspection.debug.absolute_paths > 0 {
        remarks.push(Remark::AbsolutePaths {
            files: inspection.debug.absolute_paths,
        });
    }
    remarks
}

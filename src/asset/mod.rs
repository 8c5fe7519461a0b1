//! Assets: the `.aimodel` directory and the bytecode inside.
//!
//! Three layers: the bundle (directory, metadata, hash), the container (a file of MLIR bytecode) and
//! the dialect `aicode`, in which the program is expressed. The result is the same [`crate::ir`] the
//! reader of printed IR fills. The file is mapped and of its weights not a byte is read, so the cost
//! grows with the number of ops.

mod aicode;
mod bundle;
mod container;
mod cursor;
mod error;
mod fingerprint;
pub mod inspect;
mod integrity;
pub(crate) mod json;
mod metadata;

pub use bundle::{open, Bundle, Component, Found};
pub use error::{Error, Malformed, Section};
pub use fingerprint::Fingerprint;
pub use integrity::Integrity;
pub use metadata::Metadata;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::contract::{self, Extracted};
use crate::ir::{Attr, Body, Dense, Module, Payload};
use aicode::{Detail, Owner};
use container::Container;
use cursor::MResult;

/// The bytecode file of an asset.
const PROGRAM: &str = "main.mlirb";
/// Its SHA-256.
const HASH: &str = "main.hash";

/// The whole program of an asset: graphs, ops with their stored definitions and locations, constants
/// as views into the mapped file.
///
/// # Errors
/// See [`Error`].
pub fn read_module(path: &Path) -> Result<Module, Error> {
    Asset::open(path)?
        .program(ReadOptions::ALL)
        .map(|p| p.module)
}

/// The contract of an asset.
///
/// # Errors
/// See [`Error`].
pub fn read_contract(path: &Path) -> Result<Extracted, Error> {
    Asset::open(path)?.contract()
}

/// What to read besides graphs, ops and constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The definitions stored with decomposable ops.
    pub definitions: bool,
    /// Source locations.
    pub locations: bool,
    /// Where the data of constants in resources is. Each touches a page of the weights, so this is what
    /// reading a large asset takes longest for; nothing more of the weights is read.
    pub weights: bool,
}

impl ReadOptions {
    /// Everything.
    pub const ALL: ReadOptions = ReadOptions {
        definitions: true,
        locations: true,
        weights: true,
    };
}

/// An asset on disk; its program is mapped, not read.
pub struct Asset {
    path: PathBuf,
    bytes: Owner,
    /// The same bytes as the system sees them; an empty file is not mapped.
    map: Option<Arc<memmap2::Mmap>>,
}

impl std::fmt::Debug for Asset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asset")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A program, and what its file says about itself.
#[derive(Debug)]
pub struct Program {
    /// The graphs.
    pub module: Module,
    /// The dialect revision the program needs, a date as `YYYYMMDD`.
    pub revision: Option<i128>,
    /// The producer string of the bytecode (`MLIR22.0.0git`).
    pub bytecode_producer: String,
    /// The version of the dialect `aicode`.
    pub dialect_version: Option<u64>,
    /// What the program knows of its sources.
    pub debug: DebugInfo,
}

/// Source information in an asset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugInfo {
    /// The source files named, directory first, sorted.
    pub files: Vec<String>,
}

impl Asset {
    /// Opens the asset in a directory.
    ///
    /// # Errors
    /// [`Error::Io`] where the program is missing or no file; what is wrong inside shows when it is
    /// read.
    pub fn open(path: &Path) -> Result<Asset, Error> {
        let program = path.join(PROGRAM);
        let file = error::open_file(&program)?;
        let about = file
            .metadata()
            .map_err(|e| Error::io(&program, "read", e))?;
        let map = match about.len() {
            0 => None,
            _ => {
                let map = crate::files::map(&file).map_err(|e| Error::io(&program, "map", e))?;
                Some(Arc::new(map))
            }
        };
        let bytes: Owner = match &map {
            Some(map) => map.clone(),
            None => Arc::new([]),
        };
        Ok(Asset {
            path: path.to_path_buf(),
            bytes,
            map,
        })
    }

    /// Says, before anything is read, that all weights are going to be read again and again. Where the
    /// file system can, the program is then read from disk and mapped in pages of 2 MiB, through which a
    /// decode step reads about a third faster. What lies in memory already stays as it is.
    pub fn weights_will_be_read(&self) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.map {
            // A system that does not know the advice reads as it always does.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
    }

    /// The asset's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the program in bytes, weights included.
    pub fn program_size(&self) -> u64 {
        (*self.bytes).as_ref().len() as u64
    }

    /// The metadata; `None` where the file is missing.
    ///
    /// # Errors
    /// When it is no JSON object, or a known entry is no string.
    pub fn metadata(&self) -> Result<Option<Metadata>, Error> {
        match metadata::read(&self.path)? {
            Some(object) => Metadata::from_object(&self.path, object).map(Some),
            None => Ok(None),
        }
    }

    /// Hashes the program and compares with the stored hash.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn integrity(&self) -> Result<Integrity, Error> {
        integrity::check(&self.path.join(PROGRAM), &self.path.join(HASH))
    }

    /// The semantic fingerprint of a program of this asset that was read with definitions. Reads all
    /// weights, on all cores.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn fingerprint(&self, module: &Module) -> Result<Fingerprint, Error> {
        let path = self.path.join(PROGRAM);
        let ranges = resources(module);
        let hashes = integrity::hash_ranges(&path, &ranges)?;
        Ok(fingerprint::of(
            module,
            &ranges.into_iter().zip(hashes).collect(),
        ))
    }

    /// Reads the program.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the byte and the section.
    pub fn program(&self, options: ReadOptions) -> Result<Program, Error> {
        self.decoded(options, Detail::All)
    }

    /// The contract. Of the ops only those are read that states pass through: what is wrong in the
    /// attributes and constants of others shows when the program is read.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the byte and the section.
    pub fn contract(&self) -> Result<Extracted, Error> {
        let program = self.decoded(ReadOptions::default(), Detail::States)?;
        Ok(contract::extract(&program.module))
    }

    fn decoded(&self, options: ReadOptions, detail: Detail) -> Result<Program, Error> {
        let bytes = (*self.bytes).as_ref();
        decode(bytes, self.bytes.clone(), options, detail)
            .map_err(|e| Error::malformed(&self.path.join(PROGRAM), e))
    }
}

/// Where the data of a program's resources lies, each once, in file order.
fn resources(module: &Module) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut bodies: Vec<&Body> = module.bodies().collect();
    while let Some(body) = bodies.pop() {
        for (_, op) in body.walk() {
            bodies.extend(op.definition.as_deref());
            if let Some(Attr::Dense(Dense {
                payload:
                    Payload::Resource {
                        data: Some(data), ..
                    },
                ..
            })) = op.attrs.get("value")
            {
                ranges.push(data.range());
            }
        }
    }
    ranges.sort_by_key(|r| (r.start, r.end));
    ranges.dedup();
    ranges
}

/// Reads a program from bytes in memory.
///
/// # Errors
/// The byte and the section.
pub fn read_bytes(bytes: Vec<u8>, options: ReadOptions) -> Result<Program, Box<Malformed>> {
    let owner: Arc<Vec<u8>> = Arc::new(bytes);
    decode(&owner.clone(), owner, options, Detail::All)
}

/// The contract of a program in memory, read as [`Asset::contract`] does.
///
/// # Errors
/// The byte and the section.
pub fn contract_of_bytes(bytes: Vec<u8>) -> Result<Extracted, Box<Malformed>> {
    let owner: Arc<Vec<u8>> = Arc::new(bytes);
    let options = ReadOptions::default();
    let program = decode(&owner.clone(), owner, options, Detail::States)?;
    Ok(contract::extract(&program.module))
}

/// Checks the container of a program in memory: sections and tables, not the program in them.
///
/// # Errors
/// The byte and the section.
pub fn check_container(bytes: &[u8]) -> Result<(), Box<Malformed>> {
    Container::parse(bytes).map(|_| ())
}

fn decode(bytes: &[u8], owner: Owner, options: ReadOptions, detail: Detail) -> MResult<Program> {
    let container = Container::parse(bytes)?;
    if options.weights {
        // Those that no constant refers to are checked, too.
        container
            .resources
            .iter()
            .try_for_each(|r| container.resource_data(r).map(|_| ()))?;
    }
    let mut decoder = aicode::Decoder::new(&container, owner, options.weights);
    let (module, revision) = decoder.program(options, detail)?;
    let mut files = Vec::new();
    if detail == Detail::All {
        let named = (0..container.attribute_count()).filter_map(|i| decoder.debug_file(i));
        files.extend(named.map(|path| path.to_string()));
        files.sort();
        files.dedup();
    }
    Ok(Program {
        module,
        revision,
        bytecode_producer: container.producer.to_string(),
        dialect_version: container
            .dialects
            .iter()
            .find(|d| d.name == "aicode")
            .and_then(|d| d.version),
        debug: DebugInfo { files },
    })
}

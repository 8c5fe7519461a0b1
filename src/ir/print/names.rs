//! The names of values, chosen as the vendor's printer chooses them: `%argN` for the arguments of
//! entry blocks, numbers for results, and words for the results of a few ops.

use std::collections::HashSet;

use crate::ir::graph::{Body, Region};

/// Names of all values of a body, without `%`.
pub(super) struct Names {
    /// By value; a result of a group is `7#1`.
    pub(super) of: Vec<String>,
    /// By op: what stands in front of `=`.
    pub(super) results: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    value: usize,
    argument: usize,
    conflict: usize,
}

impl Names {
    pub(super) fn new(body: &Body) -> Names {
        let mut names = Names {
            of: vec![String::new(); body.values.len()],
            results: vec![String::new(); body.ops.len()],
        };
        names.region(body, &body.region, Counters::default(), &mut HashSet::new());
        names
    }

    /// Nested regions continue behind all of the region around them, and share its names.
    fn region(
        &mut self,
        body: &Body,
        region: &Region,
        mut next: Counters,
        used: &mut HashSet<String>,
    ) {
        let mut mine = Vec::new();
        for (index, block) in region.blocks.iter().enumerate() {
            for arg in &block.args {
                self.of[arg.0 as usize] = if index == 0 {
                    next.argument += 1;
                    format!("arg{}", next.argument - 1)
                } else {
                    next.value += 1;
                    (next.value - 1).to_string()
                };
            }
            for id in &block.ops {
                let op = body.op(*id);
                let words: &[&str] = match &*op.name {
                    "coreai.read_handle" => &["output", "out_token"],
                    "coreai.asymmetric_quantization_statistics" => &["scale", "zero_point"],
                    _ => &[],
                };
                if words.len() == op.results.len() && !words.is_empty() {
                    let mut list = Vec::new();
                    for (value, word) in op.results.iter().zip(words) {
                        let mut name = (*word).to_string();
                        while used.contains(&name) {
                            name = format!("{word}_{}", next.conflict);
                            next.conflict += 1;
                        }
                        used.insert(name.clone());
                        mine.push(name.clone());
                        list.push(format!("%{name}"));
                        self.of[value.0 as usize] = name;
                    }
                    self.results[id.0 as usize] = list.join(", ");
                    continue;
                }
                match &op.results[..] {
                    [] => {}
                    [one] => {
                        self.of[one.0 as usize] = next.value.to_string();
                        self.results[id.0 as usize] = format!("%{}", next.value);
                        next.value += 1;
                    }
                    many => {
                        for (i, value) in many.iter().enumerate() {
                            self.of[value.0 as usize] = format!("{}#{i}", next.value);
                        }
                        self.results[id.0 as usize] = format!("%{}:{}", next.value, many.len());
                        next.value += 1;
                    }
                }
            }
        }
        for id in region.blocks.iter().flat_map(|b| &b.ops) {
            for inner in &body.op(*id).regions {
                self.region(body, inner, next, used);
            }
        }
        for name in mine {
            used.remove(&name);
        }
    }
}

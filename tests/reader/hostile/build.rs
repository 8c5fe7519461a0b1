//! A writer of bytecode, small and free to lie: tests compose broken files with it.

/// A file under construction; sections are written in the order assets have.
#[derive(Clone)]
pub struct File {
    pub strings: Vec<Vec<u8>>,
    /// Names of ops, by string number.
    pub ops: Vec<usize>,
    pub attributes: Vec<Vec<u8>>,
    pub types: Vec<Vec<u8>>,
    pub properties: Vec<Vec<u8>>,
    pub ir: Vec<u8>,
    /// Bodies of the resource size and resource sections.
    pub resource_sizes: Vec<u8>,
    pub resources: Vec<u8>,
}

/// A number in prefix form.
pub fn varint(n: u64) -> Vec<u8> {
    for extra in 0..8u32 {
        if n < 1 << (7 * (extra + 1)) {
            let raw = (n << (extra + 1)) | (1 << extra);
            return raw.to_le_bytes()[..=extra as usize].to_vec();
        }
    }
    [&[0][..], &n.to_le_bytes()].concat()
}

/// A signed number.
pub fn signed(n: i64) -> Vec<u8> {
    varint(((n << 1) ^ (n >> 63)) as u64)
}

/// Concatenates numbers.
pub fn numbers(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|n| varint(*n)).collect()
}

/// A count, then that many numbers.
pub fn list(items: &[u64]) -> Vec<u8> {
    [varint(items.len() as u64), numbers(items)].concat()
}

pub fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &varint(body.len() as u64), body].concat()
}

/// Attribute numbers of [`File::minimal`].
pub mod attr {
    pub const LOCATION: u64 = 0;
    pub const EMPTY: u64 = 1;
    pub const FALSE: u64 = 2;
    pub const SIGNATURE: u64 = 3;
    pub const NAME: u64 = 4;
}

/// Op numbers of [`File::minimal`].
pub mod op {
    pub const ASSET: u64 = 0;
    pub const GRAPH: u64 = 1;
    pub const OUTPUT: u64 = 2;
    pub const WHILE: u64 = 3;
    pub const SOFTMAX: u64 = 4;
    pub const CONSTANT: u64 = 5;
}

/// Type numbers of [`File::minimal`].
pub mod ty {
    pub const F32: u64 = 0;
    pub const TENSOR: u64 = 1;
    pub const FUNCTION: u64 = 2;
}

impl File {
    /// One graph `main` without arguments whose body is `ops`, of which there are `count`, defining
    /// `values` values.
    pub fn minimal(count: u64, values: u64, ops: &[u8]) -> File {
        let body = [varint(1), varint(values), varint(count << 1), ops.to_vec()].concat();
        File::of_graphs(&[body])
    }

    /// One graph `main` with one argument, of type [`ty::TENSOR`], that returns nothing; the attributes of
    /// its arguments are those of attribute `list`.
    pub fn with_argument(list: u64) -> File {
        let args = [varint(1), varint(ty::TENSOR << 1), vec![0]].concat();
        let body = [
            varint(1),
            varint(1),
            varint(1 << 1 | 1),
            args,
            File::output(),
        ]
        .concat();
        let mut file = File::of_graphs(&[body]);
        file.properties[0][0] = varint(list)[0];
        file.types[ty::FUNCTION as usize] =
            [varint(30), varint(0), self::list(&[ty::TENSOR])].concat();
        file
    }

    /// Graphs `main` with these bodies.
    pub fn of_graphs(bodies: &[Vec<u8>]) -> File {
        let text = |s: &str| s.as_bytes().to_vec();
        let strings = [
            "aicode",
            "serialization.asset",
            "dataflow.graph_v1",
            "dataflow.output_v1",
            "controlflow.while_v1",
            "softmax_v1",
            "primitive.constant_v1",
            "main",
            "resource_1",
        ];
        let graph_properties = numbers(&[
            attr::EMPTY,
            0,
            attr::FALSE,
            attr::SIGNATURE,
            attr::FALSE,
            attr::NAME,
            attr::FALSE,
            attr::EMPTY,
            attr::EMPTY,
        ]);
        let graph = |body: &Vec<u8>| {
            [
                varint(op::GRAPH),
                vec![0x50],
                varint(attr::LOCATION),
                varint(0),
                varint(1 << 1 | 1),
                section(4, body),
            ]
            .concat()
        };
        let graphs = [
            varint(1),
            varint(0),
            varint((bodies.len() as u64) << 1),
            bodies.iter().flat_map(graph).collect(),
        ]
        .concat();
        let asset = [
            varint(op::ASSET),
            vec![0x10],
            varint(attr::LOCATION),
            varint(1 << 1 | 1),
            section(4, &graphs),
        ]
        .concat();
        File {
            strings: strings.iter().map(|s| text(s)).collect(),
            ops: (1..7).collect(),
            attributes: vec![
                numbers(&[46]),
                [varint(5), list(&[])].concat(),
                [varint(2), varint(1), vec![0, 0]].concat(),
                numbers(&[4, ty::FUNCTION]),
                numbers(&[1, 7]),
            ],
            types: vec![
                numbers(&[6]),
                [varint(2), varint(1), signed(2), varint(ty::F32)].concat(),
                [varint(30), list(&[]), list(&[])].concat(),
            ],
            properties: vec![graph_properties],
            ir: [varint(1 << 1), asset].concat(),
            resource_sizes: numbers(&[0]),
            resources: Vec::new(),
        }
    }

    /// An output without operands, which ends a graph.
    pub fn output() -> Vec<u8> {
        [varint(op::OUTPUT), vec![0], varint(attr::LOCATION)].concat()
    }

    pub fn dialect_section(&self) -> Vec<u8> {
        let names = self.ops.iter().flat_map(|s| varint((*s as u64) << 1 | 1));
        let mut body = [
            varint(1),
            varint(1),
            section(7, &varint(2)),
            varint(self.ops.len() as u64),
        ]
        .concat();
        body.extend(numbers(&[0, self.ops.len() as u64]));
        body.extend(names);
        section(1, &body)
    }

    pub fn attribute_sections(&self) -> [Vec<u8>; 2] {
        let mut sizes = numbers(&[self.attributes.len() as u64, self.types.len() as u64]);
        for group in [&self.attributes, &self.types] {
            sizes.extend(numbers(&[0, group.len() as u64]));
            sizes.extend(
                group
                    .iter()
                    .flat_map(|body| varint((body.len() as u64) << 1 | 1)),
            );
        }
        let bodies: Vec<u8> = self
            .attributes
            .iter()
            .chain(&self.types)
            .flatten()
            .copied()
            .collect();
        [section(3, &sizes), section(2, &bodies)]
    }

    pub fn string_section(&self) -> Vec<u8> {
        let mut body = varint(self.strings.len() as u64);
        body.extend(
            self.strings
                .iter()
                .rev()
                .flat_map(|s| varint(s.len() as u64 + 1)),
        );
        body.extend(self.strings.iter().flat_map(|s| [&s[..], &[0]].concat()));
        section(0, &body)
    }

    pub fn property_section(&self) -> Vec<u8> {
        let mut body = varint(self.properties.len() as u64);
        for entry in &self.properties {
            body.extend(varint(entry.len() as u64));
            body.extend(entry);
        }
        section(8, &body)
    }

    /// The sections in order.
    pub fn sections(&self) -> Vec<Vec<u8>> {
        let [sizes, bodies] = self.attribute_sections();
        vec![
            self.dialect_section(),
            sizes,
            bodies,
            section(4, &self.ir),
            section(6, &self.resource_sizes),
            section(5, &self.resources),
            self.string_section(),
            self.property_section(),
        ]
    }

    pub fn bytes(&self) -> Vec<u8> {
        with_header(&self.sections())
    }
}

/// Magic number, version, producer, sections.
pub fn with_header(sections: &[Vec<u8>]) -> Vec<u8> {
    [
        b"ML\xefR".to_vec(),
        varint(6),
        b"test\0".to_vec(),
        sections.concat(),
    ]
    .concat()
}

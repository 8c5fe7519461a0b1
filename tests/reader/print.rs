//! Generated modules: what is printed reads back equal.

use std::sync::Arc;

use coreai_audit::ir::text::parse;
use coreai_audit::ir::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn float() -> impl Strategy<Value = Float> {
    proptest::sample::select(&Float::ALL[..])
}

fn sign() -> impl Strategy<Value = Sign> {
    proptest::sample::select(&[Sign::Signed, Sign::Unsigned, Sign::Signless][..])
}

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        Just(Element::Bool),
        float().prop_map(Element::Float),
        float().prop_map(Element::Complex),
        // `i1` is the boolean.
        (
            sign(),
            proptest::sample::select(&[2u16, 3, 4, 6, 8, 16, 32, 64][..])
        )
            .prop_map(|(sign, width)| Element::Int { sign, width }),
        Just(Element::ui(1)),
    ]
}

fn extent() -> impl Strategy<Value = Extent> {
    option::weighted(0.8, prop_oneof![0u64..9, Just(i64::MAX as u64)])
}

fn encoding() -> impl Strategy<Value = Attr> {
    let constraints = (
        proptest::sample::select(&["IOSurface", "MTLBuffer", "Heap"][..]),
        vec(option::of(1u64..4096), 1..5),
        vec(option::of(1u64..16), 0..4),
    )
        .prop_map(|(backing, alignments, interleave)| {
            Attr::HwConstraints(HwConstraints {
                backing: backing.into(),
                alignments,
                interleave,
            })
        });
    let sparse =
        (option::of(any::<u64>()), 0u64..65, vec(1u64..9, 0..3)).prop_map(|(n, w, block_size)| {
            Attr::Sparse(SparseEncoding {
                scheme: "bsr".into(),
                non_zero: n,
                position_width: w,
                coordinate_width: w + 1,
                block_size,
            })
        });
    prop_oneof![constraints, sparse]
}

fn tensor() -> impl Strategy<Value = Type> {
    (
        vec(extent(), 0..5),
        element(),
        option::weighted(0.1, encoding()),
    )
        .prop_map(|(dims, element, encoding)| {
            Type::Tensor(Arc::new(TensorType {
                dims,
                element,
                encoding,
            }))
        })
}

fn ty() -> impl Strategy<Value = Type> {
    let image = (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(fourcc, h, w)| {
        let (height, width) = (h.into(), w.into());
        Type::Image(Arc::new(ImageType {
            fourcc,
            height,
            width,
            constraints: None,
        }))
    });
    prop_oneof![6 => tensor(), 2 => tensor().prop_map(Type::handle), 1 => Just(Type::Token), 1 => image]
}

/// Anything, with a liking for what needs escaping.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_.$]{0,8}",
        "[\"\\\\ \t\n%@#<>{}é€🎉a]{0,8}",
        any::<String>()
    ]
}

fn int() -> impl Strategy<Value = Attr> {
    (
        sign(),
        proptest::sample::select(&[8u16, 16, 32, 64][..]),
        any::<i64>(),
    )
        .prop_map(|(sign, width, raw)| {
            let value = match sign {
                Sign::Unsigned => i128::from(raw as u64 >> (64 - width)),
                _ => i128::from(raw >> (64 - width)),
            };
            Attr::Int {
                value,
                ty: Element::Int { sign, width },
            }
        })
}

fn attr() -> impl Strategy<Value = Attr> {
    let number = (float(), any::<u64>()).prop_map(|(kind, raw)| {
        // A float of 19 bits is stored in 32, the lower 13 of them zero.
        let bits = match kind {
            Float::Tf32 => raw & 0xffff_e000,
            kind if kind.width() == 64 => raw,
            kind => raw & ((1 << kind.width()) - 1),
        };
        Attr::Float { bits, kind }
    });
    let keyword = proptest::sample::select(&KeywordSet::ALL[..]).prop_flat_map(|set| {
        proptest::sample::select(set.words()).prop_map(move |w| Attr::keyword(set, w))
    });
    let leaf = prop_oneof![
        Just(Attr::Unit),
        any::<bool>().prop_map(Attr::Bool),
        int(),
        number,
        text().prop_map(Attr::String),
        ty().prop_map(Attr::Type),
        vec(text(), 1..4).prop_map(|path| Attr::Symbol(SymbolPath(path))),
        keyword,
        any::<u32>().prop_map(Attr::FourCc),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Attr::Array),
            btree_map(text(), inner.clone(), 0..4).prop_map(Attr::Dict),
            (text(), btree_map(text(), inner, 0..3))
                .prop_map(|(name, attrs)| Attr::Composite(Box::new(Composite { name, attrs }))),
        ]
    })
}

fn dict() -> impl Strategy<Value = AttrDict> {
    btree_map(text(), attr(), 0..4)
}

/// A constant of a static type, with as many random bytes as it needs.
fn constant() -> impl Strategy<Value = Dense> {
    (vec(0u64..5, 0..4), element(), any::<u64>(), any::<bool>()).prop_map(
        |(dims, element, seed, splat)| {
            let count = if splat {
                1
            } else {
                dims.iter().product::<u64>() as usize
            };
            let mut state = seed | 1;
            let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .take(count * element.bytes())
            .collect();
            // Sub-byte elements use the low bits of their byte.
            let width = element.width()
                / if let Element::Complex(_) = element {
                    2
                } else {
                    1
                };
            if width < 8 {
                bytes.iter_mut().for_each(|b| *b &= (1 << width) - 1);
            }
            if let Element::Float(Float::Tf32) | Element::Complex(Float::Tf32) = element {
                bytes
                    .chunks_exact_mut(4)
                    .for_each(|c| (c[0], c[1]) = (0, c[1] & 0xe0));
            }
            let payload = match splat {
                true => Payload::Splat(bytes.into()),
                false => Payload::from_elements(bytes, element.bytes()),
            };
            Dense {
                ty: Type::tensor(dims.into_iter().map(Some).collect::<Vec<_>>(), element),
                payload,
            }
        },
    )
}

/// What an op of a generated graph is; operands are picked by number from what there is.
#[derive(Clone, Debug)]
enum Step {
    Constant(Dense),
    Op {
        name: String,
        operands: Vec<usize>,
        results: Vec<Type>,
        attrs: AttrDict,
    },
    Invoke {
        callee: Vec<String>,
        operands: Vec<usize>,
        results: Vec<Type>,
    },
    If {
        condition: usize,
        left: Vec<Step>,
        right: Vec<Step>,
        results: Vec<Type>,
    },
    While {
        operands: Vec<usize>,
        args: Vec<Type>,
        body: Vec<Step>,
        results: Vec<Type>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let picks = || vec(any::<usize>(), 0..5);
    let name = prop_oneof![
        proptest::sample::select(
            &[
                "coreai.exp",
                "coreai.relu",
                "coreai.cast",
                "coreai.concat",
                "coreai.expand_dims",
                "coreai.gather_nd",
                "coreai.gather_along_axis",
                "coreai.slice_update",
                "coreai.gelu",
                "coreai.pad",
                "coreai.scan",
                "coreai.split",
                "coreai.read_handle",
                "coreai.write_handle",
                "coreai.create_token",
                "coreai.output",
                "coreai.condition",
                "coreaix.view",
                "coreai.scatter_along_axis",
                "coreai.if",
                "coreai.constant",
                "new.op",
            ][..]
        )
        .prop_map(str::to_string),
        "[a-z]{1,4}\\.[a-z.]{1,6}",
    ];
    let leaf = prop_oneof![
        2 => constant().prop_map(Step::Constant),
        4 => (name, picks(), vec(ty(), 0..4), prop_oneof![Just(AttrDict::new()), dict()])
            .prop_map(|(name, operands, results, attrs)| Step::Op { name, operands, results, attrs }),
        1 => (vec(text(), 1..3), picks(), vec(ty(), 0..3))
            .prop_map(|(callee, operands, results)| Step::Invoke { callee, operands, results }),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let steps = || vec(inner.clone(), 0..3);
        prop_oneof![
            (any::<usize>(), steps(), steps(), vec(ty(), 0..3)).prop_map(
                |(condition, left, right, results)| {
                    Step::If {
                        condition,
                        left,
                        right,
                        results,
                    }
                }
            ),
            (
                vec(any::<usize>(), 0..3),
                vec(ty(), 0..3),
                steps(),
                vec(ty(), 0..3)
            )
                .prop_map(|(operands, args, body, results)| Step::While {
                    operands,
                    args,
                    body,
                    results
                }),
        ]
    })
}

/// Builds the steps into the body; new values are visible to what follows.
fn build(
    body: &mut Body,
    parent: Option<OpId>,
    visible: &mut Vec<ValueId>,
    steps: &[Step],
) -> Vec<OpId> {
    let mut ids = Vec::new();
    for step in steps {
        let id = OpId(body.ops.len() as u32);
        ids.push(id);
        body.ops.push(Op::new(""));
        let pick = |n: &usize| (!visible.is_empty()).then(|| visible[n % visible.len()]);
        let mut op = match step {
            Step::Constant(data) => {
                let mut op = Op::new("coreai.constant");
                op.attrs.insert("value".into(), Attr::Dense(data.clone()));
                op
            }
            Step::Op {
                name,
                operands,
                attrs,
                ..
            } => {
                let mut op = Op::new(name.as_str());
                op.operands = operands.iter().filter_map(pick).collect();
                op.attrs = attrs.clone();
                op
            }
            Step::Invoke {
                callee, operands, ..
            } => {
                let mut op = Op::new("coreai.invoke");
                op.operands = operands.iter().filter_map(pick).collect();
                op.attrs
                    .insert("callee".into(), Attr::Symbol(SymbolPath(callee.clone())));
                op
            }
            Step::If { condition, .. } => {
                let mut op = Op::new("coreai.if");
                op.operands = pick(condition).into_iter().collect();
                op
            }
            Step::While { operands, .. } => {
                let mut op = Op::new("coreai.while");
                op.operands = operands.iter().filter_map(pick).collect();
                op
            }
        };
        let inner: Vec<(&[Type], &[Step])> = match step {
            Step::If { left, right, .. } => vec![(&[], left), (&[], right)],
            Step::While { args, body, .. } => vec![(args, body), (args, body)],
            _ => vec![],
        };
        for (number, (args, steps)) in inner.into_iter().enumerate() {
            let mut seen = visible.clone();
            let mut block = Block::default();
            for (index, ty) in args.iter().enumerate() {
                let (region, index) = (number as u32, index as u32);
                let def = ValueDef::BlockArg {
                    op: id,
                    region,
                    block: 0,
                    index,
                };
                block.args.push(body.add_value(ty.clone(), def));
            }
            seen.extend(&block.args);
            block.ops = build(body, Some(id), &mut seen, steps);
            let empty = block.args.is_empty() && block.ops.is_empty();
            op.regions.push(Region {
                blocks: if empty { vec![] } else { vec![block] },
            });
        }
        let constant;
        let results: &[Type] = match step {
            Step::Constant(data) => {
                constant = [data.ty.clone()];
                &constant
            }
            Step::Op { results, .. }
            | Step::Invoke { results, .. }
            | Step::If { results, .. }
            | Step::While { results, .. } => results,
        };
        for (index, ty) in results.iter().enumerate() {
            let def = ValueDef::Result {
                op: id,
                index: index as u32,
            };
            op.results.push(body.add_value(ty.clone(), def));
        }
        visible.extend(&op.results);
        op.parent = parent;
        normalize(&op.name, &mut op.attrs);
        body.ops[id.0 as usize] = op;
    }
    ids
}

fn graph() -> impl Strategy<Value = Graph> {
    (
        (vec(text(), 1..4), any::<[bool; 3]>()),
        option::of((text(), dict())),
        vec((ty(), dict()), 0..4),
        vec((ty(), dict()), 0..4),
        vec(step(), 0..8),
    )
        .prop_map(
            |((name, [private, no_inline, externalize]), composite, args, results, steps)| {
                let mut body = Body::default();
                let mut block = Block::default();
                for (index, (ty, _)) in args.iter().enumerate() {
                    let def = ValueDef::Entry {
                        index: index as u32,
                    };
                    block.args.push(body.add_value(ty.clone(), def));
                }
                let mut visible = block.args.clone();
                let args = args
                    .into_iter()
                    .zip(&block.args)
                    .map(|((ty, attrs), value)| Arg {
                        ty,
                        attrs,
                        value: *value,
                    })
                    .collect();
                block.ops = build(&mut body, None, &mut visible, &steps);
                body.region.blocks.push(block);
                Graph {
                    name: SymbolPath(name),
                    private,
                    no_inline,
                    externalize,
                    composite: composite.map(|(name, attrs)| Composite { name, attrs }),
                    args,
                    results: results
                        .into_iter()
                        .map(|(ty, attrs)| Outcome { ty, attrs })
                        .collect(),
                    attrs: AttrDict::new(),
                    body,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_printed_type_reads_back(ty in ty()) {
        let text = format!("module {{ coreai.graph @g(%a: {ty}) {{ coreai.output }} }}");
        let module = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&module.graphs[0].args[0].ty, &ty);
    }

    #[test]
    fn a_printed_attribute_reads_back(attr in attr()) {
        let text = format!("module attributes {{a = {attr}}} {{ }}");
        let module = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&module.attrs["a"], &attr);
    }

    #[test]
    fn a_printed_module_reads_back(graphs in vec(graph(), 0..4)) {
        let module = Module { graphs, ..Module::default() };
        let text = module.to_string();
        let back = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(compare(&module, &back), None, "{}", text);
        // And the text is settled: it prints the same again.
        prop_assert_eq!(back.to_string(), text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        prop_assert!(parse(&text).is_ok() || parse(&text).is_err_and(|e| e.line > 0 && e.column > 0));
    }

    #[test]
    fn no_mutation_of_a_program_makes_the_reader_panic(
        graphs in vec(graph(), 1..3),
        cut in any::<proptest::sample::Index>(),
        insert in "[\\[\\](){}<>%@#!^\"\\\\a0.:,=x?-]{0,3}",
        drop in 0usize..4,
    ) {
        let text = Module { graphs, ..Module::default() }.to_string();
        let chars: Vec<char> = text.chars().collect();
        let at = cut.index(chars.len());
        let mutated: String =
            chars[..at].iter().copied().chain(insert.chars()).chain(chars[at..].iter().skip(drop).copied()).collect();
        let result = parse(&mutated);
        prop_assert!(result.is_ok() || result.is_err_and(|e| e.line > 0));
    }
}

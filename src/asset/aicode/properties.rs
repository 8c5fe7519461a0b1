//! Properties: the attributes an op has by its definition, without names on disk.

use super::{hex, Decoder};
use crate::asset::cursor::MResult;
use crate::ir::{Attr, Op, Type};

/// One property: its printed name, and whether it may be absent.
type Field = (&'static str, bool);

const CALL: &[Field] = &[
    ("arg_attrs", false),
    ("callee", false),
    ("res_attrs", false),
];

/// The properties of an op in the order of the file, by its name there; `None` where it is not known.
fn fields(stored: &str) -> Option<&'static [Field]> {
    Some(match stored {
        "serialization.asset" => &[("reserved", true), ("version", true)],
        "dataflow.graph_v1" => &[
            ("arg_attrs", false),
            ("composite_decl", true),
            ("externalize", false),
            ("function_type", false),
            ("priv", false),
            ("sym_name", false),
            ("no_inline", false),
            ("param_decls", false),
            ("res_attrs", false),
        ],
        "dataflow.invoke_v1" => CALL,
        "dataflow.namespace_v1" => &[("sym_name", false), ("param_decls", false)],
        "dataflow.isolated_group_v1" => &[
            ("arg_attrs", false),
            ("delegate_id", false),
            ("res_attrs", false),
        ],
        "primitive.pad_v1" => &[("padding_mode", false)],
        "primitive.gelu_v1" => &[("approximate", false)],
        "primitive.interpolate_v1" | "primitive.interpolate_coordinates_v1" => {
            &[("interpolation_mode", false)]
        }
        "primitive.scatter_along_axis_v1" => &[("scatter_mode", false)],
        "primitive.scan_v1" => &[("scan_op", false)],
        "execution.target_spec_v1" => &[("compilation", false), ("spec", false)],
        _ => return None,
    })
}

impl<'a> Decoder<'a> {
    /// Reads the property entry of an op into its attributes. `result` is the type of its first
    /// result, which is the type of a constant's data.
    pub(super) fn properties(
        &mut self,
        op: &mut Op,
        stored: &str,
        index: usize,
        result: Option<&Type>,
    ) -> MResult<()> {
        let mut c = self.container.property(index);
        if stored == "primitive.constant_v1" {
            let Some(ty) = result else {
                return Err(c.error("a constant with a result", "none"));
            };
            let data = self.constant(&mut c, ty)?;
            op.attrs.insert("value".to_string(), Attr::Dense(data));
            return c.finish("the properties");
        }
        let Some(fields) = fields(stored) else {
            // Kept as they are: what they mean is not known.
            let raw = c.bytes(c.remaining())?;
            op.attrs.insert(
                "properties".to_string(),
                Attr::Opaque(format!("#aicode.properties<\"{}\">", hex(raw))),
            );
            return Ok(());
        };
        for (name, optional) in fields {
            let value = if *optional {
                let limit = self.container.attribute_count();
                match c.optional(limit, "an attribute number")? {
                    Some(index) => self.attr(index)?,
                    None => continue,
                }
            } else {
                self.attr_ref(&mut c)?
            };
            op.attrs.insert((*name).to_string(), value);
        }
        c.finish("the properties")
    }
}

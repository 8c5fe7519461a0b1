//! What is known of the ops themselves: their pretty syntax and the attributes a printer leaves out.
//!
//! A syntax is a pattern of words separated by spaces. `$0` is an operand by its place in the generic
//! form, `$*` all operands, `{0}` a region, `key=name` a keyword attribute (printed key, attribute
//! name), `:…` the types: `T` one bare type, `(T)` a list in parentheses, `T,` a bare list; then `->`
//! or `to` and the result types in the same notation, where `R` drops the parentheses of a single
//! result. Anything else stands for itself.

use super::attr::{Attr, AttrDict, KeywordSet};

/// Ops with one operand whose type is printed without parentheses.
const BARE_UNARY: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "get_shape",
    "image_to_tensor",
    "log",
    "non_zero",
    "not",
    "round",
    "rsqrt",
    "sin",
    "sinh",
    "sparse_with_bitmask_to_dense",
    "sqrt",
    "tan",
    "tanh",
    "tensor_to_image",
];

/// The syntax of ops without one of their own.
pub(super) const DEFAULT: &str = "$* : (T) -> R";

/// The pattern of an op's pretty form, or [`DEFAULT`].
pub(super) fn pattern(name: &str) -> &'static str {
    if let Some(op) = name.strip_prefix("coreai.") {
        if BARE_UNARY.contains(&op) {
            return "$* : T -> R";
        }
    }
    match name {
        "coreai.cast" => "$* : T to R",
        "coreai.expand_dims" | "coreai.shrink_dims" => "$* : (T) to R",
        "coreai.gather_nd" => "$0 at $1 : (T) to R",
        "coreai.gather_along_axis" => "$0 at $1 along $2 : (T) to R",
        "coreai.slice_update" => "$0 with $4 at ( $1 , $2 , $3 ) : (T) to R",
        "coreai.scatter_nd" => "$0 with $2 at $1 {0} : (T) to R",
        "coreai.reduce" => "$0 , $1 , init $2 {0} : (T) -> R",
        "coreai.reduce_index" => "$0 , $1 , init $2 init_index $3 {0} : (T) -> R",
        "coreai.while" => "$* {0} do {1} : (T) -> (R)",
        "coreai.if" => "$0 {0} else {1} : T -> R,",
        "coreai.output" | "coreai.yield" => "$* : T,",
        "coreai.condition" => "$* : (T)",
        "coreai.create_token" => ": R",
        "coreai.split" => "$* : (T) -> (R)",
        "coreai.gelu" => "$* approximate=approximate : T -> R",
        "coreai.pad" => "$* mode=padding_mode : (T) -> R",
        "coreai.scan" => "$* combiner=scan_op : (T) -> R",
        "coreai.scatter_along_axis" => "$* scatter_mode=scatter_mode : (T) -> R",
        "coreaix.cast"
        | "coreaix.copy_discarding_constraints"
        | "coreaix.copy_with_constraints"
        | "coreaix.view" => "( $* ) : (T) -> R",
        _ => DEFAULT,
    }
}

/// The number of regions a pattern has.
pub(super) fn regions(pattern: &str) -> usize {
    pattern.matches('{').count()
}

/// The words a keyword attribute chooses from, by the attribute's name.
pub(super) fn keyword_set(attr: &str) -> Option<KeywordSet> {
    Some(match attr {
        "approximate" => KeywordSet::GeluApproximation,
        "padding_mode" => KeywordSet::PaddingMode,
        "scan_op" => KeywordSet::ScanCombiner,
        "scatter_mode" => KeywordSet::ScatterMode,
        "interpolation_mode" => KeywordSet::InterpolationMode,
        "compilation" => KeywordSet::Compilation,
        _ => return None,
    })
}

/// The value of an attribute the printer leaves out.
pub(super) fn default_keyword(name: &str, attr: &str) -> Option<(KeywordSet, &'static str)> {
    match (name, attr) {
        ("coreai.gelu", "approximate") => Some((KeywordSet::GeluApproximation, "none")),
        ("coreai.scatter_along_axis", "scatter_mode") => Some((KeywordSet::ScatterMode, "update")),
        _ => None,
    }
}

/// Brings an op's attributes to the one form every reading shares: defaults filled in, the integer
/// code of a scan replaced by its word, empty lists dropped.
pub fn normalize(name: &str, attrs: &mut AttrDict) {
    for key in ["approximate", "scatter_mode"] {
        if let Some((set, word)) = default_keyword(name, key) {
            attrs
                .entry(key.to_string())
                .or_insert_with(|| Attr::keyword(set, word));
        }
    }
    if let Some(Attr::Int { value, .. }) = attrs.get("scan_op") {
        let words = KeywordSet::ScanCombiner.words();
        if let Some(word) = usize::try_from(*value).ok().and_then(|i| words.get(i)) {
            attrs.insert(
                "scan_op".to_string(),
                Attr::keyword(KeywordSet::ScanCombiner, *word),
            );
        }
    }
    for key in ["arg_attrs", "res_attrs"] {
        if attrs
            .get(key)
            .and_then(Attr::as_array)
            .is_some_and(<[Attr]>::is_empty)
        {
            attrs.remove(key);
        }
    }
    if attrs.get("param_decls").is_some_and(no_parameters) {
        attrs.remove("param_decls");
    }
}

/// Whether this is the empty list of parameter declarations.
pub(super) fn no_parameters(attr: &Attr) -> bool {
    match attr {
        Attr::Array(a) => a.is_empty(),
        Attr::Opaque(text) => text
            .strip_prefix("#param.decl.array<[")
            .is_some_and(|t| t.trim_start().starts_with(']')),
        _ => false,
    }
}

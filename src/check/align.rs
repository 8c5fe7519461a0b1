//! Which returned value each output of the asset is.
//!
//! Outputs keep the order of what `forward` returns. Fewer outputs than returned tensors mean that
//! some vanished (a state returned as it is, one value returned twice); more, that something was added
//! that nobody returned. Both are findings elsewhere; here the rest is still to be compared.

use super::metrics::close;
use super::pair::Pair;
use super::trace::Call;
use super::CheckError;
use crate::runtime::Tensor;

/// Beyond this many pairs the order alone decides.
const MOST_PAIRS: usize = 1 << 16;

/// For each output, its place among the returned leaves.
///
/// # Errors
/// When the trace cannot be read.
pub fn align(
    pair: &Pair<'_>,
    function: usize,
    call: &Call,
    outputs: &[(String, Tensor)],
) -> Result<Vec<Option<usize>>, CheckError> {
    let leaves: Vec<usize> = (0..call.outputs.len())
        .filter(|l| call.outputs[*l].value.is_some())
        .collect();
    let value = |l: usize| call.outputs[l].value.as_ref();
    let fits = |o: usize, l: usize| value(l).is_some_and(|v| v.shape == outputs[o].1.shape());
    let in_order =
        outputs.len() == leaves.len() && leaves.iter().enumerate().all(|(o, l)| fits(o, *l));
    if in_order || outputs.len().saturating_mul(leaves.len()) > MOST_PAIRS {
        return Ok((0..outputs.len()).map(|o| leaves.get(o).copied()).collect());
    }
    let f = &pair.functions[function];
    // A leaf that is a state after the call, or a leaf before it, has most likely vanished.
    let vanished = |at: usize| {
        let Some(own) = value(leaves[at]) else {
            return false;
        };
        let earlier = leaves[..at].iter().filter_map(|l| value(*l));
        let kept = [&call.buffers, &call.arguments];
        let states = kept.into_iter().flatten().flat_map(|m| m.values());
        earlier
            .chain(states)
            .any(|other| pair.trace.same(own, other))
    };
    let vanished: Vec<bool> = (0..leaves.len()).map(vanished).collect();
    let mut score = vec![vec![None; leaves.len()]; outputs.len()];
    for (o, row) in score.iter_mut().enumerate() {
        for (l, slot) in row.iter_mut().enumerate() {
            let Some(v) = value(leaves[l]).filter(|_| fits(o, leaves[l])) else {
                continue;
            };
            let ours = &outputs[o].1;
            let tolerance = f.tolerance(pair.options, ours.dtype(), &v.dtype);
            let equal = close(ours, &pair.trace.tensor(v)?, tolerance);
            *slot = Some(4 + 4 * i32::from(equal) - i32::from(vanished[l]));
        }
    }
    Ok(best(&score)
        .into_iter()
        .map(|l| l.map(|l| leaves[l]))
        .collect())
}

/// The pairing in order with the highest sum.
fn best(score: &[Vec<Option<i32>>]) -> Vec<Option<usize>> {
    let (n, m) = (score.len(), score.first().map_or(0, Vec::len));
    let mut table = vec![vec![0i32; m + 1]; n + 1];
    for o in (0..n).rev() {
        for l in (0..m).rev() {
            let skip = table[o + 1][l].max(table[o][l + 1]);
            let take = score[o][l].map_or(i32::MIN, |s| s + table[o + 1][l + 1]);
            table[o][l] = skip.max(take);
        }
    }
    let (mut o, mut l) = (0, 0);
    let mut pairs = vec![None; n];
    while o < n && l < m {
        let take = score[o][l].map(|s| s + table[o + 1][l + 1]);
        if take == Some(table[o][l]) {
            pairs[o] = Some(l);
            (o, l) = (o + 1, l + 1);
        } else if table[o + 1][l] == table[o][l] {
            o += 1;
        } else {
            l += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_order_is_kept_and_what_fits_best_wins() {
        assert_eq!(best(&[vec![Some(4), Some(8)]]), [Some(1)]);
        assert_eq!(best(&[vec![Some(8)], vec![Some(4)]]), [Some(0), None]);
        assert_eq!(best(&[vec![None], vec![Some(4)]]), [None, Some(0)]);
        assert_eq!(
            best(&[vec![Some(4), Some(4)], vec![Some(4), Some(8)]]),
            [Some(0), Some(1)]
        );
        assert_eq!(best(&[]), Vec::<Option<usize>>::new());
    }
}

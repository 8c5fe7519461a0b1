//! Elementwise ops, broadcasting, slices and gathers against the plainest code that does the same.

use coreai_audit::runtime::Tensor;
use proptest::prelude::*;

use super::programs::{apply, t};

/// Row-major index of a position; dimensions of 1 repeat.
fn at(index: &[usize], dims: &[usize]) -> usize {
    let skip = index.len() - dims.len();
    dims.iter()
        .zip(&index[skip..])
        .fold(0, |n, (d, i)| n * d + if *d == 1 { 0 } else { *i })
}

fn positions(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for d in dims {
        all = all
            .into_iter()
            .flat_map(|p: Vec<usize>| (0..*d).map(move |i| [p.clone(), vec![i]].concat()))
            .collect();
    }
    all
}

fn dynamic(rank: usize, element: &str) -> String {
    "?x".repeat(rank) + element
}

fn ramp(dims: &[usize]) -> Vec<f32> {
    (0..dims.iter().product::<usize>())
        .map(|i| i as f32 * 0.5 - 3.0)
        .collect()
}

proptest! {
    #[test]
    fn broadcasting_is_what_indexing_says(
        dims in prop::collection::vec(0usize..4, 0..4),
        ones in prop::collection::vec(any::<(bool, bool)>(), 4),
        dropped in 0usize..4,
    ) {
        let side = |pick: fn(&(bool, bool)) -> bool| -> Vec<usize> {
            dims.iter().zip(&ones).map(|(d, o)| if pick(o) { 1 } else { *d }).collect()
        };
        let (a, b) = (side(|o| o.0), side(|o| o.1));
        let b = b[dropped.min(b.len())..].to_vec();
        let out: Vec<usize> = (0..a.len())
            .map(|i| {
                let other = (i + b.len()).checked_sub(a.len()).map_or(1, |j| b[j]);
                if a[i] == 1 { other } else { a[i] }
            })
            .collect();
        let (x, y) = (ramp(&a), ramp(&b));
        let types = [dynamic(a.len(), "f32"), dynamic(b.len(), "f32")];
        let ours = apply(
            &[&types[0], &types[1]],
            "broadcasting_sub",
            &dynamic(out.len(), "f32"),
            &[t(&a, &x), t(&b, &y)],
        ).unwrap();
        let expected: Vec<f32> =
            positions(&out).iter().map(|p| x[at(p, &a)] - y[at(p, &b)]).collect();
        prop_assert_eq!(ours.shape(), out);
        prop_assert_eq!(ours.values::<f32>().unwrap(), expected);
    }

    #[test]
    fn slices_pick_what_stepping_picks(
        n in 0usize..7,
        m in 1usize..3,
        start in -9i32..9,
        end in -9i32..9,
        step in prop::sample::select(vec![-3i32, -2, -1, 1, 2, 3]),
    ) {
        let x = ramp(&[n, m]);
        let size = n as i32;
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let first_low = if step > 0 { 0 } else { 0.min(size - 1) };
        let from = (if start < 0 { start + size } else { start }).clamp(first_low, high.max(first_low));
        let to = (if end < low { end + size } else { end }).clamp(low, high);
        let mut rows = Vec::new();
        let mut i = from;
        while n > 0 && (if step > 0 { i < to } else { i > to }) {
            rows.push(i as usize);
            i += step;
        }
        let pair = |a: i32, b: i32| t(&[2], &[a, b]);
        let inputs: [Tensor; 4] =
            [t(&[n, m], &x), pair(start, 0), pair(end, m as i32), pair(step, 1)];
        let ours = apply(&["?x?xf32", "2xsi32", "2xsi32", "2xsi32"], "slice", "?x?xf32", &inputs).unwrap();
        let expected: Vec<f32> = rows.iter().flat_map(|r| x[r * m..(r + 1) * m].to_vec()).collect();
        prop_assert_eq!(ours.shape(), [rows.len(), m]);
        prop_assert_eq!(ours.values::<f32>().unwrap(), expected);
    }

    #[test]
    fn gathers_pick_rows_or_say_which_index_is_wild(
        n in 1usize..5,
        indices in prop::collection::vec(-7i32..7, 0..6),
    ) {
        let x = ramp(&[n, 2]);
        let inputs = [t(&[n, 2], &x), t(&[indices.len(), 1], &indices)];
        let ours = apply(&["?x2xf32", "?x1xsi32"], "gather_nd", "?x2xf32", &inputs);
        let wild = indices.iter().find(|i| **i < -(n as i32) || **i >= n as i32);
        match wild {
            Some(i) => {
                let what = format!("index {i} is outside a dimension of {n}");
                prop_assert!(ours.unwrap_err().ends_with(&what));
            }
            None => {
                let row = |i: &i32| i.rem_euclid(n as i32) as usize;
                let expected: Vec<f32> =
                    indices.iter().flat_map(|i| x[row(i) * 2..row(i) * 2 + 2].to_vec()).collect();
                prop_assert_eq!(ours.unwrap().values::<f32>().unwrap(), expected);
            }
        }
    }

    #[test]
    fn products_of_matrices_are_sums_of_products(
        (m, k, n) in (0usize..5, 0usize..9, 0usize..5),
        transposed in any::<bool>(),
    ) {
        let (x, y) = (ramp(&[m, k]), ramp(&[k, n]));
        let expected: Vec<f32> = positions(&[m, n])
            .iter()
            .map(|p| (0..k).map(|l| x[p[0] * k + l] * y[l * n + p[1]]).sum())
            .collect();
        let ours = if transposed {
            let turned: Vec<f32> =
                positions(&[n, k]).iter().map(|p| y[p[1] * n + p[0]]).collect();
            let text = "module { coreai.graph @main(%a: tensor<?x?xf32> {coreai.name = \"x\"}, \
                %b: tensor<?x?xf32> {coreai.name = \"y\"}) -> (tensor<?x?xf32> {coreai.name = \"r\"}) {\n\
                %p = coreai.constant dense<[1, 0]> : tensor<2xui32>\n\
                %t = \"coreai.transpose\"(%b, %p) : (tensor<?x?xf32>, tensor<2xui32>) -> tensor<?x?xf32>\n\
                %r = \"coreai.batch_matmul\"(%a, %t) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>\n\
                coreai.output %r : tensor<?x?xf32> } }";
            super::programs::eval(text, &[t(&[m, k], &x), t(&[n, k], &turned)]).unwrap().remove(0)
        } else {
            let types = ["?x?xf32", "?x?xf32"];
            apply(&types, "batch_matmul", "?x?xf32", &[t(&[m, k], &x), t(&[k, n], &y)]).unwrap()
        };
        prop_assert_eq!(ours.shape(), [m, n]);
        for (a, b) in ours.values::<f32>().unwrap().iter().zip(&expected) {
            prop_assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{} {}", a, b);
        }
    }
}

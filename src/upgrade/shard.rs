//! A part of the matrix for one of several machines.

use std::fmt;
use std::str::FromStr;

/// Part `k` of `n`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    k: usize,
    n: usize,
}

impl Shard {
    /// Whether a cell is in it; `cell` counts from 0 to `total` along the models of the first
    /// environment, then of the second, and so on.
    ///
    /// Parts are runs of neighbours, even but for one cell: a machine needs few of the environments.
    pub fn has(self, cell: usize, total: usize) -> bool {
        total > 0 && cell * self.n / total == self.k - 1
    }

    /// The part of as many that a cell is in.
    pub fn holder(self, cell: usize, total: usize) -> Shard {
        let k = (cell * self.n).checked_div(total).map_or(1, |k| k + 1);
        Shard { k, n: self.n }
    }

    /// Whether both are parts of as many.
    pub fn is_of_same(self, other: Shard) -> bool {
        self.n == other.n
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.k, self.n)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("{text:?}: expected a part of a whole such as 1/4");
        let (k, n) = text.split_once('/').ok_or_else(wrong)?;
        let (k, n): (usize, usize) = (
            k.parse().map_err(|_| wrong())?,
            n.parse().map_err(|_| wrong())?,
        );
        match (1..=n).contains(&k) && n <= 10_000 {
            true => Ok(Shard { k, n }),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_written_as_fractions() {
        assert_eq!("2/3".parse::<Shard>().unwrap().to_string(), "2/3");
        for wrong in [
            "", "3", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3", "1/99999",
        ] {
            let said = wrong.parse::<Shard>().unwrap_err();
            assert_eq!(
                said,
                format!("{wrong:?}: expected a part of a whole such as 1/4")
            );
        }
    }

    proptest! {
        #[test]
        fn every_cell_is_in_exactly_one_part_and_parts_are_even(total in 1usize..80, n in 1usize..12) {
            let mut sizes = vec![0usize; n];
            for cell in 0..total {
                let holders: Vec<usize> = (1..=n).filter(|&k| Shard { k, n }.has(cell, total)).collect();
                prop_assert_eq!(holders.len(), 1);
                prop_assert_eq!(Shard { k: 1, n }.holder(cell, total), Shard { k: holders[0], n });
                sizes[holders[0] - 1] += 1;
            }
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}

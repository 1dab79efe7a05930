//! Matrices whose size is a parameter of the type
//! how: clean

use std::marker::PhantomData;
use std::ops::Mul;

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Modulo<const P: u64>;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Matrix<const N: usize, M> {
    cells: [[u64; N]; N],
    of: PhantomData<M>,
}

impl<const N: usize, const P: u64> Matrix<N, Modulo<P>> {
    fn identity() -> Self {
        Self { cells: std::array::from_fn(|i| std::array::from_fn(|j| u64::from(i == j))), of: PhantomData }
    }

    fn power(self, mut exponent: u64) -> Self {
        let (mut base, mut result) = (self, Self::identity());
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * base;
            }
            base = base * base;
            exponent >>= 1;
        }
        result
    }
}

impl<const N: usize, const P: u64> Mul for Matrix<N, Modulo<P>> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let cell =
            |i: usize, j: usize| (0..N).fold(0, |sum, k| (sum + self.cells[i][k] * other.cells[k][j]) % P);
        Self { cells: std::array::from_fn(|i| std::array::from_fn(|j| cell(i, j))), of: PhantomData }
    }
}

fn fibonacci(n: u64) -> u64 {
    Matrix::<2, Modulo<1_000_007>> { cells: [[1, 1], [1, 0]], of: PhantomData }.power(n).cells[0][1]
}

#[workflow]
pub async fn const_generic_matrix(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(format!("{} {}", fibonacci(90), fibonacci(cx.random().await)))
}

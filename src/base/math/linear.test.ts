import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Random } from "../random.ts";
import { solveCg } from "./linear.ts";

fc.configureGlobal({ seed: 20 });

type Matrix = number[][];
const times = (a: Matrix) => (input: Float64Array, output: Float64Array) => {
  for (let i = 0; i < a.length; i++) output[i] = a[i]!.reduce((sum, v, j) => sum + v * input[j]!, 0);
};
const diagonalOf = (a: Matrix) => Float64Array.from(a, (row, i) => row[i]!);

// Reference implementation: Gaussian elimination with pivoting.
function eliminate(a: Matrix, b: Float64Array): number[] {
  const m = a.map((row, i) => [...row, b[i]!]);
  const n = m.length;
  for (let c = 0; c < n; c++) {
    let pivot = c;
    for (let r = c + 1; r < n; r++) if (Math.abs(m[r]![c]!) > Math.abs(m[pivot]![c]!)) pivot = r;
    [m[c], m[pivot]] = [m[pivot]!, m[c]!];
    for (let r = 0; r < n; r++) {
      if (r === c) continue;
      const factor = m[r]![c]! / m[c]![c]!;
      for (let k = c; k <= n; k++) m[r]![k]! -= factor * m[c]![k]!;
    }
  }
  return m.map((row, i) => row[n]! / row[i]!);
}

// V^-1 I + A^T S^-1 A with badly scaled rows: the shape of the equations that the solver is used for.
function normalEquations(seed: number, n: number): { a: Matrix; b: Float64Array } {
  const r = new Random(seed);
  const a: Matrix = Array.from({ length: n }, () => new Array<number>(n).fill(0));
  for (let row = 0; row < 2 * n; row++) {
    const v = Array.from({ length: n }, () => (r.bernoulli(0.3) ? r.pareto(1.1, 1) : 0));
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) a[i]![j]! += v[i]! * v[j]!;
  }
  for (let i = 0; i < n; i++) a[i]![i]! += 1;
  return { a, b: Float64Array.from({ length: n }, () => r.normal() * 100) };
}

describe("conjugate gradient", () => {
  test("finds what elimination finds", () => {
    fc.assert(
      fc.property(fc.nat(1e9), fc.integer({ min: 1, max: 12 }), (seed, n) => {
        const { a, b } = normalEquations(seed, n);
        const problem = {
          apply: times(a),
          diagonal: diagonalOf(a),
          rhs: b,
          iterations: 40 * n,
          tolerance: 1e-12,
        };
        const found = solveCg(problem);
        expect(found.outcome).toBe("converged");
        const size = Math.hypot(...found.solution);
        eliminate(a, b).forEach((x, i) => {
          expect(Math.abs(found.solution[i]! - x)).toBeLessThanOrEqual(1e-7 * size);
        });
      }),
    );
  });

  test("needs one iteration where the preconditioner is the inverse", () => {
    const diagonal = Float64Array.of(1, 1e6, 1e-6);
    const apply = (x: Float64Array, y: Float64Array) => {
      for (let i = 0; i < x.length; i++) y[i] = x[i]! * diagonal[i]!;
    };
    const found = solveCg({
      apply,
      diagonal,
      rhs: Float64Array.of(1, 2, 3),
      iterations: 9,
      tolerance: 1e-12,
    });
    expect([found.iterations, found.outcome]).toEqual([1, "converged"]);
    expect([...found.solution].map((v, i) => v * diagonal[i]!)).toEqual(
      [1, 2, 3].map((v) => expect.closeTo(v, 12)),
    );
  });

  test("reports the residual that the solution really has, also when iterations run out", () => {
    const { a, b } = normalEquations(5, 40);
    for (const iterations of [0, 3, 12]) {
      const problem = { apply: times(a), diagonal: diagonalOf(a), rhs: b, iterations, tolerance: 1e-14 };
      const found = solveCg(problem);
      const image = new Float64Array(40);
      times(a)(found.solution, image);
      const truth = Math.hypot(...b.map((v, i) => v - image[i]!)) / Math.hypot(...b);
      expect(found.iterations).toBe(iterations);
      expect(found.outcome).toBe("iterations");
      expect(Math.abs(found.relativeResidual / truth - 1)).toBeLessThan(1e-6);
    }
  });

  test("goes on from a start, and has nothing to do at the solution or for zero", () => {
    const { a, b } = normalEquations(6, 10);
    const problem = { apply: times(a), diagonal: diagonalOf(a), rhs: b, iterations: 500, tolerance: 1e-10 };
    const start = solveCg(problem).solution;
    expect(solveCg({ ...problem, start, tolerance: 1e-9 }).iterations).toBe(0);
    const zero = solveCg({ ...problem, rhs: new Float64Array(10) });
    expect([zero.iterations, zero.outcome, Math.hypot(...zero.solution)]).toEqual([0, "converged", 0]);
  });

  test("reports a matrix that is not positive definite, and refuses shapes that do not fit", () => {
    const a = [
      [1, 2],
      [2, 1],
    ];
    const problem = { apply: times(a), diagonal: diagonalOf(a), iterations: 9, tolerance: 1e-9 };
    expect(solveCg({ ...problem, rhs: Float64Array.of(1, -1) }).outcome).toBe("not-positive-definite");
    const rhs = Float64Array.of(1, 1);
    expect(() => solveCg({ ...problem, rhs, diagonal: Float64Array.of(1, 0) })).toThrow(RangeError);
    expect(() => solveCg({ ...problem, rhs, diagonal: Float64Array.of(1) })).toThrow(RangeError);
    expect(() => solveCg({ ...problem, rhs, start: Float64Array.of(1) })).toThrow(RangeError);
    const poisoned = (_: Float64Array, y: Float64Array) => y.fill(NaN);
    expect(solveCg({ ...problem, rhs, apply: poisoned }).outcome).toBe("not-positive-definite");
  });
});

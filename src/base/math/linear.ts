/**
 * Conjugate gradient with a Jacobi preconditioner for a symmetric positive definite matrix given only by its product with a vector. Each iteration costs one
 * `apply` and a few passes over vectors of length n; five vectors are allocated once.
 *
 * Symmetry is assumed, not checked. `outcome` is `converged`, `iterations` (the limit was reached; the best solution so far is returned), or
 * `not-positive-definite` (a direction without positive curvature, or a vector that is not finite).
 */

export interface CgProblem {
  /** output = A input; must overwrite all of output and keep neither array. */
  readonly apply: (input: Float64Array, output: Float64Array) => void;
  /** The diagonal of A; every entry must be positive. */
  readonly diagonal: Float64Array;
  readonly rhs: Float64Array;
  /** Maximum number of iterations. */
  readonly iterations: number;
  /** Stop when |rhs - A x| <= tolerance |rhs|. */
  readonly tolerance: number;
  /** Initial solution; zero by default. */
  readonly start?: Float64Array;
}

export interface CgSolution {
  readonly solution: Float64Array;
  readonly iterations: number;
  /** |rhs - A x| / |rhs| from the recurrence; 0 if rhs is zero. */
  readonly relativeResidual: number;
  readonly outcome: "converged" | "iterations" | "not-positive-definite";
}

export function solveCg({ apply, diagonal, rhs, iterations, tolerance, start }: CgProblem): CgSolution {
  const n = rhs.length;
  if (diagonal.length !== n || (start !== undefined && start.length !== n)) {
    throw new RangeError(`the diagonal or start does not have the ${n} entries of the right-hand side`);
  }
  for (let i = 0; i < n; i++) {
    if (!(diagonal[i]! > 0)) throw new RangeError(`diagonal entry ${i} is ${diagonal[i]}, not above zero`);
  }
  const solution = new Float64Array(n);
  const residual = Float64Array.from(rhs);
  const direction = new Float64Array(n);
  const image = new Float64Array(n);
  const scale = Math.sqrt(dot(rhs, rhs));
  if (scale === 0) return { solution, iterations: 0, relativeResidual: 0, outcome: "converged" };
  if (start !== undefined) {
    solution.set(start);
    apply(solution, image);
    for (let i = 0; i < n; i++) residual[i]! -= image[i]!;
  }
  let relativeResidual = Math.sqrt(dot(residual, residual)) / scale;
  let previous = 1;
  let done = 0;
  for (; relativeResidual > tolerance && done < iterations; done++) {
    // z = r / diagonal is not stored: only its product with r and its part of the next direction are needed.
    let product = 0;
    for (let i = 0; i < n; i++) product += (residual[i]! * residual[i]!) / diagonal[i]!;
    const beta = done === 0 ? 0 : product / previous;
    for (let i = 0; i < n; i++) direction[i] = residual[i]! / diagonal[i]! + beta * direction[i]!;
    previous = product;
    apply(direction, image);
    const curvature = dot(direction, image);
    if (!(curvature > 0 && curvature < Infinity)) {
      return { solution, iterations: done, relativeResidual, outcome: "not-positive-definite" };
    }
    const step = product / curvature;
    let square = 0;
    for (let i = 0; i < n; i++) {
      solution[i]! += step * direction[i]!;
      const r = residual[i]! - step * image[i]!;
      residual[i] = r;
      square += r * r;
    }
    relativeResidual = Math.sqrt(square) / scale;
  }
  const outcome = relativeResidual <= tolerance ? "converged" : "iterations";
  return { solution, iterations: done, relativeResidual, outcome };
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

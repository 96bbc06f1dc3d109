/**
 * Special functions and quantiles in double precision, for intervals and for tests of distributions.
 *
 * Guarantee: about 1e-13 relative error for the functions and 1e-12 for the quantiles (checked against 40-digit values), except where no relative accuracy
 * exists: lgamma and digamma of negative arguments near their zeros, and digamma near 1.4616, have an absolute error of 1e-14. Incomplete gamma and beta take
 * O(sqrt(a)) steps near a's bulk; their densities use saddle-point deviances (Loader 2000) so that large a, b do not cancel.
 * Throws a RangeError outside the domain; never returns NaN.
 */

const HALF_LOG_TWO_PI = 0.9189385332046728;
const SQRT_PI = Math.sqrt(Math.PI);
const EPSILON = 2 ** -53;
const ONE_MINUS_EULER = 0.42278433509846713;
// zeta(k) - 1 for k = 2 … 30
const ZETA_MINUS_ONE = Float64Array.of(
  ...[0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993],
  ...[0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143],
  ...[0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915],
  ...[6.124813505870483e-5, 3.058823630702049e-5, 1.528225940865187e-5, 7.637197637899763e-6],
  ...[3.81729326499984e-6, 1.908212716553939e-6, 9.539620338727962e-7, 4.769329867878064e-7],
  ...[2.38450502727733e-7, 1.1921992596531106e-7, 5.960818905125948e-8, 2.980350351465228e-8],
  ...[1.4901554828365043e-8, 7.45071178983543e-9, 3.725334024788457e-9, 1.862659723513049e-9],
  9.313274324196682e-10,
);
// Bernoulli numbers B2, B4, … B16
const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510] as const;
const STIRLING_FROM = 12;
// Limit of steps, so that a continued fraction that does not settle cannot hang. No shape below 1e12 reaches it.
const MAX_STEPS = 1e7;

/** Returns the logarithm of |Γ(x)|; Infinity at 0, -1, -2 … */
export function lgamma(x: number): number {
  if (Number.isNaN(x)) throw new RangeError("lgamma of NaN");
  if (x <= 0) {
    if (Number.isInteger(x) || x === -Infinity) return Infinity;
    return Math.log(Math.PI / Math.abs(sinPi(x))) - lgamma(1 - x);
  }
  if (x < 0.5) return lgammaTwoPlus(x) - Math.log1p(x) - Math.log(x);
  if (x < 1.5) return lgammaTwoPlus(x - 1) - Math.log1p(x - 1);
  if (x < STIRLING_FROM) {
    let product = 1;
    while (x >= 2.5) product *= --x;
    return Math.log(product) + lgammaTwoPlus(x - 2);
  }
  return (x - 0.5) * Math.log(x) - x + HALF_LOG_TWO_PI + stirlingSeries(x);
}

/** Returns the derivative of log Γ. */
export function digamma(x: number): number {
  if (!(x > 0)) {
    checkNoPole("digamma", x);
    return digamma(1 - x) - Math.PI / Math.tan(Math.PI * (x - Math.round(x)));
  }
  let shift = 0;
  for (; x < STIRLING_FROM; x++) shift -= 1 / x;
  let sum = 0;
  const square = 1 / (x * x);
  for (let k = BERNOULLI.length; k >= 1; k--) sum = (sum + BERNOULLI[k - 1]! / (2 * k)) * square;
  return shift + Math.log(x) - 0.5 / x - sum;
}

/** Returns the second derivative of log Γ. */
export function trigamma(x: number): number {
  if (!(x > 0)) {
    checkNoPole("trigamma", x);
    return (Math.PI / sinPi(x)) ** 2 - trigamma(1 - x);
  }
  let shift = 0;
  for (; x < STIRLING_FROM; x++) shift += 1 / (x * x);
  let sum = 0;
  const square = 1 / (x * x);
  for (let k = BERNOULLI.length; k >= 1; k--) sum = (sum + BERNOULLI[k - 1]!) * square;
  return shift + (1 + 0.5 / x + sum) / x;
}

export function erf(x: number): number {
  const z = Math.abs(x);
  if (z < 2) return erfSeries(x);
  return Math.sign(x) * (1 - erfc(z));
}

/** Returns 1 - erf(x) with relative accuracy in the upper tail. */
export function erfc(x: number): number {
  if (Number.isNaN(x)) throw new RangeError("erfc of NaN");
  if (x < 2) return x < -6 ? 2 : 1 - (x <= -2 ? -(1 - erfc(-x)) : erfSeries(x));
  if (x > 28) return 0;
  // Rounding x^2 would cost 2^-53 x^2 of relative accuracy: the square of a 24-bit head is exact.
  const head = Math.fround(x);
  return Math.exp(-head * head) * Math.exp(-(x - head) * (x + head)) * erfcScaled(x);
}

export function erfinv(y: number): number {
  checkRange("erfinv", y, -1, 1);
  const z = Math.abs(y);
  if (z >= 0.5) return Math.sign(y) * erfcinv(1 - z);
  let x = (SQRT_PI / 2) * y * (1 + (Math.PI / 12) * y * y);
  for (let i = 0; i < 4; i++) {
    const step = (erfSeries(x) - y) * (SQRT_PI / 2) * Math.exp(x * x);
    x -= step / (1 + x * step);
  }
  return x;
}

export function normalCdf(x: number): number {
  return 0.5 * erfc(-x * Math.SQRT1_2);
}

export function normalQuantile(p: number): number {
  checkRange("normalQuantile", p, 0, 1);
  // In the tails p is known to relative accuracy, so use erfcinv; near the centre p - 1/2 is, so use erfinv.
  if (Math.abs(p - 0.5) < 0.25) return Math.SQRT2 * erfinv(2 * (p - 0.5));
  return p < 0.5 ? -Math.SQRT2 * erfcinv(2 * p) : Math.SQRT2 * erfcinv(2 * (1 - p));
}

/** Returns P(a, x): the probability that a gamma variate of shape a is below x. */
export function regularizedGammaP(a: number, x: number): number {
  checkGamma(a, x);
  return x < a + 1 ? gammaSeries(a, x) : 1 - gammaFraction(a, x);
}

/** Returns Q(a, x) = 1 - P(a, x) with relative accuracy in the upper tail. */
export function regularizedGammaQ(a: number, x: number): number {
  checkGamma(a, x);
  return x < a + 1 ? 1 - gammaSeries(a, x) : gammaFraction(a, x);
}

/** Returns I_x(a, b): the probability that a beta variate is below x. */
export function regularizedBeta(x: number, a: number, b: number): number {
  checkRange("regularizedBeta", x, 0, 1);
  return betaShare(x, 1 - x, a, b);
}

/** Returns P(at most k successes in n trials of probability p). */
export function binomialCdf(k: number, n: number, p: number): number {
  checkRange("binomialCdf", p, 0, 1);
  if (!(n >= 0 && Number.isInteger(n)) || Number.isNaN(k))
    throw new RangeError(`binomialCdf of ${k} in ${n}`);
  k = Math.floor(k);
  if (k < 0) return 0;
  if (k >= n) return 1;
  return betaShare(1 - p, p, n - k, k + 1);
}

/** The last answer, cached: estimators ask for the same quantile for flow after flow. */
let lastStudent = { p: 0.5, df: 1, t: 0 };

export function studentQuantile(p: number, df: number): number {
  checkRange("studentQuantile", p, 0, 1);
  if (!(df > 0)) throw new RangeError(`studentQuantile with ${df} degrees of freedom`);
  if (p !== lastStudent.p || df !== lastStudent.df) lastStudent = { p, df, t: solveStudent(p, df) };
  return lastStudent.t;
}

function solveStudent(p: number, df: number): number {
  if (p === 0.5) return 0;
  if (p === 0 || p === 1) return p === 0 ? -Infinity : Infinity;
  if (df === Infinity) return normalQuantile(p);
  const sign = p < 0.5 ? -1 : 1;
  // Near the centre solve for the share between 0 and t, otherwise for the tail: whichever of the two p gives to relative accuracy.
  const central = Math.abs(p - 0.5) < 0.25;
  const target = central ? Math.abs(p - 0.5) : p < 0.5 ? p : 1 - p;
  const share = (t: number) => {
    const sum = df + t * t;
    // t^2 may overflow. Then df / t^2 underflows to the right answer only if the division is done in two steps.
    const above = sum === Infinity ? df / t / t : df / sum;
    const below = sum === Infinity ? 1 : (t * t) / sum;
    return 0.5 * (central ? betaShare(below, above, 0.5, df / 2) : betaShare(above, below, df / 2, 0.5));
  };
  const logConstant = lgamma((df + 1) / 2) - lgamma(df / 2) - 0.5 * Math.log(df * Math.PI);
  const density = (t: number) => Math.exp(logConstant - ((df + 1) / 2) * Math.log1p((t / df) * t));
  const start = Math.max(Math.abs(normalQuantile(p)), 1e-300);
  return sign * solve(target, start, share, (t) => (central ? density(t) : -density(t)));
}

export function chiSquareQuantile(p: number, df: number): number {
  checkRange("chiSquareQuantile", p, 0, 1);
  if (!(df > 0 && df < Infinity)) throw new RangeError(`chiSquareQuantile with ${df} degrees of freedom`);
  if (p === 0 || p === 1) return p === 0 ? 0 : Infinity;
  const a = df / 2;
  // Start from Wilson and Hilferty's cube if it is positive, otherwise from the first term of the series.
  const cube = 1 - 1 / (9 * a) + normalQuantile(p) / (3 * Math.sqrt(a));
  const tiny = Math.exp((Math.log(p) + lgamma(a + 1)) / a);
  const start = Math.max(cube > 0.3 ? a * cube ** 3 : tiny, 1e-300);
  const upper = p > 0.5;
  const share = (x: number) => (upper ? regularizedGammaQ(a, x) : regularizedGammaP(a, x));
  const density = (x: number) => (gammaTerm(a, x) * a) / x;
  return 2 * solve(upper ? 1 - p : p, start, share, (x) => (upper ? -density(x) : density(x)));
}

// Newton's method on the log of the share against log x, where tails and power laws are nearly straight, within a bracket that only shrinks.
function solve(
  target: number,
  start: number,
  share: (x: number) => number,
  slope: (x: number) => number,
): number {
  let low = 0;
  let high = Infinity;
  let x = start;
  const logTarget = Math.log(target);
  for (let i = 0; i < 200; i++) {
    const value = share(x);
    const gradient = slope(x);
    const error = Math.log(value) - logTarget;
    if (error === 0) return x;
    if (error > 0 === gradient > 0) high = x;
    else low = x;
    let next = x * Math.exp((-error * value) / (gradient * x));
    const settled = Math.abs(next - x) <= 4 * EPSILON * x;
    if (settled) return next;
    if (!(next > low && next < high)) {
      if (high === Infinity) next = x * 16;
      else next = low === 0 ? x / 16 : Math.sqrt(low) * Math.sqrt(high);
    }
    if (next === x || high / low <= 1 + 4 * EPSILON) return next;
    x = next;
  }
  return x;
}

// log Γ(2 + z) for |z| <= 1/2. No term cancels at z = 0, where the result is zero.
function lgammaTwoPlus(z: number): number {
  let sum = 0;
  for (let k = ZETA_MINUS_ONE.length + 1; k >= 2; k--) sum = ZETA_MINUS_ONE[k - 2]! / k - z * sum;
  return z * (ONE_MINUS_EULER + z * sum);
}

function stirlingSeries(x: number): number {
  let sum = 0;
  const square = 1 / (x * x);
  for (let k = BERNOULLI.length; k >= 1; k--) sum = sum * square + BERNOULLI[k - 1]! / (2 * k * (2 * k - 1));
  return sum / x;
}

// log Γ(a + 1) minus Stirling's leading terms.
function stirlingError(a: number): number {
  return a >= STIRLING_FROM
    ? stirlingSeries(a)
    : lgamma(a + 1) - (a + 0.5) * Math.log(a) + a - HALF_LOG_TWO_PI;
}

// x log(x / m) + m - x without cancellation near x = m.
function deviance(x: number, m: number): number {
  const difference = x - m;
  if (Math.abs(difference) >= 0.1 * (x + m)) return x * Math.log(x / m) - difference;
  const v = difference / (x + m);
  let sum = difference * v;
  let term = 2 * x * v;
  // v^2 <= 0.01, so nine terms would do.
  for (let k = 3; k < 60; k += 2) {
    term *= v * v;
    const next = sum + term / k;
    if (next === sum) break;
    sum = next;
  }
  return sum;
}

// x^a e^-x / Γ(a + 1)
function gammaTerm(a: number, x: number): number {
  if (a < 1) return Math.exp(a * Math.log(x) - x - lgamma(a + 1));
  return Math.exp(-stirlingError(a) - deviance(a, x)) / Math.sqrt(2 * Math.PI * a);
}

function gammaSeries(a: number, x: number): number {
  if (x === 0) return 0;
  let sum = 1;
  let term = 1;
  for (let n = a + 1; term > sum * EPSILON; n++) sum += term *= x / n;
  return Math.min(1, sum * gammaTerm(a, x));
}

function gammaFraction(a: number, x: number): number {
  if (x === Infinity) return 0;
  // Lentz's method on 1/(x+1-a- 1(1-a)/(x+3-a- …)); no denominator vanishes for x >= a + 1.
  let b = x + 1 - a;
  let d = 1 / b;
  let c = Infinity;
  let value = d;
  for (let n = 1; n < MAX_STEPS; n++) {
    const numerator = -n * (n - a);
    b += 2;
    d = 1 / (b + numerator * d);
    c = b + numerator / c;
    value *= c * d;
    if (Math.abs(c * d - 1) <= 2 * EPSILON || numerator === 0) break;
  }
  return Math.min(1, value * gammaTerm(a, x) * a);
}

// Returns I_x(a, b). y = 1 - x is a parameter because computing it from x may lose precision.
function betaShare(x: number, y: number, a: number, b: number): number {
  if (!(a > 0 && b > 0 && a < Infinity && b < Infinity))
    throw new RangeError(`a beta of shapes ${a} and ${b}`);
  if (x === 0) return 0;
  if (y === 0) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaFraction(y, x, b, a);
  return betaFraction(x, y, a, b);
}

function betaFraction(x: number, y: number, a: number, b: number): number {
  const n = a + b;
  const errors = stirlingError(n) - stirlingError(a) - stirlingError(b);
  const term =
    Math.exp(errors - deviance(a, n * x) - deviance(b, n * y)) * Math.sqrt((n / (2 * Math.PI * a)) * (1 / b));
  // Lentz's method on the fraction of DLMF 8.17.22.
  let c = 1;
  let d = 1 / (1 - (n * x) / (a + 1));
  let value = d;
  for (let m = 1; m < MAX_STEPS; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    value *= c * d;
    const odd = (-(a + m) * (n + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    value *= c * d;
    if (Math.abs(c * d - 1) <= 2 * EPSILON) break;
  }
  return Math.min(1, (term * b * value) / n);
}

// 2/sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!: every term has the same sign.
function erfSeries(x: number): number {
  const square = 2 * x * x;
  let sum = 1;
  let term = 1;
  for (let n = 3; term > sum * EPSILON; n += 2) sum += term *= square / n;
  return (2 / SQRT_PI) * x * Math.exp(-x * x) * sum;
}

// e^(x^2) erfc(x) for x >= 2 by its continued fraction, from the far end; 200 / x^2 levels leave an error below 1e-17.
function erfcScaled(x: number): number {
  let tail = x;
  for (let n = Math.ceil(8 + 200 / (x * x)); n >= 1; n--) tail = x + n / 2 / tail;
  return 1 / (SQRT_PI * tail);
}

// Returns the x with erfc(x) = q, for 0 <= q <= 1.
function erfcinv(q: number): number {
  if (q === 0) return Infinity;
  if (q === 1) return 0;
  // Winitzki's approximation as the start, good to a few thousandths.
  const log = Math.log(q * (2 - q));
  const t = 2 / (Math.PI * 0.147) + log / 2;
  let x = Math.sqrt(Math.sqrt(t * t - log / 0.147) - t);
  for (let i = 0; i < 5; i++) {
    if (x > 2.5) {
      // Newton's method on the logarithm, which neither underflows nor bends in the far tail.
      const scaled = erfcScaled(x);
      x += (Math.log(scaled) - x * x - Math.log(q)) * scaled * (SQRT_PI / 2);
    } else {
      const step = (q - erfc(x)) * (SQRT_PI / 2) * Math.exp(x * x);
      x -= step / (1 + x * step);
    }
  }
  return x;
}

function sinPi(x: number): number {
  const near = Math.round(x);
  const s = Math.sin(Math.PI * (x - near));
  return near % 2 === 0 ? s : -s;
}

function checkRange(name: string, x: number, low: number, high: number): void {
  if (!(x >= low && x <= high)) throw new RangeError(`${name} of ${x}, outside of [${low}, ${high}]`);
}

function checkGamma(a: number, x: number): void {
  if (!(a > 0 && a < Infinity && x >= 0)) throw new RangeError(`an incomplete gamma of shape ${a} at ${x}`);
}

function checkNoPole(name: string, x: number): void {
  if (Number.isNaN(x) || Number.isInteger(x) || x === -Infinity) throw new RangeError(`${name} of ${x}`);
}
